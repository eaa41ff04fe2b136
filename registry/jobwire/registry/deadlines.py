"""When a job needs the registry's attention, and what becomes of it then. Pure."""

from collections.abc import Callable

from jobwire.core.clock import epoch
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import next_expiry

# How much longer the lease of a job that asks for permission is believed: its worker may be unable to do
# anything until a person answers, and people sleep.
_QUESTION_SECONDS = 86400.0


def next_due(record: JobRecord) -> float | None:
    """Return the epoch second at which `overdue` may have something to say; None for never.

    A lower bound where it is kept: signs of life move limits on without anybody being told.
    """
    deadline = _first(record)
    return None if deadline is None else deadline[0]


def overdue(
    record: JobRecord, now: float, *, until: float, new_token: Callable[[], str]
) -> tuple[JobRecord, str] | None:
    """Return the record after the limit it had reached by `until`, and the cause in words; None if in time.

    `now` is stamped on the change. Both are epoch seconds.

    Pending too long: cancelled. Running past its wall limit, or silent past its idle limit: error. Lease
    ran out: pending again as the next attempt under a new token, or error after the last one allowed. A
    request that nobody answered in time expires. Of several, the one that was reached first.
    """
    deadline = _first(record)
    if deadline is None or deadline[0] > until:
        return None
    limit = deadline[1]
    limits = record.timeouts
    if limit == "pending":
        cause = f"pending timeout: nobody picked it within {limits.pending_seconds:g} s"
        return fold.cancel(record, now, cause, timeout=limit), cause
    if limit == "wall":
        cause = f"wall timeout: not finished within {limits.wall_seconds:g} s"
        return fold.fail(record, now, cause, timeout=limit), cause
    if limit == "idle":
        cause = f"idle timeout: no event for {limits.idle_seconds:g} s"
        return fold.fail(record, now, cause, timeout=limit), cause
    if limit == "request":
        return fold.expire_requests(record, until, now), "nobody answered in time"
    cause = f"the lease of {record.lease.owner if record.lease else 'nobody'} ran out"
    after = fold.lose_lease(record, new_token(), now, cause)
    return after, after.detail


def _first(record: JobRecord) -> tuple[float, str] | None:
    """Return where the limit lies that is reached first, in epoch seconds, and which it is.

    That is one of `record.LIMITS`, `lease`, or `request`; of equal ones the one that ends the job.
    """
    if record.status is Status.PENDING:
        ends = [("pending", _after(pending_since(record), record.timeouts.pending_seconds))]
    elif record.status is Status.RUNNING:
        idle = None if record.attention else record.timeouts.idle_seconds
        ends = [
            ("wall", _after(record.started_at, record.timeouts.wall_seconds)),
            ("idle", _after(record.idle_since or record.updated_at, idle)),
            ("request", next_expiry(record.requests)),
        ]
        if record.lease is not None:
            grace = _QUESTION_SECONDS if record.attention else 0.0
            ends.append(("lease", _after(record.lease.expires_at, grace)))
    else:
        return None
    known = [(at, limit) for limit, at in ends if at is not None]
    return min(known, key=lambda end: end[0], default=None)


def ready_at(record: JobRecord) -> float | None:
    """Return the epoch second until which a pending job rests; None where it does not."""
    if record.status is not Status.PENDING or record.not_before is None:
        return None
    return _after(record.not_before, 0.0)


def pending_since(record: JobRecord) -> str:
    """Return since when a pending job waits: its registration, or the end of its last attempt and rest."""
    if record.not_before is not None:
        return record.not_before
    return record.created_at if record.attempt == 1 else record.idle_since or record.updated_at


def _after(stamp: str | None, seconds: float | None) -> float | None:
    if stamp is None or seconds is None:
        return None
    try:
        return epoch(stamp) + seconds
    except ValueError:
        return None
