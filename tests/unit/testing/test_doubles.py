"""The doubles beyond the transport contract: clock, waiting, faults of the in-memory broker."""

import itertools

import pytest

from jobwire.core.errors import RefusedError, UnreachableError
from jobwire.core.ports import Message, SessionLost, SessionStarted
from jobwire.testing import InMemoryBroker, InMemoryTransport, ManualClock, require, wait_for


def started(
    broker: InMemoryBroker, name: str, *filters: str, clean_session: bool = True
) -> InMemoryTransport:
    """Return a connected transport whose first event is taken."""
    transport = broker.transport(name, clean_session=clean_session)
    transport.subscribe(filters)
    transport.connect(1)
    assert isinstance(transport.receive(0), SessionStarted)
    return transport


def send(transport: InMemoryTransport, topic: str, payload: bytes, *, retain: bool = False) -> None:
    """Publish."""
    transport.publish(topic, payload, retain=retain, deadline_seconds=1)


def test_the_manual_clock_moves_when_told() -> None:
    """Both readings advance together; a set wall clock leaves monotonic time alone."""
    clock = ManualClock(now=100.0, monotonic=5.0)
    clock.sleep(2)
    clock.advance(3)
    assert (clock.now(), clock.monotonic(), clock.slept) == (105.0, 10.0, [2])
    clock.set_wall(50.0)
    assert (clock.now(), clock.monotonic()) == (50.0, 10.0)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_wait_for_returns_the_fact() -> None:
    """What made the predicate true is returned."""
    values = itertools.chain([0, ""], itertools.repeat("here"))
    assert wait_for(lambda: next(values)) == "here"


def test_wait_for_names_what_did_not_come() -> None:
    """A missed deadline says what was awaited and what was seen last."""
    with pytest.raises(AssertionError, match=r"the train .* last seen: 0"):
        wait_for(lambda: 0, deadline_seconds=0, what="the train")


def test_a_missing_program_skips_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CI=true a missing server is a failure, elsewhere a skip."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-program"):
        require("no-such-program")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="no-such-program"):
        require("no-such-program")


def test_a_stopped_broker_refuses_and_comes_back() -> None:
    """While it is down nothing works; afterwards sessions and queues are there again."""
    broker = InMemoryBroker()
    subscriber = started(broker, "sub", "t", clean_session=False)
    publisher = started(broker, "pub")
    send(publisher, "t", b"1")
    broker.stop()
    with pytest.raises(UnreachableError):
        send(publisher, "t", b"lost")
    with pytest.raises(UnreachableError):
        broker.transport("new").connect(1)
    broker.start()
    send(publisher, "t", b"2")
    items = subscriber.receive_many(10, 0)
    assert [type(item) for item in items] == [Message, SessionLost, SessionStarted, Message, Message]
    assert [item.payload for item in items if isinstance(item, Message)] == [b"1", b"1", b"2"]


def test_a_forgetful_broker_says_so() -> None:
    """After a start without its memory the session is new and subscribed again."""
    broker = InMemoryBroker()
    subscriber = started(broker, "sub", "t", clean_session=False)
    publisher = started(broker, "pub")
    send(publisher, "kept", b"1", retain=True)
    broker.stop()
    broker.start(forget=True)
    assert broker.retained == {}
    send(publisher, "t", b"2")
    lost, again, message = subscriber.receive_many(10, 0)
    assert isinstance(lost, SessionLost)
    assert again == SessionStarted(session_present=False)
    assert isinstance(message, Message)


def test_a_lost_puback_leaves_the_message_published() -> None:
    """The publisher is told that it may not have arrived, yet it has: the case that outboxes exist for."""
    broker = InMemoryBroker()
    publisher = started(broker, "pub")
    broker.lose_pubacks()
    with pytest.raises(UnreachableError):
        send(publisher, "t", b"1")
    send(publisher, "t", b"2")
    assert [message.payload for message in broker.published] == [b"1", b"2"]


def test_connections_can_be_refused() -> None:
    """A refusal set by the test is what connect raises until it is lifted."""
    broker = InMemoryBroker()
    broker.refuse_connections(RefusedError("no"))
    with pytest.raises(RefusedError):
        broker.transport("a").connect(1)
    broker.refuse_connections(None)
    broker.transport("a").connect(1)


def test_unacknowledged_is_visible() -> None:
    """A test can ask what a client has yet to acknowledge, present or away."""
    broker = InMemoryBroker()
    subscriber = started(broker, "sub", "t", clean_session=False)
    publisher = started(broker, "pub")
    send(publisher, "t", b"1")
    send(publisher, "t", b"2")
    first = subscriber.receive(0)
    assert isinstance(first, Message)
    subscriber.acknowledge(first)
    subscriber.close()
    send(publisher, "t", b"3")
    assert broker.unacknowledged("sub") == [b"2", b"3"]


def test_a_taken_over_client_loses_its_connection() -> None:
    """One client id is one connection."""
    broker = InMemoryBroker()
    first = started(broker, "same")
    started(broker, "same")
    assert isinstance(first.receive(0), SessionLost)
