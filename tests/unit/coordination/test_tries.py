"""What becomes of a delivery after a try of its command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination import delivery
from jobwire.coordination.delivery import DeliveryState, InboxDelivery
from jobwire.coordination.handling.assignment import is_wanted
from jobwire.coordination.handling.tries import Handled, Tries, after_failure, check_tries, postponed
from jobwire.coordination.message import MAX_HOP
from jobwire.coordination.stored import InboxMessage
from jobwire.core.errors import InvalidInputError, TransitionError

HELD = delivery.taken(InboxDelivery("builder", 7), incarnation="1", token=3, seconds=60, now_ms=0)
MESSAGE = InboxMessage(
    *(7, "m-7", 0, "boss", "builder", "task", None, None, None, None, "t-1", "default", None, "task", "s"),
    *("", None, "[]", "", "normal", "turn", None, 0, '["builder"]', None),
)  # fmt: skip


@given(
    attempts=st.integers(1, 20),
    most=st.integers(1, 10),
    delays=st.lists(st.floats(0.01, 1000), min_size=1, max_size=5),
    jitter=st.floats(0, 0.999),
)
def test_a_failure_is_tried_again_later_or_dead(
    attempts: int, most: int, delays: list[float], jitter: float
) -> None:
    """Below the limit it comes again after its delay, give or take a tenth; else it is dead."""
    held = HELD._replace(attempts=attempts)
    after = after_failure(held, "why", Tries(most, tuple(delays)), now_ms=1000, jitter=jitter)
    assert (after.last_error, after.lease_token) == ("why", None)
    if attempts >= most:
        assert after.state == DeliveryState.DEAD
    else:
        wanted = delays[min(attempts, len(delays)) - 1] * 1000
        assert after.state == DeliveryState.QUEUED
        assert 0.9 * wanted - 1 <= after.not_before_ms - 1000 <= 1.1 * wanted + 1


def test_what_no_retry_mends_is_dead_at_once() -> None:
    """A permanent failure has no second try."""
    after = after_failure(HELD, "not there", Tries(), now_ms=0, jitter=0, permanent=True)
    assert (after.state, after.last_error) == (DeliveryState.DEAD, "not there")


def test_a_delivery_put_off_has_not_been_tried() -> None:
    """It is queued until then, and counts as before."""
    after = postponed(HELD, 5000)
    assert (after.state, after.attempts, after.not_before_ms) == (DeliveryState.QUEUED, 0, 5000)
    with pytest.raises(TransitionError):
        postponed(delivery.settled(HELD, 0), 5000)


def test_tries_have_bounds() -> None:
    """No try, and delays that are none, are refused."""
    for tries in (Tries(0), Tries(3, (0.0,)), Tries(3, (-1.0,)), Tries(10**6)):
        with pytest.raises(InvalidInputError):
            check_tries(tries)
    assert check_tries(Tries()) == Tries()


def test_what_is_kept_is_read_back() -> None:
    """The part of a prepared end that tells of the delivery survives JSON."""
    import json  # noqa: PLC0415 - what the store does with it

    handled = Handled("builder", 7, "t-1", 9, Tries(2, (1.0, 2.0)), permanent=True)
    assert Handled.of_json(json.loads(json.dumps(handled))) == handled


@pytest.mark.parametrize(
    ("change", "worker", "lead"),
    [
        ({}, True, True),
        ({"kind": "question"}, True, True),
        ({"kind": "result"}, False, True),
        ({"kind": "result", "thread_id": "a-7-x"}, False, False),
        ({"kind": "event", "type": "alert", "from_agent": "jobwire"}, False, True),
        ({"kind": "event", "type": "delivery_dead", "from_agent": "jobwire"}, False, False),
        ({"kind": "event"}, False, False),
        ({"kind": "answer"}, False, False),
        ({"kind": "control"}, False, False),
        ({"kind": "question", "hop": MAX_HOP}, False, False),
        ({"kind": "result", "hop": MAX_HOP}, False, False),
        ({"hop": MAX_HOP}, True, True),
    ],
)
def test_what_a_command_is_run_for(change: dict[str, object], worker: bool, lead: bool) -> None:
    """Tasks and questions; for a lead what became of the work and what it has to decide, not without end."""
    message = MESSAGE._replace(**change)  # type: ignore[arg-type]
    assert (is_wanted(message, leads=False), is_wanted(message, leads=True)) == (worker, lead)
