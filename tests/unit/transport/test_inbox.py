"""The queue between network thread and consumer."""

import threading

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError, TransportError
from jobwire.core.ports import Message
from jobwire.transport.inbox import Inbox

_A, _B, _C = (Message("t", payload, retain=False, qos=0) for payload in (b"a", b"b", b"c"))


def new_inbox(limit: int = 2, room: list[bool] | None = None) -> Inbox:
    """Return an inbox that notes in `room` when there is room again."""
    notes = room if room is not None else []
    return Inbox(limit=limit, clock=SystemClock(), on_room=lambda: notes.append(True))


def test_items_come_out_in_order_and_in_portions() -> None:
    """Take returns at most what was asked for, in order."""
    inbox = new_inbox()
    inbox.put([_A, _B, _C])
    assert inbox.take(2, 0) == [_A, _B]
    assert inbox.take(2, 0) == [_C]
    assert inbox.take(2, 0) == []


def test_a_full_inbox_says_when_there_is_room() -> None:
    """The producer that found it full is called once it is half empty, and only then."""
    room: list[bool] = []
    inbox = new_inbox(limit=2, room=room)
    inbox.put([_A])
    assert not inbox.full()
    inbox.put([_B, _C])
    assert inbox.full()
    inbox.take(1, 0)
    assert room == []
    inbox.take(1, 0)
    assert room == [True]
    inbox.take(1, 0)
    assert room == [True]


def test_a_failure_comes_after_the_last_item() -> None:
    """What was received before the end is handed over first; then every take raises."""
    inbox = new_inbox()
    inbox.put([_A])
    failure = TransportError("over")
    inbox.end(failure)
    assert inbox.take(5, 0) == [_A]
    for _ in range(2):
        with pytest.raises(JobwireError) as caught:
            inbox.take(1, 0)
        assert caught.value is failure


def test_a_waiting_consumer_is_woken() -> None:
    """An item put while the consumer waits ends the wait."""
    inbox = new_inbox()
    taken: list[object] = []
    consumer = threading.Thread(target=lambda: taken.extend(inbox.take(1, 30)))
    consumer.start()
    inbox.put([_A])
    consumer.join(60)
    assert taken == [_A]


def test_nothing_is_lost_between_two_threads() -> None:
    """Many small puts against many small takes: everything arrives once, in order."""
    inbox = new_inbox(limit=10_000)
    messages = [Message("t", b"%d" % number, retain=False, qos=0) for number in range(3000)]

    def produce() -> None:
        for message in messages:
            inbox.put([message])

    producer = threading.Thread(target=produce)
    producer.start()
    received: list[object] = []
    while len(received) < len(messages):
        received += inbox.take(7, 10)
    producer.join()
    assert received == messages
