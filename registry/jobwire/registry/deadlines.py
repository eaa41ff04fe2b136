"""When a job needs the registry's attention, and what becomes of it then. Pure."""

import datetime as dt
from collections.abc import Callable

from jobwire.core import fold
from jobwire.core.lifecycle import Status
from jobwire.core.record import JobRecord


def epoch(stamp: str) -> float:
    """Return an ISO 8601 UTC time as seconds since the epoch; raises ValueError for 30 February."""
    return dt.datetime.fromisoformat(stamp).timestamp()


def next_due(record: JobRecord) -> float | None:
    """Return the epoch second at which `overdue` may have something to say; None for never.

    A lower bound: signs of life move a lease's end on without anybody being told.
    """
    if record.status is Status.PENDING:
        return _after(pending_since(record), record.timeouts.pending_seconds)
    if record.status is not Status.RUNNING:
        return None
    ends = [_after(record.started_at, record.timeouts.wall_seconds)]
    if record.lease is not None:
        ends.append(_after(record.lease.expires_at, 0.0))
    return min((end for end in ends if end is not None), default=None)


def overdue(
    record: JobRecord, now: float, *, until: float, new_token: Callable[[], str]
) -> tuple[JobRecord, str] | None:
    """Return the record after the limit it had reached by `until`, and the cause in words; None if in time.

    `now` is stamped on the change. Both are epoch seconds.

    Pending too long: cancelled. Running past its wall limit: error. Lease ran out: pending again as
    the next attempt under a new token, or error after the last one allowed.
    """
    if record.status is Status.PENDING and _reached(
        pending_since(record), record.timeouts.pending_seconds, until
    ):
        cause = f"nobody picked it within {record.timeouts.pending_seconds:g} s (pending timeout)"
        return fold.cancel(record, now, cause), cause
    if record.status is not Status.RUNNING:
        return None
    if _reached(record.started_at, record.timeouts.wall_seconds, until):
        cause = f"not finished within {record.timeouts.wall_seconds:g} s (wall timeout)"
        return fold.fail(record, now, cause), cause
    if record.lease is not None and _reached(record.lease.expires_at, 0.0, until):
        cause = f"the lease of {record.lease.owner} ran out"
        after = fold.next_attempt(record, new_token(), now, cause)
        return after, after.detail
    return None


def pending_since(record: JobRecord) -> str:
    """Return since when a pending job waits: its registration, or the end of its last attempt."""
    return record.created_at if record.attempt == 1 else record.updated_at


def _after(stamp: str | None, seconds: float | None) -> float | None:
    if stamp is None or seconds is None:
        return None
    try:
        return epoch(stamp) + seconds
    except ValueError:
        return None


def _reached(stamp: str | None, seconds: float | None, until: float) -> bool:
    end = _after(stamp, seconds)
    return end is not None and end <= until
