"""A delivery: one message for one recipient, from queued to done or dead. Pure; times are ms since 1970."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from jobwire.core.backoff import retry_delay
from jobwire.core.errors import ConflictError, TransitionError

MAX_TRIES = 3
LEASE_SECONDS = 300.0
MAX_REDRIVES = 3
_LONGEST_DELAY_SECONDS = 60.0


class DeliveryState(StrEnum):
    """Where a delivery is."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"
    DROPPED = "dropped"


FINAL = frozenset({DeliveryState.DONE, DeliveryState.DEAD, DeliveryState.DROPPED})

# (from, to) -> what causes it.
DELIVERY_TRANSITIONS: dict[tuple[DeliveryState, DeliveryState], str] = {
    (DeliveryState.QUEUED, DeliveryState.LEASED): "take",
    (DeliveryState.LEASED, DeliveryState.DONE): "ack",
    (DeliveryState.QUEUED, DeliveryState.DONE): "read, answered, claimed, or a cursor passed it",
    (DeliveryState.LEASED, DeliveryState.QUEUED): "nack, a lease that ran out, or a dead agent",
    (DeliveryState.LEASED, DeliveryState.DEAD): "the last try failed, or a failure that no retry mends",
    (DeliveryState.QUEUED, DeliveryState.DEAD): "it expired",
    (DeliveryState.DEAD, DeliveryState.QUEUED): "redrive",
    (DeliveryState.DEAD, DeliveryState.DROPPED): "drop",
}


class InboxDelivery(NamedTuple):
    """One message for one recipient, as the store holds it."""

    agent_id: str
    seq: int
    thread_id: str = ""
    state: str = DeliveryState.QUEUED
    attempts: int = 0
    not_before_ms: int = 0
    expires_at_ms: int | None = None
    incarnation: str | None = None
    lease_token: int | None = None
    lease_seconds: float | None = None
    lease_until_ms: int | None = None
    accepted_ms: int | None = None
    delivered_ms: int | None = None
    acted_ms: int | None = None
    last_error: str = ""
    redriven: int = 0


def taken(held: InboxDelivery, *, incarnation: str, token: int, seconds: float, now_ms: int) -> InboxDelivery:
    """Return the delivery as leased by `incarnation` of its recipient."""
    check_move(held, DeliveryState.LEASED)
    return held._replace(
        state=DeliveryState.LEASED,
        attempts=held.attempts + 1,
        incarnation=incarnation,
        lease_token=token,
        lease_seconds=seconds,
        lease_until_ms=now_ms + round(seconds * 1000),
        accepted_ms=held.accepted_ms or now_ms,
        delivered_ms=held.delivered_ms or now_ms,
    )


def renewed(held: InboxDelivery, *, token: int | None, now_ms: int) -> InboxDelivery:
    """Return the delivery with its lease extended by what was granted; raises ConflictError for others."""
    check_holder(held, token)
    seconds = held.lease_seconds or LEASE_SECONDS
    return held._replace(lease_until_ms=max(held.lease_until_ms or 0, now_ms + round(seconds * 1000)))


def acked(held: InboxDelivery, *, token: int | None, now_ms: int) -> InboxDelivery:
    """Return the delivery as done; again is no error. Raises ConflictError for an old holder."""
    if held.state == DeliveryState.DONE and token in {None, held.lease_token}:
        return held
    check_holder(held, token)
    return settled(held, now_ms)


def settled(held: InboxDelivery, now_ms: int) -> InboxDelivery:
    """Return the delivery as done, by whoever may say so without a lease."""
    if held.state == DeliveryState.DONE:
        return held
    check_move(held, DeliveryState.DONE)
    return freed(held)._replace(
        state=DeliveryState.DONE,
        # Kept, so that whoever acknowledges again is known.
        lease_token=held.lease_token,
        acted_ms=now_ms,
        delivered_ms=held.delivered_ms or now_ms,
    )


def failed(
    held: InboxDelivery,
    reason: str,
    *,
    now_ms: int,
    jitter: float,
    max_tries: int = MAX_TRIES,
    permanent: bool = False,
) -> InboxDelivery:
    """Return the delivery after a try that failed: queued again after a delay, or dead with its reason.

    `jitter` in [0, 1) is the caller's random number.
    """
    if permanent or held.attempts >= max_tries:
        return dead(held, reason)
    delay = retry_delay(max(held.attempts, 1), jitter, cap=_LONGEST_DELAY_SECONDS)
    check_move(held, DeliveryState.QUEUED)
    return freed(held)._replace(
        state=DeliveryState.QUEUED, not_before_ms=now_ms + round(delay * 1000), last_error=reason
    )


def dead(held: InboxDelivery, reason: str) -> InboxDelivery:
    """Return the delivery as given up."""
    check_move(held, DeliveryState.DEAD)
    return freed(held)._replace(state=DeliveryState.DEAD, last_error=reason)


def redriven(held: InboxDelivery, *, force: bool) -> InboxDelivery:
    """Return a dead delivery as queued, with all its tries before it; raises ConflictError beyond the cap."""
    check_move(held, DeliveryState.QUEUED)
    if held.redriven >= MAX_REDRIVES and not force:
        raise ConflictError(
            f"message {held.seq} for {held.agent_id} was redriven {held.redriven} times",
            hint="--force redrives it all the same; `inbox dead drop` gives it up",
            code="not_expected",
        )
    return held._replace(
        state=DeliveryState.QUEUED,
        attempts=0,
        not_before_ms=0,
        expires_at_ms=None,
        redriven=held.redriven + 1,
    )


def dropped(held: InboxDelivery) -> InboxDelivery:
    """Return a dead delivery as given up for good."""
    check_move(held, DeliveryState.DROPPED)
    return held._replace(state=DeliveryState.DROPPED)


def check_holder(held: InboxDelivery, token: int | None) -> None:
    """Refuse whoever does not hold the lease (20 lease_lost); without a token the name is enough."""
    if held.state != DeliveryState.LEASED or token not in {None, held.lease_token}:
        raise ConflictError(
            f"message {held.seq} is {held.state} for {held.agent_id}, and not held under this lease",
            hint="`inbox take` leases the next one",
            code="lease_lost",
        )


def check_move(held: InboxDelivery, state: DeliveryState) -> None:
    """Raise TransitionError unless the table allows the change."""
    before = DeliveryState(held.state)
    if (before, state) not in DELIVERY_TRANSITIONS:
        raise TransitionError(
            f"a delivery cannot go from {before} to {state}", before=str(before), after=str(state)
        )


def freed(held: InboxDelivery) -> InboxDelivery:
    """Return the delivery without its lease."""
    return held._replace(incarnation=None, lease_token=None, lease_seconds=None, lease_until_ms=None)
