"""Threads of work stand on jobs: claim, renew, update, done, fail, cancel are the registry's and the job's.

The job's record is the truth of execution; what is said with it goes into the thread by the steps of
`projection`. Free threads, which ask for no work, are ended in the store alone.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.lease_file import FOLDER, VARIABLE, LeaseFile, LeaseToken, lease_lost, token_for
from jobwire.coordination.marks import catch_up, unmark
from jobwire.coordination.message import MAX_SUBJECT, NewMessage, check_message, digest_of
from jobwire.coordination.projection import (
    end_unwanted,
    is_planned,
    job_key,
    move,
    prepare,
    project,
    publish,
    settle,
)
from jobwire.coordination.reading import message_of, messages_of, part_in, thread_of, thread_of_job
from jobwire.coordination.routing.route import copied, route_end
from jobwire.coordination.sending import Bulk, Posted, already, new_id, write
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.taking import STORE_AGENT, settle_in_thread
from jobwire.coordination.thread import (
    InboxThread,
    ThreadStatus,
    check_may_claim,
    check_may_end,
    check_open_thread,
)
from jobwire.coordination.thread_requests import QUESTION, asking, request_id_of, settling
from jobwire.core import lease
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_INSTRUCTIONS
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError
from jobwire.core.lease import LeaseGrant
from jobwire.core.redaction import Redactor
from jobwire.core.signature import new_token
from jobwire.delivery.handover import HandOver
from jobwire.delivery.signing import Draft, sign_next
from jobwire.jobs import fold
from jobwire.jobs.event import MAX_DETAIL
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import THREAD, Priority
from jobwire.registry.audit import PUBLISHER
from jobwire.registry.deadlines import overdue
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec, check_reason
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobwire.coordination.handling.tries import Handled
    from jobwire.coordination.store import CoordinationStore
    from jobwire.jobs.record import JobRecord
    from jobwire.registry.store import LockedRecord

    # How a caller changes the job that a claim registers.
    Shape = Callable[[JobSpec], JobSpec]

_ASKS = "permission_required"
_EVENTS = {ThreadStatus.IN_PROGRESS: "progress", ThreadStatus.BLOCKED: _ASKS}
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


class Worded(NamedTuple):
    """What was said in a thread, and the thread after it."""

    posted: Posted
    thread: InboxThread


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
        self._environ = dict(os.environ if environ is None else environ)
        self._keeps_leases = keeps_leases
        self.records = RecordStore(store.home, clock=store.clock)

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
        grant = LeaseGrant(self.agent, seconds)
        lease.grant(grant, self.store.clock.now())
        catch_up(self.store)
        thread = thread_of(self.store, thread_id)
        job_id = thread.job_id
        if job_id is None or thread.ended:
            self._check_task(thread)
            check_may_claim(thread, self.agent)
            job_id = self._register(thread, grant, shape)
        with self.records.locked(job_id) as locked:
            settle(self.store, locked)
            self._take(thread, locked, grant)
            with self.store.changing() as change:
                project(change, locked.record, incarnation=self.incarnation)
                if settles:
                    settle_in_thread(change, self.agent, thread_id, change.latest_event())
                last = change.latest_event()
                after = thread_of(change, thread_id)
            if thread.task_id and (why := end_unwanted(self.store, locked)):
                raise _over(thread, f"{locked.record.status}: {why}")
            unmark(self.store, job_id)
            record = locked.record
            token = LeaseToken(record.job_id, record.attempt)
            if (kept := self._lease_file(thread_id)) is not None:
                kept.write(token)
        held = record.lease.expires_at if record.lease is not None else ""
        return Claimed(after, token, held, last)

    def renew(self, thread_id: str, seconds: float | None = None, *, token: str | None = None) -> Claimed:
        """Extend the lease by what was granted, or by `seconds`; raises ConflictError (lease_lost)."""
        thread = self._working(thread_id)
        with self.records.locked(str(thread.job_id)) as locked:
            settle(self.store, locked)
            named = self._check_holder(thread, locked.record, token)
            granted = locked.record.lease.seconds if locked.record.lease is not None else None
            grant = LeaseGrant(self.agent, seconds or granted or DEFAULT_LEASE_SECONDS)
            record = fold.renew(locked.record, grant, self.store.clock.now())
            locked.replace(record, cause=f"renewed by {self.agent}")
            with self.store.changing() as change:
                project(change, record)
                after, last = thread_of(change, thread_id), change.latest_event()
            unmark(self.store, record.job_id)
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
        if blocked := status == ThreadStatus.BLOCKED:
            # Whoever waits for a reply waits behind it.
            new = new._replace(kind=QUESTION)
        return self._report(
            new, _EVENTS[ThreadStatus(status)], token, needs_words=blocked, choices=tuple(choices)
        )

    def done(self, new: NewMessage, *, token: str | None = None) -> Worded:
        """Say that the work is done, with its result."""
        return self._report(new._replace(kind="result"), "completed", token, needs_words=True)

    def fail(self, new: NewMessage, *, token: str | None = None, permanent: bool = False) -> Worded:
        """Say that the work failed, and why; `permanent`: no retry mends it."""
        data = {PERMANENT: True} if permanent else None
        return self._report(new._replace(kind="result"), "error", token, needs_words=True, data=data)

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
        new = new._replace(kind="result")
        if handled.permanent:
            data = {**(data or {}), PERMANENT: True}
        return self._report(new, event, token, needs_words=True, handled=handled, data=data)

    def give_back(self, token: LeaseToken, reason: str) -> None:
        """Give a job back: it is pending as its next attempt, or in error after the last one allowed.

        Raises StoppedError where it is no longer ours.
        """
        queue = JobQueue(self.records, warn=_log.warning)
        try:
            queue.release(token.job_id, attempt=token.attempt, reason=reason)
        finally:
            queue.close()

    def cancel(self, thread_id: str, reason: str = "", *, message_id: str = "") -> Worded:
        """Cancel the thread: its creator, its assignee, a lead or a person may."""
        check_reason(reason)
        catch_up(self.store)
        thread = thread_of(self.store, thread_id)
        new = self._addressed(
            thread,
            NewMessage(
                self.agent,
                kind="control",
                type="cancelled",
                id=message_id,
                thread_id=thread_id,
                summary=reason or "cancelled",
            ),
        )
        if (before := self._before(new)) is not None:
            return Worded(before, thread)
        self._check_may_end(thread)
        if thread.job_id is None or thread.ended:
            return self._end_free(thread, new, ThreadStatus.CANCELLED)
        large = Bulk.inline(new)
        with self.records.locked(thread.job_id) as locked:
            settle(self.store, locked)
            if locked.record.terminal:
                raise _over(thread, str(locked.record.status))
            prepared = prepare(self.store, locked, new, large, cancels=True)
            try:
                after = fold.cancel(locked.record, self.store.clock.now(), new.summary)
                locked.replace(after, cause=new.summary, op=new.id)
            except JobwireError:
                settle(self.store, locked)
                raise
            with self.store.changing() as change:
                posted = publish(change, prepared, locked.record)
                ended = thread_of(change, thread_id)
            unmark(self.store, thread.job_id)
        return Worded(posted, ended)

    def _report(
        self,
        new: NewMessage,
        event: str,
        token: str | None,
        *,
        needs_words: bool,
        choices: tuple[str, ...] = (),
        handled: Handled | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Worded:
        thread = thread_of(self.store, str(new.thread_id))
        if needs_words and not (new.summary or new.body):
            raise InvalidInputError(
                "say in --summary what is missing" if event == _ASKS else "say it in --summary",
                hint="whoever reads it knows no more than that",
            )
        new = self._addressed(thread, new)
        if event == _ASKS and thread.job_id is not None:
            new = new._replace(correlation_id=request_id_of(thread.job_id, new.id))
        if (before := self._before(new)) is not None:
            return Worded(before, thread)
        if not thread.work and thread.job_id is None and event in _ENDS:
            self._check_may_end(thread)
            return self._end_free(thread, new, _ENDS[event])
        thread = self._working(thread.thread_id)
        large = Bulk.of(new, BlobFolder(self.store.home))
        with self.records.locked(str(thread.job_id)) as locked:
            settle(self.store, locked)
            self._check_holder(thread, locked.record, token)
            prepared = prepare(self.store, locked, new, large, handled=handled)
            try:
                self._say(locked, event, new, choices, data or {})
            except JobwireError:
                settle(self.store, locked)
                raise
            with self.store.changing() as change:
                posted = publish(change, prepared, locked.record)
                if locked.record.terminal and handled is None:
                    settle_in_thread(change, self.agent, thread.thread_id, posted.event_id)
                after = thread_of(change, thread.thread_id)
            unmark(self.store, str(thread.job_id))
            record = locked.record
        over = after.ended or after.job_id != record.job_id
        if over and (kept := self._lease_file(thread.thread_id)) is not None:
            kept.remove()
        self.mention(record.job_id, record.last_seq)
        return Worded(posted, after)

    def _say(
        self,
        locked: LockedRecord,
        event: str,
        new: NewMessage,
        choices: tuple[str, ...],
        data: Mapping[str, object],
    ) -> None:
        """Append the job's signed event, with the message's id as its op; `started` before the first."""
        now = self.store.clock.now()
        record = locked.record
        if record.last_seq == record.attempt_seq:
            started, signed = sign_next(record, Draft("started"), seq=record.last_seq + 1, now=now)
            record = locked.apply(started, signed.payload, source=PUBLISHER)
        # The message stays on this disk; what goes over the wire holds no path and no secret.
        redactor = Redactor(self._environ)
        about = asking(record, new, redactor, choices) if event == _ASKS else {}
        about = settling(record) if event == "progress" else about
        draft = Draft(event, redactor.redact(new.summary)[:MAX_DETAIL], {**data, "op": new.id, **about})
        said, signed = sign_next(record, draft, seq=record.last_seq + 1, now=now)
        locked.apply(said, signed.payload, source=PUBLISHER)

    def _register(self, thread: InboxThread, grant: LeaseGrant, shape: Shape | None) -> str:
        """Make the thread's job, running and ours at once, or find the one that a crash left."""
        # Asked again, it is the last request that is worked on.
        rows = self.store.rows("last_task_in", {"thread_id": thread.thread_id})
        asked = (
            [message_of(self.store, int(rows[0][0]))]
            if rows
            else messages_of(self.store, thread.thread_id, limit=1)
        )
        text = asked[0].full_body(BlobFolder(self.store.home)) if asked else ""
        spec = JobSpec(
            title=thread.subject[:MAX_SUBJECT],
            instructions=text[:MAX_INSTRUCTIONS],
            agent_session=thread.addressed_to or None,
            priority=Priority(thread.priority),
            idempotency_key=job_key(self.store, thread),
            thread=thread.thread_id,
        )
        queue = JobQueue(self.records, warn=_log.warning)
        try:
            return queue.register(spec if shape is None else shape(spec), grant).job_id
        finally:
            queue.close()

    def _take(self, thread: InboxThread, locked: LockedRecord, grant: LeaseGrant) -> None:
        """Claim the record under its lock: free, ours already, or with a lease that ran out."""
        now = self.store.clock.now()
        moved = overdue(locked.record, now, until=now, new_token=new_token)
        if moved is not None:
            locked.replace(moved[0], cause=moved[1])
        record = locked.record
        if record.terminal:
            raise _over(thread, str(record.status))
        if record.status is Status.RUNNING and record.lease is not None:
            if not self._is_mine(thread.thread_id, record):
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

    def _is_mine(self, thread_id: str, record: JobRecord) -> bool:
        if not lease.holds(record.lease, self.agent):
            return False
        held = next(iter(self.store.rows("lease", {"thread_id": thread_id})), None)
        token = str(LeaseToken(record.job_id, record.attempt))
        return held is None or held[1] != token or held[5] == self.incarnation

    def _working(self, thread_id: str) -> InboxThread:
        """Return a thread that has a job; raises ConflictError (lease_lost) where nobody holds it."""
        thread = thread_of(self.store, thread_id)
        if thread.job_id is None:
            check_open_thread(thread)
            raise lease_lost(thread_id, "nobody has claimed it")
        return thread

    def _check_holder(self, thread: InboxThread, record: JobRecord, given: str | None) -> LeaseToken:
        """Return the token of the holder that we are; raises ConflictError for anybody else."""
        if record.terminal:
            raise _over(thread, str(record.status))
        inherited = self._environ.get(VARIABLE)
        named = token_for(
            given, inherited, self._lease_file(thread.thread_id), record.job_id, thread.thread_id
        )
        if named != LeaseToken(record.job_id, record.attempt) or not lease.holds(record.lease, self.agent):
            holder = record.lease.owner if record.lease is not None else "nobody"
            raise lease_lost(thread.thread_id, f"it is attempt {record.attempt} now, held by {holder}")
        return named

    def _check_task(self, thread: InboxThread) -> None:
        if thread.task_id:
            from jobwire.coordination.tasks.following import check_claim  # noqa: PLC0415 - of tasks alone

            check_claim(self.store, thread, self.agent, int(self.store.clock.now() * 1000))

    def _check_may_end(self, thread: InboxThread) -> None:
        standing = part_in(self.store, thread.thread_id, self.agent)
        if thread.task_id:
            from jobwire.coordination.tasks.following import check_cancel  # noqa: PLC0415 - of tasks alone

            check_cancel(self.store, thread, self.agent, leads=standing.leads)
        check_may_end(thread, self.agent, leads=standing.leads, takes_part=standing.takes_part)

    def _end_free(self, thread: InboxThread, new: NewMessage, status: ThreadStatus) -> Worded:
        check_open_thread(thread)
        large = Bulk.of(new, BlobFolder(self.store.home))
        with self.store.changing() as change:
            now = thread_of(change, thread.thread_id)
            check_open_thread(now)
            if now.job_id is not None:
                raise lease_lost(thread.thread_id, "somebody claimed it just now")
            receipt = copied(change, new, now)
            posted = write(change, receipt, large, digest_of(new))
            number = change.event(f"thread_{status}", source=self.agent, thread_id=thread.thread_id)
            move(change, now._replace(status=status, updated_at=change.at, changed=number))
            route_end(change, posted, receipt, large, final=True)
            settle_in_thread(change, self.agent, thread.thread_id, number)
            if is_planned(change, now):
                from jobwire.coordination.tasks.following import withdraw  # noqa: PLC0415 - as above

                withdraw(change, now, self.agent, new.summary)
            return Worded(posted._replace(event_id=number), thread_of(change, thread.thread_id))

    def _addressed(self, thread: InboxThread, new: NewMessage) -> NewMessage:
        """Return the message with an id and its recipients: who asked, and on cancelling who works."""
        to = new.to or tuple(
            name
            for name in dict.fromkeys((thread.created_by, thread.assigned_to))
            if name not in {"", self.agent, STORE_AGENT}
        )
        return check_message(new._replace(to=to, id=new.id or new_id(), run_id=thread.run_id))

    def _before(self, new: NewMessage) -> Posted | None:
        rows = self.store.rows("message", {"id": new.id})
        return already(InboxMessage(*rows[0]), digest_of(new)) if rows else None

    def _lease_file(self, thread_id: str) -> LeaseFile | None:
        if not self._keeps_leases:
            return None
        return LeaseFile(f"{self.store.home}/{FOLDER}", self.agent, self.incarnation, thread_id)

    def mention(self, job_id: str, seq: int) -> None:
        """Tell a registry process that there is something to send; without one the next publish sends it."""
        handover = HandOver(self.store.home, wishes={}, expiry_seconds=None, clock=self.store.clock)
        handover.mention(job_id, seq)


def _over(thread: InboxThread, status: str) -> ConflictError:
    return ConflictError(
        f"thread {thread.thread_id} is over: its job is {status}",
        hint="send a new task into it, or begin another",
        code="already_terminal",
        status=status,
    )


def thread_for_job(store: CoordinationStore, job_id: str) -> InboxThread:
    """Return the job's thread, made where it has none. Raises NotFoundError for an unknown job."""
    found = thread_of_job(store, job_id)
    if found is not None:
        return found
    with RecordStore(store.home, clock=store.clock).locked(job_id) as locked:
        return thread_for_locked(store, locked)


def thread_for_locked(store: CoordinationStore, locked: LockedRecord) -> InboxThread:
    """See `thread_for_job`; the caller holds the record's lock."""
    record = locked.record
    found = thread_of_job(store, record.job_id)
    if found is not None:
        return found
    thread_id = f"t-job-{record.job_id}"
    locked.replace(record._replace(extra={**record.extra, THREAD: thread_id}), cause="it has a thread")
    with store.changing() as change:
        if change.row("thread", {"thread_id": thread_id}) is None:
            change.execute(
                "insert_thread",
                {
                    "thread_id": thread_id,
                    "run_id": "default",
                    "task_id": "",
                    "subject": record.title[:MAX_SUBJECT],
                    "created_by": STORE_AGENT,
                    "assigned_to": "",
                    "priority": str(record.priority),
                    "at": change.at,
                    "work": 1,
                    "position": change.event("thread_pending", source=STORE_AGENT, thread_id=thread_id),
                    "job_id": record.job_id,
                    "status": ThreadStatus.PENDING,
                    "jobs": 1,
                },
            )
        project(change, locked.record)
        return thread_of(change, thread_id)
