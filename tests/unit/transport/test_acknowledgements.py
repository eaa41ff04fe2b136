"""The order of PUBACKs."""

from hypothesis import given
from hypothesis import strategies as st

from jobwire.transport.acknowledgements import AckLedger


def test_in_order_requests_are_released_at_once() -> None:
    """Acknowledging as received releases each packet id."""
    ledger = AckLedger()
    tokens = [ledger.received(packet_id) for packet_id in (7, 8, 9)]
    ledger.request(tokens[:2])
    assert ledger.release() == [7, 8]
    ledger.request(tokens[2:])
    assert ledger.release() == [9]


def test_an_early_request_waits() -> None:
    """A later message's acknowledgement waits for the earlier one's."""
    ledger = AckLedger()
    first, second = ledger.received(1), ledger.received(2)
    ledger.request([second])
    assert ledger.release() == []
    ledger.request([first])
    assert ledger.release() == [1, 2]


def test_a_second_request_does_not_hit_a_reused_packet_id() -> None:
    """Asking twice is harmless although the broker gives the packet id to another message."""
    ledger = AckLedger()
    old = ledger.received(1)
    ledger.request([old])
    assert ledger.release() == [1]
    ledger.received(1)
    ledger.request([old])
    assert ledger.release() == []


def test_requests_of_a_lost_connection_are_void() -> None:
    """After a lost connection its messages are the broker's business again."""
    ledger = AckLedger()
    old = ledger.received(1)
    ledger.request([old])
    ledger.connection_lost()
    new = ledger.received(1)
    assert ledger.release() == []
    ledger.request([new])
    assert ledger.release() == [1]


@given(st.permutations(list(range(12))), st.integers(0, 12))
def test_any_order_of_requests_gives_the_order_of_receipt(order: list[int], cut: int) -> None:
    """Whatever the order of requests, packet ids leave in order, and only a complete prefix does."""
    ledger = AckLedger()
    tokens = [ledger.received(number) for number in range(12)]
    ledger.request(tokens[number] for number in order[:cut])
    released = ledger.release()
    requested = set(order[:cut])
    prefix = next((number for number in range(12) if number not in requested), 12)
    assert released == list(range(prefix))
    ledger.request(tokens[number] for number in order[cut:])
    assert released + ledger.release() == list(range(12))
