"""The Transport port, the same for the in-memory double and for paho against every broker and version."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from jobwire.core.errors import JobwireError, RefusedError, TransportError
from jobwire.core.override import override
from jobwire.core.ports import Message, SessionLost, SessionStarted, Transport
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing import BrokerProcess, InMemoryBroker, wait_for
from jobwire.transport import PahoTransport

_DEADLINE = 60.0
_numbers = itertools.count()


class Backend:
    """One broker and how to get transports to it and to break one connection of it."""

    refuses_publish = False
    refuses_subscribe = False

    def __init__(self) -> None:
        self.job = f"{next(_numbers):08x}"
        self.topic = f"{DEFAULT_ROOT}/{self.job}/events"

    def transport(self, client_id: str, *, clean_session: bool = True, role: str = "registry") -> Transport:
        """Return an unconnected transport."""
        raise NotImplementedError

    def cut(self, client_id: str) -> None:
        """Break the connection of `client_id` behind its back."""
        raise NotImplementedError


class InMemoryBackend(Backend):
    """The double, with the roles' rights that matter here."""

    refuses_publish = refuses_subscribe = True

    def __init__(self) -> None:
        super().__init__()
        self._broker = InMemoryBroker(access=self._allowed)

    @staticmethod
    def _allowed(user: str, action: str, _topic: str) -> bool:
        return (user, action) not in {("hermes", "publish"), ("claude-worker", "subscribe")}

    @override
    def transport(self, client_id: str, *, clean_session: bool = True, role: str = "registry") -> Transport:
        """Return a double."""
        return self._broker.transport(client_id, clean_session=clean_session, user=role)

    @override
    def cut(self, client_id: str) -> None:
        """Use the double's own fault."""
        self._broker.disconnect(client_id)


class ServerBackend(Backend):
    """A real broker; connections are cut by taking the client id over for a moment."""

    def __init__(self, server: BrokerProcess, protocol: str) -> None:
        super().__init__()
        self._server = server
        self._protocol = protocol
        # MQTT 3.1.1 has no way to refuse a PUBLISH; Mosquitto checks rights at delivery, not in SUBACK.
        self.refuses_publish = protocol == "5"
        self.refuses_subscribe = server.program != "mosquitto"

    @override
    def transport(self, client_id: str, *, clean_session: bool = True, role: str = "registry") -> Transport:
        """Return a transport that reconnects without delay."""
        return self._new(client_id, clean_session=clean_session, role=role)

    def _new(self, client_id: str, *, clean_session: bool, role: str) -> PahoTransport:
        settings = self._server.settings(role)._replace(protocol=self._protocol)
        return PahoTransport(
            settings, client_id=client_id, clean_session=clean_session, backoff=lambda _attempt: 0.05
        )

    @override
    def cut(self, client_id: str) -> None:
        """Take over; the session is asked for, so that it survives."""
        intruder = self._new(client_id, clean_session=False, role="registry")
        intruder.connect(_DEADLINE)
        intruder.close()


@pytest.fixture(params=["in-memory", "mosquitto-5", "mosquitto-3.1.1", "embedded-3.1.1"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Give each implementation of the port in turn."""
    if request.param == "in-memory":
        return InMemoryBackend()
    name, _, protocol = request.param.partition("-")
    server = request.getfixturevalue("mosquitto" if name == "mosquitto" else "embedded_broker")
    assert isinstance(server, BrokerProcess)
    return ServerBackend(server, protocol)


Connect = Callable[..., Transport]


@pytest.fixture
def connect(backend: Backend) -> Iterator[Connect]:
    """Give a function that returns connected transports, which are closed afterwards."""
    opened: list[Transport] = []

    def connect_one(
        name: str, *, clean_session: bool = True, role: str = "registry", filters: tuple[str, ...] = ()
    ) -> Transport:
        transport = backend.transport(f"{name}-{backend.job}", clean_session=clean_session, role=role)
        opened.append(transport)
        transport.subscribe(filters)
        transport.connect(_DEADLINE)
        return transport

    yield connect_one
    for transport in opened:
        transport.close()


def take_messages(transport: Transport, count: int) -> list[Message]:
    """Return the next `count` messages, whatever session events are between them."""
    messages: list[Message] = []

    def enough() -> bool:
        messages.extend(m for m in transport.receive_many(count, 0.05) if isinstance(m, Message))
        return len(messages) >= count

    wait_for(enough, what=f"{count} messages")
    return messages


def take_event(
    transport: Transport, kind: type[SessionStarted] | type[SessionLost]
) -> SessionStarted | SessionLost:
    """Return the next event of `kind`, passing over everything else."""

    def next_one() -> SessionStarted | SessionLost | None:
        item = transport.receive(0.05)
        return item if isinstance(item, kind) else None

    found = wait_for(next_one, what=kind.__name__)
    assert found is not None
    return found


def send(transport: Transport, topic: str, *payloads: bytes, retain: bool = False) -> None:
    """Publish each payload."""
    for payload in payloads:
        transport.publish(topic, payload, retain=retain, deadline_seconds=_DEADLINE)


def test_published_messages_arrive_in_order(backend: Backend, connect: Connect) -> None:
    """What one client publishes, a subscriber receives, complete, in order and unchanged."""
    subscriber = connect("sub", filters=(backend.topic,))
    payloads = [b"", b"\x00\xff", *(b"%d" % n for n in range(50)), b"x" * 60_000]
    send(connect("pub"), backend.topic, *payloads)
    messages: list[Message] = []
    while len(messages) < len(payloads):
        # A broker sends only so many ahead of their acknowledgement (Mosquitto on 3.1.1: 20).
        messages += take_messages(subscriber, 1)
        subscriber.acknowledge(messages[-1])
    assert [m.payload for m in messages] == payloads
    assert {(m.topic, m.retain, m.qos) for m in messages} == {(backend.topic, False, 1)}


def test_session_started_comes_first(connect: Connect) -> None:
    """The first thing a fresh client receives says that the broker had nothing kept for it."""
    assert connect("new").receive(_DEADLINE) == SessionStarted(session_present=False)


def test_receive_gives_up_after_its_timeout(connect: Connect) -> None:
    """With nothing to receive, both ways of receiving return empty-handed."""
    transport = connect("idle")
    take_event(transport, SessionStarted)
    assert transport.receive(0.01) is None
    assert transport.receive_many(10, 0.01) == []


def test_subscribing_later_works_too(backend: Backend, connect: Connect) -> None:
    """A filter added on a standing connection is granted when subscribe returns."""
    subscriber = connect("sub")
    subscriber.subscribe([backend.topic])
    send(connect("pub"), backend.topic, b"1")
    assert [m.payload for m in take_messages(subscriber, 1)] == [b"1"]


def test_retained_message_waits_for_subscribers(backend: Backend, connect: Connect) -> None:
    """A retained message reaches who subscribes afterwards, marked as such, until an empty one clears it."""
    publisher = connect("pub")
    send(publisher, backend.topic, b"old", b"last", retain=True)
    (message,) = take_messages(connect("late", filters=(backend.topic,)), 1)
    assert (message.payload, message.retain) == (b"last", True)
    send(publisher, backend.topic, b"", retain=True)
    nobody = connect("later", filters=(backend.topic,))
    take_event(nobody, SessionStarted)
    send(publisher, backend.topic, b"live")
    assert [m.payload for m in take_messages(nobody, 1)] == [b"live"]


def test_persistent_session_keeps_messages_while_away(backend: Backend, connect: Connect) -> None:
    """What is published while a subscriber with a persistent session is away reaches it later."""
    subscriber = connect("sub", clean_session=False, filters=(backend.topic,))
    subscriber.close()
    send(connect("pub"), backend.topic, b"1", b"2", b"3")
    again = connect("sub", clean_session=False, filters=(backend.topic,))
    assert take_event(again, SessionStarted) == SessionStarted(session_present=True)
    assert [m.payload for m in take_messages(again, 3)] == [b"1", b"2", b"3"]


def test_unacknowledged_messages_come_again_in_order(backend: Backend, connect: Connect) -> None:
    """After a reconnect the broker sends again what was not acknowledged, and nothing that was."""
    subscriber = connect("sub", clean_session=False, filters=(backend.topic,))
    send(connect("pub"), backend.topic, b"1", b"2", b"3", b"4")
    messages = take_messages(subscriber, 4)
    subscriber.acknowledge_many(messages[:2])
    subscriber.close()
    again = connect("sub", clean_session=False, filters=(backend.topic,))
    assert [m.payload for m in take_messages(again, 2)] == [b"3", b"4"]


def test_an_early_acknowledgement_waits_for_those_before(backend: Backend, connect: Connect) -> None:
    """Acknowledging the second message alone acknowledges nothing: order is the protocol's rule."""
    subscriber = connect("sub", clean_session=False, filters=(backend.topic,))
    send(connect("pub"), backend.topic, b"1", b"2")
    subscriber.acknowledge(take_messages(subscriber, 2)[1])
    subscriber.close()
    again = connect("sub", clean_session=False, filters=(backend.topic,))
    assert [m.payload for m in take_messages(again, 2)] == [b"1", b"2"]


def test_a_cut_connection_comes_back(backend: Backend, connect: Connect) -> None:
    """A broken connection is reported, comes back by itself, and still has its subscription."""
    subscriber = connect("sub", clean_session=False, filters=(backend.topic,))
    take_event(subscriber, SessionStarted)
    backend.cut(f"sub-{backend.job}")
    take_event(subscriber, SessionLost)
    assert take_event(subscriber, SessionStarted) == SessionStarted(session_present=True)
    send(connect("pub"), backend.topic, b"after")
    assert [m.payload for m in take_messages(subscriber, 1)] == [b"after"]


def test_acknowledgements_of_a_lost_connection_do_nothing(backend: Backend, connect: Connect) -> None:
    """An acknowledgement from before a reconnect does not hit the same message's second delivery."""
    subscriber = connect("sub", clean_session=False, filters=(backend.topic,))
    publisher = connect("pub")
    send(publisher, backend.topic, b"1")
    (old,) = take_messages(subscriber, 1)
    backend.cut(f"sub-{backend.job}")
    (again,) = take_messages(subscriber, 1)
    assert again.payload == b"1"
    subscriber.acknowledge(old)
    subscriber.close()
    third = connect("sub", clean_session=False, filters=(backend.topic,))
    assert [m.payload for m in take_messages(third, 1)] == [b"1"]


def test_a_refused_publish_says_so_where_the_protocol_can(backend: Backend, connect: Connect) -> None:
    """Without the right to write, a publish raises and names the topic; on 3.1.1 it just reaches nobody."""
    subscriber = connect("sub", filters=(backend.topic,))
    reader = connect("reader", role="hermes")
    if backend.refuses_publish:
        with pytest.raises(RefusedError) as caught:
            reader.publish(backend.topic, b"forged", retain=False, deadline_seconds=_DEADLINE)
        assert caught.value.facts["topic"] == backend.topic
    else:
        send(reader, backend.topic, b"forged")
    send(connect("pub"), backend.topic, b"genuine")
    assert [m.payload for m in take_messages(subscriber, 1)] == [b"genuine"]


def test_a_refused_subscription_says_so(backend: Backend, connect: Connect) -> None:
    """A refused filter is named, and the connection goes on without it; else it just delivers nothing."""
    worker = connect("worker", role="claude-worker")
    if backend.refuses_subscribe:
        with pytest.raises(RefusedError) as caught:
            worker.subscribe([backend.topic])
        assert caught.value.facts["filters"] == (backend.topic,)
    else:
        worker.subscribe([backend.topic])
    take_event(worker, SessionStarted)
    send(worker, backend.topic, b"still connected")
    assert worker.receive(0.05) is None


def test_a_filter_refused_on_connect_fails_the_connect(backend: Backend, connect: Connect) -> None:
    """Filters given before are part of the connect: refused ones are its failure, and then forgotten."""
    worker = backend.transport(f"worker-{backend.job}", role="claude-worker")
    worker.subscribe([backend.topic])
    try:
        if backend.refuses_subscribe:
            with pytest.raises(RefusedError):
                worker.connect(_DEADLINE)
        worker.connect(_DEADLINE)
    finally:
        worker.close()


def test_a_closed_transport_refuses_work(backend: Backend, connect: Connect) -> None:
    """After close, which may be called twice, receiving and publishing raise instead of waiting."""
    transport = connect("sub")
    transport.close()
    transport.close()
    with pytest.raises(TransportError):
        transport.receive(_DEADLINE)
    with pytest.raises(JobwireError):
        transport.publish(backend.topic, b"", retain=False, deadline_seconds=_DEADLINE)


def test_a_closed_transport_connects_again(backend: Backend, connect: Connect) -> None:
    """Connect after close works and keeps the filters."""
    transport = connect("sub", filters=(backend.topic,))
    transport.close()
    transport.connect(_DEADLINE)
    send(connect("pub"), backend.topic, b"1")
    assert [m.payload for m in take_messages(transport, 1)] == [b"1"]
