"""The claim of a thread: its job is registered or found, taken under its lock, and shown in the store."""

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
from jobwire.coordination.thread import check_may_claim
from jobwire.coordination.work_seat import over
from jobwire.core import lease
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_INSTRUCTIONS
from jobwire.core.errors import ConflictError
from jobwire.core.lease import LeaseGrant
from jobwire.core.signature import new_token
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import Priority
from jobwire.registry.deadlines import overdue
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.thread import InboxThread
    from jobwire.coordination.work_seat import WorkSeat
    from jobwire.registry.store import LockedRecord

    # How a caller changes the job that a claim registers.
    Shape = Callable[[JobSpec], JobSpec]

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


def claim(seat: WorkSeat, thread_id: str, seconds: float, *, settles: bool, shape: Shape | None) -> Claimed:
    """See `ThreadWork.claim`."""
    store = seat.store
    grant = LeaseGrant(seat.agent, seconds)
    lease.grant(grant, store.clock.now())
    catch_up(store)
    thread = thread_of(store, thread_id)
    job_id = thread.job_id
    if job_id is None or thread.ended:
        _check_task(seat, thread)
        check_may_claim(thread, seat.agent)
        job_id = _register(seat, thread, grant, shape)
    with seat.records.locked(job_id) as locked:
        settle(store, locked)
        _take(seat, thread, locked, grant)
        with store.changing() as change:
            project(change, locked.record, incarnation=seat.incarnation)
            if settles:
                settle_in_thread(change, seat.agent, thread_id, change.latest_event())
            last = change.latest_event()
            after = thread_of(change, thread_id)
        if thread.task_id and (why := end_unwanted(store, locked)):
            raise over(thread, f"{locked.record.status}: {why}")
        unmark(store, job_id)
        record = locked.record
        token = LeaseToken(record.job_id, record.attempt)
        if (kept := seat.lease_file(thread_id)) is not None:
            kept.write(token)
    held = record.lease.expires_at if record.lease is not None else ""
    return Claimed(after, token, held, last)


def renew(seat: WorkSeat, thread_id: str, seconds: float | None, *, token: str | None) -> Claimed:
    """See `ThreadWork.renew`."""
    store, thread = seat.store, seat.working(thread_id)
    with seat.records.locked(str(thread.job_id)) as locked:
        settle(store, locked)
        named = seat.check_holder(thread, locked.record, token)
        granted = locked.record.lease.seconds if locked.record.lease is not None else None
        grant = LeaseGrant(seat.agent, seconds or granted or DEFAULT_LEASE_SECONDS)
        record = fold.renew(locked.record, grant, store.clock.now())
        locked.replace(record, cause=f"renewed by {seat.agent}")
        with store.changing() as change:
            project(change, record)
            after, last = thread_of(change, thread_id), change.latest_event()
        unmark(store, record.job_id)
    return Claimed(after, named, record.lease.expires_at if record.lease else "", last)


def give_back(seat: WorkSeat, token: LeaseToken, reason: str) -> None:
    """See `ThreadWork.give_back`."""
    with closing(JobQueue(seat.records, warn=_log.warning)) as queue:
        queue.release(token.job_id, attempt=token.attempt, reason=reason)


def _check_task(seat: WorkSeat, thread: InboxThread) -> None:
    if thread.task_id:
        from jobwire.coordination.tasks.following import check_claim  # noqa: PLC0415 - of tasks alone

        check_claim(seat.store, thread, seat.agent, seat.store.now_ms)


def _register(seat: WorkSeat, thread: InboxThread, grant: LeaseGrant, shape: Shape | None) -> str:
    """Make the thread's job, running and ours at once, or find the one that a crash left."""
    store = seat.store
    # Asked again, it is the last request that is worked on.
    rows = store.rows("last_task_in", {"thread_id": thread.thread_id})
    asked = [message_of(store, int(rows[0][0]))] if rows else messages_of(store, thread.thread_id, limit=1)
    text = asked[0].full_body(BlobFolder(store.home)) if asked else ""
    spec = JobSpec(
        title=thread.subject[:MAX_SUBJECT],
        instructions=text[:MAX_INSTRUCTIONS],
        agent_session=thread.addressed_to or None,
        priority=Priority(thread.priority),
        idempotency_key=job_key(store, thread),
        thread=thread.thread_id,
    )
    with closing(JobQueue(seat.records, warn=_log.warning)) as queue:
        return queue.register(spec if shape is None else shape(spec), grant).job_id


def _take(seat: WorkSeat, thread: InboxThread, locked: LockedRecord, grant: LeaseGrant) -> None:
    """Claim the record under its lock: free, ours already, or with a lease that ran out."""
    now = seat.store.clock.now()
    moved = overdue(locked.record, now, until=now, new_token=new_token)
    if moved is not None:
        locked.replace(moved[0], cause=moved[1])
    record = locked.record
    if record.terminal:
        raise over(thread, str(record.status))
    if record.status is Status.RUNNING and record.lease is not None:
        if not seat.is_mine(thread.thread_id, record):
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
    check_may_claim(thread._replace(assigned_to=thread.addressed_to, status="pending"), seat.agent)
    locked.replace(fold.claim(record, grant, now), cause=f"claimed by {grant.owner}")
