"""The lease: who holds something, and until when that is believed without a sign of life. Pure.

One rule for whatever is held. It is granted for a number of seconds; each sign of life extends it by
what was granted; the holder may take it again, others once it has run out. All times are epoch seconds,
and ISO 8601 UTC in the lease itself.
"""

from typing import Annotated, NamedTuple

from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_NAME, check_line, check_seconds
from jobwire.core.clock import epoch, utc_timestamp
from jobwire.core.errors import ConflictError
from jobwire.core.fields import SECONDS, STAMP, text


class LeaseGrant(NamedTuple):
    """What is asked for: the holder's name and how long it is believed without a sign of life."""

    owner: str
    seconds: float = DEFAULT_LEASE_SECONDS


class Lease(NamedTuple):
    """Who holds it, until when, and for how many seconds it was granted."""

    # Earlier versions wrote names of any length.
    owner: Annotated[str, text(MAX_NAME, cut=True)]
    expires_at: Annotated[str, STAMP]
    seconds: Annotated[float, SECONDS.described("granted: each event extends it by as much")] = (
        DEFAULT_LEASE_SECONDS
    )


def grant(wanted: LeaseGrant, now: float) -> Lease:
    """Return a new lease; raises InvalidInputError for an owner or a length that no record can hold."""
    check_line("owner of the lease", wanted.owner, MAX_NAME)
    check_seconds("lease", wanted.seconds)
    return Lease(wanted.owner, utc_timestamp(now + wanted.seconds), wanted.seconds)


def take(held: Lease | None, wanted: LeaseGrant, now: float) -> Lease:
    """Return the lease for `wanted.owner`; raises ConflictError while somebody else holds it."""
    if held is not None and held.owner != wanted.owner and not expired(held, now):
        raise ConflictError(
            f"{held.owner} holds it until {held.expires_at}",
            hint="wait until then, or ask the holder to release it",
            holder=held.owner,
            until=held.expires_at,
        )
    return grant(wanted, now)


def extend(held: Lease, now: float) -> Lease:
    """Return the lease after a sign of life at `now`: an older one than the last changes nothing."""
    # Equal forms of one clock: ISO 8601 UTC compares as text.
    return held._replace(expires_at=max(held.expires_at, utc_timestamp(now + held.seconds)))


def expired(held: Lease, now: float) -> bool:
    """Tell whether the lease has run out; raises ValueError where its end is not a date of the calendar."""
    return epoch(held.expires_at) <= now


def holds(held: Lease | None, owner: str) -> bool:
    """Tell whether `owner` holds the lease, expired or not: until somebody takes it, it is the holder's."""
    return held is not None and held.owner == owner
