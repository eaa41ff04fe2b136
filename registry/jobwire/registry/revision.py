"""What a record's change means to those that keep something of it: index, threads, whoever asked. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.jobs.record import JobRecord, dismissed_at, thread_of
from jobwire.jobs.requests import Request, RequestState, next_expiry, open_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Revision(NamedTuple):
    """One record's change: what the disk holds, what it shall hold, and the history's lines for it."""

    before: JobRecord
    after: JobRecord
    lines: Sequence[bytes] = ()


def state_of(record: JobRecord) -> tuple[str, int]:
    """Return its status and its attempt."""
    return str(record.status), record.attempt


def moved_requests(before: JobRecord, after: JobRecord) -> Iterator[tuple[Request, RequestState]]:
    """Yield the requests whose state changed, with their state before."""
    states = {one.id: one.state for one in before.requests}
    for one in after.requests:
        if (was := states.get(one.id, one.state)) is not one.state:
            yield one, was


def index_differs(one: Revision) -> bool:
    """Tell whether the pending index holds something else for the record now.

    A lease that was extended is no difference: the reaper finds it in time. One that was cut is.
    """
    new, before = one.after, one.before
    if _indexed(new) != _indexed(before):
        return True
    if new.lease is None:
        return False
    # Equal forms of one clock: ISO 8601 UTC compares as text.
    return before.lease is None or new.lease.expires_at < before.lease.expires_at


def thread_differs(one: Revision) -> bool:
    """Tell whether the thread of the record's job is to be shown otherwise now."""
    return _told(one.before) != _told(one.after)


def _told(record: JobRecord) -> tuple[object, ...]:
    owner = record.lease.owner if record.lease is not None else None
    return (
        *state_of(record),
        record.attention,
        record.last_seq > record.attempt_seq,
        owner,
        thread_of(record),
    )


def _indexed(record: JobRecord) -> tuple[object, ...]:
    """Return what the pending index holds of a record, but for the time of its next limit."""
    return (
        *state_of(record),
        record.agent_session,
        record.priority,
        record.timeouts,
        record.attention,
        [one.id for one in open_requests(record.requests)],
        record.not_before,
        dismissed_at(record),
        next_expiry(record.requests),
        record.answers_n,
    )
