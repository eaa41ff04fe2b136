"""The end of a thread: its job is cancelled; one without a job is ended in the store alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.lease_file import lease_lost
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import NewMessage, digest_of
from jobwire.coordination.projection import cross, is_planned, settle
from jobwire.coordination.reading import part_in, thread_of
from jobwire.coordination.routing.route import copied, route_end
from jobwire.coordination.sending import Bulk, move, write
from jobwire.coordination.taking import settle_in_thread
from jobwire.coordination.thread import ThreadStatus, check_may_end, check_open_thread
from jobwire.coordination.work_seat import over
from jobwire.coordination.work_words import Worded, addressed, said_before
from jobwire.jobs import fold
from jobwire.registry.spec import check_reason

if TYPE_CHECKING:
    from jobwire.coordination.thread import InboxThread
    from jobwire.coordination.work_seat import WorkSeat


def cancel(seat: WorkSeat, thread_id: str, reason: str, *, message_id: str) -> Worded:
    """See `ThreadWork.cancel`."""
    check_reason(reason)
    store = seat.store
    catch_up(store)
    thread = thread_of(store, thread_id)
    new = NewMessage(
        seat.agent,
        kind="control",
        type="cancelled",
        id=message_id,
        thread_id=thread_id,
        summary=reason or "cancelled",
    )
    new = addressed(seat, thread, new)
    if (before := said_before(store, new)) is not None:
        return Worded(before, thread)
    if thread.job_id is None or thread.ended:
        return end_free(seat, thread, new, ThreadStatus.CANCELLED)
    _check_may_end(seat, thread)
    with seat.records.locked(thread.job_id) as locked:
        settle(store, locked)
        if locked.record.terminal:
            raise over(thread, str(locked.record.status))

        def cancelled() -> None:
            after = fold.cancel(locked.record, store.clock.now(), new.summary)
            locked.replace(after, cause=new.summary, op=new.id)

        posted = cross(store, locked, new, Bulk.inline(new), cancelled, cancels=True)
        return Worded(posted, thread_of(store, thread_id))


def end_free(seat: WorkSeat, thread: InboxThread, new: NewMessage, status: ThreadStatus) -> Worded:
    """End a thread that nobody has claimed; raises InvalidInputError (forbidden), ConflictError."""
    _check_may_end(seat, thread)
    check_open_thread(thread)
    large = Bulk.of(new, BlobFolder(seat.store.home))
    with seat.store.changing() as change:
        now = thread_of(change, thread.thread_id)
        check_open_thread(now)
        if now.job_id is not None:
            raise lease_lost(thread.thread_id, "somebody claimed it just now")
        receipt = copied(change, new, now)
        posted = write(change, receipt, large, digest_of(new))
        number = change.event(f"thread_{status}", source=seat.agent, thread_id=thread.thread_id)
        move(change, now._replace(status=status, updated_at=change.at, changed=number))
        route_end(change, posted, receipt, large, final=True)
        settle_in_thread(change, seat.agent, thread.thread_id, number)
        if is_planned(change, now):
            from jobwire.coordination.tasks.following import withdraw  # noqa: PLC0415 - of tasks alone

            withdraw(change, now, seat.agent, new.summary)
        return Worded(posted._replace(event_id=number), thread_of(change, thread.thread_id))


def _check_may_end(seat: WorkSeat, thread: InboxThread) -> None:
    standing = part_in(seat.store, thread.thread_id, seat.agent)
    if thread.task_id:
        from jobwire.coordination.tasks.following import check_cancel  # noqa: PLC0415 - as above

        check_cancel(seat.store, thread, seat.agent, leads=standing.leads)
    check_may_end(thread, seat.agent, leads=standing.leads, takes_part=standing.takes_part)
