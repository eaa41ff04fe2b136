"""Threads of work stand on jobs: claim, renew, update, done, fail, cancel are the registry's and the job's.

The job's record is the truth of execution; what is said with it goes into the thread by the steps of
`projection`. Free threads, which ask for no work, are ended in the store alone.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.lease_file import LeaseToken
from jobwire.coordination.marks import catch_up, unmark
from jobwire.coordination.message import MAX_SUBJECT
from jobwire.coordination.projection import end_unwanted, job_key, project, settle
from jobwire.coordination.reading import message_of, messages_of, thread_of
from jobwire.coordination.stored import thread_json
from jobwire.coordination.taking import settle_in_thread
from jobwire.coordination.thread import ThreadStatus, check_may_claim
from jobwire.coordination.thread_requests import QUESTION
from jobwire.coordination.work_end import cancel, end_free
from jobwire.coordination.work_seat import WorkSeat, over
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
from jobwire.core import lease
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_INSTRUCTIONS
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.lease import LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import Priority
from jobwire.registry.deadlines import overdue
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobwire.coordination.handling.tries import Handled
    from jobwire.coordination.message import NewMessage
    from jobwire.coordination.thread import InboxThread
    from jobwire.registry.store import LockedRecord

    # How a caller changes the job that a claim registers.
    Shape = Callable[[JobSpec], JobSpec]

_EVENTS = {ThreadStatus.IN_PROGRESS: "progress", ThreadStatus.BLOCKED: ASKS}
# In the data of a job's last event: no retry mends its failure.
PERMANENT = "permanent"
_ENDS = {"completed": ThreadStatus.DONE, "error": ThreadStatus.FAILED}
_log = logging.getLogger("jobwire.coordination")


class Claimed(NamedTuple):
    """A thread that is ours: `token` fences what we say in it."""

    thread: InboxThread
    token: LeaseToken
    expires_at: str
    event_id: int

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "thread": thread_json(self.thread),
            "lease_token": str(self.token),
            "expires_at": self.expires_at,
            "event_id": self.event_id,
        }


class ThreadWork(WorkSeat):
    """The work of one agent in the threads of a store.

    Every method may raise NotFoundError (thread_not_found), LockTimeoutError and StorageError. Needs no
    process; one that looks after the home is told of what is to be sent, and not waited for.
    """

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
        store, grant = self.store, LeaseGrant(self.agent, seconds)
        lease.grant(grant, store.clock.now())
        catch_up(store)
        thread = thread_of(store, thread_id)
        job_id = thread.job_id
        if job_id is None or thread.ended:
            self._check_task(thread)
            check_may_claim(thread, self.agent)
            job_id = self._register(thread, grant, shape)
        with self.records.locked(job_id) as locked:
            settle(store, locked)
            self._take(thread, locked, grant)
            with store.changing() as change:
                project(change, locked.record, incarnation=self.incarnation)
                if settles:
                    settle_in_thread(change, self.agent, thread_id, change.latest_event())
                last = change.latest_event()
                after = thread_of(change, thread_id)
            if thread.task_id and (why := end_unwanted(store, locked)):
                raise over(thread, f"{locked.record.status}: {why}")
            unmark(store, job_id)
            record = locked.record
            token = LeaseToken(record.job_id, record.attempt)
            if (kept := self.lease_file(thread_id)) is not None:
                kept.write(token)
        return Claimed(after, token, record.lease.expires_at if record.lease else "", last)

    def renew(self, thread_id: str, seconds: float | None = None, *, token: str | None = None) -> Claimed:
        """Extend the lease by what was granted, or by `seconds`; raises ConflictError (lease_lost)."""
        store, thread = self.store, self.working(thread_id)
        with self.records.locked(str(thread.job_id)) as locked:
            settle(store, locked)
            named = self.check_holder(thread, locked.record, token)
            granted = locked.record.lease.seconds if locked.record.lease is not None else None
            grant = LeaseGrant(self.agent, seconds or granted or DEFAULT_LEASE_SECONDS)
            record = fold.renew(locked.record, grant, store.clock.now())
            locked.replace(record, cause=f"renewed by {self.agent}")
            with store.changing() as change:
                project(change, record)
                after, last = thread_of(change, thread_id), change.latest_event()
            unmark(store, record.job_id)
        return Claimed(after, named, record.lease.expires_at if record.lease else "", last)

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
        with closing(JobQueue(self.records, warn=_log.warning)) as queue:
            queue.release(token.job_id, attempt=token.attempt, reason=reason)

    def cancel(self, thread_id: str, reason: str = "", *, message_id: str = "") -> Worded:
        """Cancel the thread: its creator, its assignee, a lead or a person may."""
        return cancel(self, thread_id, reason, message_id=message_id)

    def mention(self, job_id: str, seq: int) -> None:
        """Tell a registry process that there is something to send; without one the next publish sends it."""
        mention(self.store, job_id, seq)

    def _end(self, words: JobWords, token: str | None) -> Worded:
        check_words(words.new, words.event)
        return self._report(words._replace(new=words.new._replace(kind="result")), token)

    def _report(self, words: JobWords, token: str | None) -> Worded:
        thread = thread_of(self.store, str(words.new.thread_id))
        new = addressed(self, thread, words.new)
        if words.event == ASKS:
            new = with_request(thread, new)
        if (before := said_before(self.store, new)) is not None:
            return Worded(before, thread)
        if not thread.work and thread.job_id is None and words.event in _ENDS:
            return end_free(self, thread, new, _ENDS[words.event])
        thread = self.working(thread.thread_id)
        return in_job(self, thread, words._replace(new=new), token)

    def _check_task(self, thread: InboxThread) -> None:
        if thread.task_id:
            from jobwire.coordination.tasks.following import check_claim  # noqa: PLC0415 - of tasks alone

            check_claim(self.store, thread, self.agent, self.store.now_ms)

    def _register(self, thread: InboxThread, grant: LeaseGrant, shape: Shape | None) -> str:
        """Make the thread's job, running and ours at once, or find the one that a crash left."""
        store = self.store
        # Asked again, it is the last request that is worked on.
        rows = store.rows("last_task_in", {"thread_id": thread.thread_id})
        asked = (
            [message_of(store, int(rows[0][0]))] if rows else messages_of(store, thread.thread_id, limit=1)
        )
        text = asked[0].full_body(BlobFolder(store.home)) if asked else ""
        spec = JobSpec(
            title=thread.subject[:MAX_SUBJECT],
            instructions=text[:MAX_INSTRUCTIONS],
            agent_session=thread.addressed_to or None,
            priority=Priority(thread.priority),
            idempotency_key=job_key(store, thread),
            thread=thread.thread_id,
        )
        with closing(JobQueue(self.records, warn=_log.warning)) as queue:
            return queue.register(spec if shape is None else shape(spec), grant).job_id

    def _take(self, thread: InboxThread, locked: LockedRecord, grant: LeaseGrant) -> None:
        """Claim the record under its lock: free, ours already, or with a lease that ran out."""
        now = self.store.clock.now()
        moved = overdue(locked.record, now, until=now, new_token=new_token)
        if moved is not None:
            locked.replace(moved[0], cause=moved[1])
        record = locked.record
        if record.terminal:
            raise over(thread, str(record.status))
        if record.status is Status.RUNNING and record.lease is not None:
            if not self.is_mine(thread.thread_id, record):
                holder, until = record.lease[:2]
                raise ConflictError(
                    f"thread {thread.thread_id} is held by {holder} until {until}",
                    hint="wait until then, or ask the holder",
                    code="lease_conflict",
                    holder=holder,
                    until=until,
                )
            locked.replace(fold.renew(record, grant, now), cause=f"renewed by {grant.owner}")
            return
        check_may_claim(thread._replace(assigned_to=thread.addressed_to, status="pending"), self.agent)
        locked.replace(fold.claim(record, grant, now), cause=f"claimed by {grant.owner}")
