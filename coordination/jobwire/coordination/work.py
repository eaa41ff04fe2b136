"""Threads of work stand on jobs: claim, renew, update, done, fail, cancel are the registry's and the job's.

The job's record is the truth of execution; what is said with it goes into the thread by the steps of
`projection`. Free threads, which ask for no work, are ended in the store alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination import work_claim
from jobwire.coordination.reading import thread_of
from jobwire.coordination.thread import ThreadStatus
from jobwire.coordination.thread_requests import QUESTION
from jobwire.coordination.work_end import cancel, end_free
from jobwire.coordination.work_seat import WorkSeat
from jobwire.coordination.work_words import (
    ASKS,
    JobWords,
    Worded,
    addressed,
    check_words,
    in_job,
    mention,
    said_before,
    with_request,
)
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobwire.coordination.handling.tries import Handled
    from jobwire.coordination.lease_file import LeaseToken
    from jobwire.coordination.message import NewMessage
    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.work_claim import Claimed, Shape
    from jobwire.registry.store import RecordStore

_EVENTS = {ThreadStatus.IN_PROGRESS: "progress", ThreadStatus.BLOCKED: ASKS}
# In the data of a job's last event: no retry mends its failure.
PERMANENT = "permanent"
_ENDS = {"completed": ThreadStatus.DONE, "error": ThreadStatus.FAILED}


class ThreadWork:
    """The work of one agent in the threads of a store, under its name and incarnation.

    Every method may raise NotFoundError (thread_not_found), LockTimeoutError and StorageError. Needs no
    process; one that looks after the home is told of what is to be sent, and not waited for.
    `keeps_leases`: what `claim` grants is kept in the home, so that the next command need not name it.
    """

    def __init__(
        self,
        store: CoordinationStore,
        agent: str,
        *,
        incarnation: str = "",
        environ: Mapping[str, str] | None = None,
        keeps_leases: bool = True,
    ) -> None:
        self.store = store
        self.agent = agent
        self.incarnation = incarnation
        self.seat = WorkSeat(
            store,
            agent,
            incarnation=incarnation,
            environ=dict(os.environ if environ is None else environ),
            keeps_leases=keeps_leases,
        )

    @property
    def records(self) -> RecordStore:
        """The records of the home."""
        return self.seat.records

    def claim(
        self,
        thread_id: str,
        seconds: float = DEFAULT_LEASE_SECONDS,
        *,
        settles: bool = True,
        shape: Shape | None = None,
    ) -> Claimed:
        """Take the thread's work, for nobody but us; our own claim again renews it.

        What we were sent in the thread is done with that, where it `settles`. `shape` changes the job that
        is registered. Raises ConflictError: lease_conflict with holder and end, owner_mismatch,
        already_terminal.
        """
        return work_claim.claim(self.seat, thread_id, seconds, settles=settles, shape=shape)

    def renew(self, thread_id: str, seconds: float | None = None, *, token: str | None = None) -> Claimed:
        """Extend the lease by what was granted, or by `seconds`; raises ConflictError (lease_lost)."""
        return work_claim.renew(self.seat, thread_id, seconds, token=token)

    def update(
        self, new: NewMessage, status: str, *, token: str | None = None, choices: Sequence[str] = ()
    ) -> Worded:
        """Say how the work goes: `in_progress`, or `blocked` with what is missing.

        What is missing is a request of the job, with `choices` for an answer: the page, `jobwire answer` and
        an answer in the thread settle it, and so does the next update.
        """
        if status not in _EVENTS:
            raise InvalidInputError(
                f"an update makes no thread {status!r}",
                hint="in_progress or blocked",
                code="illegal_transition",
            )
        event = _EVENTS[ThreadStatus(status)]
        if event == ASKS:
            # Whoever waits for a reply waits behind it.
            new = new._replace(kind=QUESTION)
            check_words(new, event)
        return self._report(JobWords(event, new, choices=tuple(choices)), token)

    def done(self, new: NewMessage, *, token: str | None = None) -> Worded:
        """Say that the work is done, with its result."""
        return self._end(JobWords("completed", new), token)

    def fail(self, new: NewMessage, *, token: str | None = None, permanent: bool = False) -> Worded:
        """Say that the work failed, and why; `permanent`: no retry mends it."""
        return self._end(JobWords("error", new, {PERMANENT: True} if permanent else {}), token)

    def finish(
        self,
        new: NewMessage,
        *,
        good: bool,
        token: str,
        handled: Handled,
        data: Mapping[str, object] | None = None,
    ) -> Worded:
        """Say that the work of a delivery is done, or that this try of it failed; see `handling.tries`.

        `data` goes into the job's last event.
        """
        event = "completed" if good else "error"
        data = {**(data or {}), PERMANENT: True} if handled.permanent else data or {}
        return self._end(JobWords(event, new, data, handled=handled), token)

    def give_back(self, token: LeaseToken, reason: str) -> None:
        """Give a job back: it is pending as its next attempt, or in error after the last one allowed.

        Raises StoppedError where it is no longer ours.
        """
        work_claim.give_back(self.seat, token, reason)

    def cancel(self, thread_id: str, reason: str = "", *, message_id: str = "") -> Worded:
        """Cancel the thread: its creator, its assignee, a lead or a person may."""
        return cancel(self.seat, thread_id, reason, message_id=message_id)

    def mention(self, job_id: str, seq: int) -> None:
        """Tell a registry process that there is something to send; without one the next publish sends it."""
        mention(self.store, job_id, seq)

    def _end(self, words: JobWords, token: str | None) -> Worded:
        check_words(words.new, words.event)
        return self._report(words._replace(new=words.new._replace(kind="result")), token)

    def _report(self, words: JobWords, token: str | None) -> Worded:
        thread = thread_of(self.store, str(words.new.thread_id))
        new = addressed(self.seat, thread, words.new)
        if words.event == ASKS:
            new = with_request(thread, new)
        if (before := said_before(self.store, new)) is not None:
            return Worded(before, thread)
        if not thread.work and thread.job_id is None and words.event in _ENDS:
            return end_free(self.seat, thread, new, _ENDS[words.event])
        thread = self.seat.working(thread.thread_id)
        return in_job(self.seat, thread, words._replace(new=new), token)
