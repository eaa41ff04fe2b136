"""What becomes of a delivery after a try of its command: it comes again later, or that was its end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination import delivery
from jobwire.coordination.delivery import DeliveryState, InboxDelivery
from jobwire.coordination.taking import MAX_REASON, find_delivery, give_up, put, settle_in_thread
from jobwire.core.bounds import check_count, check_seconds

if TYPE_CHECKING:
    from jobwire.coordination.store import Transaction

DELAYS = (30.0, 120.0, 600.0)
_MOST_TRIES = 1000
# What failed together shall not come again together.
_SPREAD = 0.2


class Tries(NamedTuple):
    """How often a command is run for a delivery, and how many seconds lie between; the last delay repeats."""

    most: int = delivery.MAX_TRIES
    delays: tuple[float, ...] = DELAYS


class Handled(NamedTuple):
    """A delivery that a job handles; `through` is the last event that the job began with."""

    agent: str
    seq: int
    thread_id: str
    through: int
    tries: Tries = Tries()
    permanent: bool = False

    @classmethod
    def of_json(cls, values: list[object]) -> Handled:
        """Return what was kept as JSON."""
        agent, seq, thread_id, through, (most, delays), permanent = values  # type: ignore[misc]
        tries = Tries(most, tuple(delays))  # type: ignore[has-type]
        return cls(agent, seq, thread_id, through, tries, permanent)  # type: ignore[arg-type]


def check_tries(tries: Tries) -> Tries:
    """Refuse what is no number of tries, or no delays."""
    check_count("tries", tries.most, _MOST_TRIES)
    for seconds in tries.delays:
        check_seconds("delay", seconds)
    return tries


def after_failure(
    held: InboxDelivery, reason: str, tries: Tries, *, now_ms: int, jitter: float, permanent: bool = False
) -> InboxDelivery:
    """Return the delivery after a run that failed; `jitter` in [0, 1) is the caller's random number."""
    if permanent or held.attempts >= tries.most or not tries.delays:
        return delivery.dead(held, reason)
    delay = tries.delays[min(max(held.attempts, 1), len(tries.delays)) - 1]
    seconds = delay * (1 - _SPREAD / 2 + _SPREAD * jitter)
    return _queued(held)._replace(not_before_ms=now_ms + round(seconds * 1000), last_error=reason)


def postponed(held: InboxDelivery, until_ms: int) -> InboxDelivery:
    """Return a delivery that was taken for nothing: it comes again, and that was no try."""
    return _queued(held)._replace(not_before_ms=until_ms, attempts=max(held.attempts - 1, 0))


def end_try(change: Transaction, handled: Handled, *, good: bool, reason: str = "") -> bool:
    """Settle the delivery of a job that ended, and tell whether it is to be tried again."""
    held = find_delivery(change, handled.agent, handled.seq)
    if held is None or held.state in delivery.FINAL:
        return False
    if good:
        settle_in_thread(change, handled.agent, handled.thread_id, max(handled.through, handled.seq))
        return False
    after = after_failure(
        held,
        reason[:MAX_REASON],
        handled.tries,
        now_ms=change.now_ms,
        jitter=random.random(),  # noqa: S311 - spreads retries, keeps no secret
        permanent=handled.permanent,
    )
    if after.state == DeliveryState.DEAD:
        give_up(change, after)
        return False
    change.event("requeued", source=handled.agent, thread_id=handled.thread_id, summary=after.last_error)
    change.agents.add(handled.agent)
    put(change, after)
    return True


def _queued(held: InboxDelivery) -> InboxDelivery:
    if held.state != DeliveryState.QUEUED:
        delivery.check_move(held, DeliveryState.QUEUED)
    return delivery.freed(held)._replace(state=DeliveryState.QUEUED)
