"""A connection that breaks: what comes back, what is said, and what is never done."""

import ssl
import threading
from collections.abc import Callable
from typing import Protocol

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.core.errors import RefusedError, TransportError, UnreachableError
from jobwire.core.ports import Incoming, Message, SessionLost, SessionStarted
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing import BrokerProcess, MosquittoServer, ScriptedServer, wait_for
from jobwire.testing.scripted import CONNECT, PUBLISH, SUBSCRIBE, Peer, connack, puback, publish, suback
from jobwire.transport import PahoTransport

MakeTransport = Callable[..., PahoTransport]
Plain = Callable[..., BrokerSettings]


class Pki(Protocol):
    """The `pki` fixture."""

    authority: CertificateAuthority
    ca_certs: str

    def server_context(self) -> ssl.SSLContext:
        """Return a server context."""
        ...


_TOPIC = f"{DEFAULT_ROOT}/deadbeef/events"
_BOTH_VERSIONS = pytest.mark.parametrize("protocol", ["5", "3.1.1"])


class Collector:
    """Takes everything that arrives, acknowledging at once."""

    def __init__(self, transport: PahoTransport) -> None:
        self._transport = transport
        self.items: list[Incoming] = []

    def take(self) -> "Collector":
        """Take what is there."""
        for item in self._transport.receive_many(1000, 0.02):
            self.items.append(item)
            if isinstance(item, Message):
                self._transport.acknowledge(item)
        return self

    @property
    def payloads(self) -> list[bytes]:
        """Return the payloads so far."""
        return [item.payload for item in self.items if isinstance(item, Message)]

    def count(self, kind: type[SessionStarted] | type[SessionLost]) -> int:
        """Return how many events of `kind` came so far."""
        return sum(isinstance(item, kind) for item in self.items)

    def wait(self, fact: Callable[["Collector"], object], what: str) -> None:
        """Take until `fact` holds."""
        wait_for(lambda: fact(self.take()), what=what)


def test_broker_restarted_in_the_middle(make_transport: MakeTransport, fresh_broker: BrokerProcess) -> None:
    """Over a restart of either broker the subscription comes back and messages flow again."""
    publisher = make_transport(fresh_broker.settings("claude-worker"), client_id="pub")
    publisher.connect(10)
    subscriber = make_transport(fresh_broker.settings("hermes"), client_id="sub", clean_session=False)
    subscriber.subscribe([_TOPIC])
    subscriber.connect(10)
    collector = Collector(subscriber)
    publisher.publish(_TOPIC, b"before", retain=False, deadline_seconds=10)
    collector.wait(lambda c: c.payloads == [b"before"], "the first message")
    fresh_broker.restart()
    collector.wait(lambda c: c.count(SessionStarted) > 1, "the second session")
    publisher.publish(_TOPIC, b"after", retain=False, deadline_seconds=20)
    collector.wait(lambda c: c.payloads[-1] == b"after", "the second message")
    assert collector.count(SessionLost) >= 1


def test_persistent_session_survives_a_restart(
    make_transport: MakeTransport, fresh_mosquitto: MosquittoServer
) -> None:
    """What Mosquitto queued for an absent subscriber arrives after a restart of the broker."""
    subscriber = make_transport(fresh_mosquitto.settings("hermes"), client_id="sub", clean_session=False)
    subscriber.subscribe([_TOPIC])
    subscriber.connect(10)
    subscriber.close()
    publisher = make_transport(fresh_mosquitto.settings("claude-worker"), client_id="pub")
    publisher.connect(10)
    for number in range(5):
        publisher.publish(_TOPIC, b"%d" % number, retain=False, deadline_seconds=10)
    fresh_mosquitto.restart()
    subscriber.connect(10)
    collector = Collector(subscriber)
    collector.wait(lambda c: len(c.payloads) >= 5, "the queue")
    assert collector.payloads == [b"0", b"1", b"2", b"3", b"4"]
    assert collector.items[0] == SessionStarted(session_present=True)


def test_publish_waits_for_the_broker_to_come_back(
    make_transport: MakeTransport, fresh_broker: BrokerProcess
) -> None:
    """A publish during an outage goes through if the broker returns within the deadline."""
    transport = make_transport(fresh_broker.settings("registry"))
    transport.connect(10)
    fresh_broker.kill()
    wait_for(lambda: isinstance(transport.receive(0.02), SessionLost), what="the loss")
    starter = threading.Thread(target=fresh_broker.start)
    starter.start()
    try:
        transport.publish(_TOPIC, b"1", retain=False, deadline_seconds=20)
    finally:
        starter.join()


def test_a_publish_given_up_is_never_sent_later(
    make_transport: MakeTransport, fresh_broker: BrokerProcess
) -> None:
    """A publish that failed because the broker was down does not turn up when it is back."""
    transport = make_transport(fresh_broker.settings("registry"))
    transport.subscribe([_TOPIC])
    transport.connect(10)
    fresh_broker.kill()
    with pytest.raises(UnreachableError):
        transport.publish(_TOPIC, b"given up", retain=False, deadline_seconds=0.1)
    fresh_broker.start()
    transport.publish(_TOPIC, b"later", retain=False, deadline_seconds=20)
    collector = Collector(transport)
    collector.wait(lambda c: b"later" in c.payloads, "the later message")
    assert collector.payloads == [b"later"]


@_BOTH_VERSIONS
def test_a_publish_without_answer_is_not_repeated(
    make_transport: MakeTransport, plain_settings: Plain, protocol: str
) -> None:
    """A connection that breaks before PUBACK fails the publish; the next connection does not send it."""
    version5 = protocol == "5"
    seen: list[int] = []

    def break_on_publish(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(version5=version5))
        peer.expect(PUBLISH)

    def record(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(version5=version5))
        while True:
            kind, body = peer.read_packet()
            seen.append(kind)
            if kind == PUBLISH:
                assert b"second" in body
                peer.send(puback(body))

    with ScriptedServer(break_on_publish, record) as server:
        transport = make_transport(plain_settings(server, protocol), client_id="c", clean_session=False)
        transport.connect(10)
        with pytest.raises(UnreachableError) as caught:
            transport.publish("a", b"first", retain=False, deadline_seconds=10)
        transport.publish("a", b"second", retain=False, deadline_seconds=10)
        transport.close()
    assert caught.value.facts["cause"] == "lost"
    assert seen.count(PUBLISH) == 1


def test_publish_without_puback_costs_the_deadline(
    make_transport: MakeTransport, plain_settings: Plain
) -> None:
    """A broker that never acknowledges makes publish fail in time, and a late PUBACK does no harm."""
    go_on = threading.Event()

    def answer_late(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        first = peer.expect(PUBLISH)
        go_on.wait(60)
        peer.send(puback(first))
        peer.send(puback(peer.expect(PUBLISH)))
        peer.wait_for_end()

    with ScriptedServer(answer_late) as server:
        transport = make_transport(plain_settings(server))
        transport.connect(10)
        with pytest.raises(UnreachableError) as caught:
            transport.publish("a", b"1", retain=False, deadline_seconds=0.1)
        go_on.set()
        transport.publish("a", b"2", retain=False, deadline_seconds=10)
        transport.close()
    assert caught.value.facts["cause"] == "timeout"


@pytest.mark.parametrize("code", [0x80, 0x87, 0x97, 0x99])
def test_puback_reason_codes_are_read(
    make_transport: MakeTransport, plain_settings: Plain, code: int
) -> None:
    """A PUBACK of 0x80 and above is a refusal, though it is an acknowledgement; 0x10 is success."""

    def refuse(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(version5=True))
        peer.send(puback(peer.expect(PUBLISH), 0x10))
        peer.send(puback(peer.expect(PUBLISH), code))
        peer.wait_for_end()

    with ScriptedServer(refuse) as server:
        transport = make_transport(plain_settings(server, "5"))
        transport.connect(10)
        transport.publish("a", b"no subscribers", retain=False, deadline_seconds=10)
        with pytest.raises(RefusedError) as caught:
            transport.publish("a", b"1", retain=False, deadline_seconds=10)
        transport.close()
    assert caught.value.facts["code"] == code


def accept_then_close(peer: Peer) -> None:
    """Let the client in for a moment."""
    peer.expect(CONNECT)
    peer.send(connack())


def refuse_credentials(peer: Peer) -> None:
    """Answer CONNECT with "not authorised"."""
    peer.expect(CONNECT)
    peer.send(connack(5))
    peer.wait_for_end()


def test_refused_for_good_while_reconnecting(make_transport: MakeTransport, plain_settings: Plain) -> None:
    """When the broker refuses the reconnect, receive says so, again and again, and nothing is retried."""
    with ScriptedServer(accept_then_close, refuse_credentials) as server:
        transport = make_transport(plain_settings(server))
        transport.connect(10)
        assert isinstance(transport.receive(60), SessionStarted)
        assert isinstance(transport.receive(60), SessionLost)
        for _ in range(2):
            with pytest.raises(RefusedError):
                transport.receive(60)
        with pytest.raises(RefusedError):
            transport.publish("a", b"", retain=False, deadline_seconds=10)
        assert server.connections == 2


def test_a_refused_certificate_is_believed_the_third_time(make_transport: MakeTransport, pki: Pki) -> None:
    """On a reconnect a close before CONNACK may be a restart; three in a row are a refusal."""

    def hang_up(peer: Peer) -> None:
        peer.expect(CONNECT)

    with ScriptedServer(accept_then_close, hang_up, context=pki.server_context()) as server:
        transport = make_transport(_with_certificate(server, pki))
        transport.connect(10)
        with pytest.raises(RefusedError) as caught:
            Collector(transport).wait(lambda _: False, "the refusal")
        assert server.connections == 4
    assert caught.value.facts["cause"] == "client_certificate"


def _with_certificate(server: ScriptedServer, pki: Pki) -> BrokerSettings:
    issued = pki.authority.issue("hermes", lifetime_seconds=30 * 86400, force=True)
    return BrokerSettings(
        host=server.host,
        port=server.port,
        ca_certs=pki.ca_certs,
        certfile=str(issued.certfile),
        keyfile=str(issued.keyfile),
        protocol="3.1.1",
    )


def test_a_broker_killed_before_its_connack_is_no_refusal(make_transport: MakeTransport, pki: Pki) -> None:
    """On the first connect one close before CONNACK may be a kill: it is tried once more at once."""

    def hang_up(peer: Peer) -> None:
        peer.expect(CONNECT)

    def accept(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        peer.wait_for_end()

    with ScriptedServer(hang_up, accept, context=pki.server_context()) as server:
        make_transport(_with_certificate(server, pki)).connect(10)
        assert server.connections == 2
    with ScriptedServer(hang_up, context=pki.server_context()) as server:
        transport = make_transport(_with_certificate(server, pki))
        with pytest.raises(RefusedError):
            transport.connect(10)
        assert server.connections == 2


def test_unreachable_is_retried_with_backoff(make_transport: MakeTransport, plain_settings: Plain) -> None:
    """Attempts are counted for the back-off, session events come only for sessions that stood."""
    attempts: list[int] = []

    def hang_up(peer: Peer) -> None:
        peer.expect(CONNECT)

    def accept(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(session_present=True))
        peer.wait_for_end()

    def backoff(attempt: int) -> float:
        attempts.append(attempt)
        return 0.01

    with ScriptedServer(accept_then_close, hang_up, hang_up, accept) as server:
        transport = make_transport(plain_settings(server), backoff=backoff)
        transport.connect(10)
        collector = Collector(transport)
        collector.wait(lambda c: c.count(SessionStarted) == 2, "the second session")
        transport.close()
    assert attempts == [1, 2, 3]
    assert collector.items[0] == SessionStarted(session_present=False)
    assert isinstance(collector.items[1], SessionLost)
    assert collector.items[2] == SessionStarted(session_present=True)


@_BOTH_VERSIONS
def test_every_filter_is_subscribed_again(
    make_transport: MakeTransport, plain_settings: Plain, protocol: str
) -> None:
    """A reconnect subscribes to all filters; on MQTT 5 it asks only missing subscriptions for retained."""
    version5 = protocol == "5"
    requests: list[bytes] = []

    def grant_all(peer: Peer, count: int) -> None:
        peer.expect(CONNECT)
        peer.send(connack(version5=version5))
        for _ in range(count):
            requests.append(peer.expect(SUBSCRIBE))
            peer.send(suback(requests[-1], *([1] * requests[-1].count(b"/")), version5=version5))

    def keep(peer: Peer) -> None:
        grant_all(peer, 1)
        peer.wait_for_end()

    with ScriptedServer(lambda peer: grant_all(peer, 2), keep) as server:
        transport = make_transport(plain_settings(server, protocol), client_id="c", clean_session=False)
        transport.subscribe(["a/1"])
        transport.connect(10)
        transport.subscribe(["b/1"])
        Collector(transport).wait(lambda c: c.count(SessionStarted) == 2, "the second session")
        transport.close()
    assert [b"a/1" in r and b"b/1" in r for r in requests] == [False, False, True]
    # Subscription options, MQTT 5, 3.8.3.1: bits 4 and 5 are Retain Handling.
    assert [request[-1] for request in requests] == ([0x01, 0x01, 0x11] if version5 else [1, 1, 1])


def test_a_subscription_refused_on_reconnect_ends_it(
    make_transport: MakeTransport, plain_settings: Plain
) -> None:
    """When rights were withdrawn meanwhile, receive raises instead of waiting for nothing."""

    def grant(peer: Peer, code: int) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        peer.send(suback(peer.expect(SUBSCRIBE), code))

    with ScriptedServer(lambda peer: grant(peer, 1), lambda peer: grant(peer, 0x80)) as server:
        transport = make_transport(plain_settings(server))
        transport.subscribe(["a"])
        transport.connect(10)
        collector = Collector(transport)
        with pytest.raises(RefusedError) as caught:
            collector.wait(lambda _: False, "the refusal")
    assert caught.value.facts["filters"] == ("a",)


def test_messages_before_suback_follow_session_started(
    make_transport: MakeTransport, plain_settings: Plain
) -> None:
    """What a kept session sends before our SUBACK is handed over after SessionStarted, in order."""

    def send_early(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(session_present=True) + publish(b"a", b"1", packet_id=1))
        request = peer.expect(SUBSCRIBE)
        peer.send(publish(b"a", b"2", packet_id=2) + suback(request, 1) + publish(b"a", b"3", packet_id=3))
        peer.wait_for_end()

    with ScriptedServer(send_early) as server:
        transport = make_transport(plain_settings(server), client_id="c", clean_session=False)
        transport.subscribe(["a"])
        transport.connect(10)
        collector = Collector(transport)
        collector.wait(lambda c: len(c.payloads) == 3, "three messages")
        transport.close()
    assert isinstance(collector.items[0], SessionStarted)
    assert collector.payloads == [b"1", b"2", b"3"]


def test_an_exception_in_a_callback_comes_out_of_receive(
    make_transport: MakeTransport, plain_settings: Plain, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong in the network thread is raised in the consumer, with its cause, and logged."""

    def fail(event: Incoming) -> None:
        if event == SessionStarted(session_present=True):
            raise LookupError("a defect")

    def find_session(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(session_present=True))
        peer.wait_for_end()

    with ScriptedServer(accept_then_close, find_session) as server:
        transport = make_transport(plain_settings(server), observer=fail)
        transport.connect(10)
        assert isinstance(transport.receive(60), SessionStarted)
        assert isinstance(transport.receive(60), SessionLost)
        with pytest.raises(TransportError) as caught:
            transport.receive(60)
        with pytest.raises(TransportError):
            transport.publish("a", b"", retain=False, deadline_seconds=10)
    assert caught.value.facts["cause"] == "defect"
    assert isinstance(caught.value.__cause__, LookupError)
    assert "network thread failed" in caplog.text


def test_a_topic_that_is_not_utf_8_harms_nobody(make_transport: MakeTransport, plain_settings: Plain) -> None:
    """A message with an undecodable topic arrives under a name that matches nothing."""

    def send_bad_topic(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack() + publish(b"\xff\xfe", b"x", packet_id=1) + publish(b"a", b"y", packet_id=2))
        peer.wait_for_end()

    with ScriptedServer(send_bad_topic) as server:
        transport = make_transport(plain_settings(server))
        transport.connect(10)
        collector = Collector(transport)
        collector.wait(lambda c: len(c.payloads) == 2, "both messages")
        transport.close()
    assert [m.topic for m in collector.items if isinstance(m, Message)] == ["\ufffd", "a"]


def test_garbage_from_the_broker_breaks_the_connection_only(
    make_transport: MakeTransport, plain_settings: Plain
) -> None:
    """Bytes that are not MQTT end the connection, and the next one serves."""

    def talk_nonsense(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack() + b"\x32\x05\xff\xff\xff\xff\xff")
        peer.wait_for_end()

    def behave(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        peer.wait_for_end()

    with ScriptedServer(talk_nonsense, behave) as server:
        transport = make_transport(plain_settings(server))
        transport.connect(10)
        Collector(transport).wait(lambda c: c.count(SessionStarted) == 2, "the second session")
        transport.close()


def test_a_full_queue_stops_reading_and_loses_nothing(
    make_transport: MakeTransport, plain_settings: Plain
) -> None:
    """With the queue full the broker is held up by TCP; a publish still works, and everything arrives."""
    count, size = 4000, 4000
    blob = b"x" * 100
    sent_all = threading.Event()

    def flood(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        peer.expect(SUBSCRIBE)
        peer.send(b"\x90\x03\x00\x01\x01")
        body = b"\x00\x01a" + blob * (size // 100)
        head = bytes((0x30, len(body) % 128 | 0x80, len(body) // 128))
        for _ in range(count):
            peer.send(head + body)
        sent_all.set()
        peer.send(puback(peer.expect(PUBLISH)))
        peer.wait_for_end()

    with ScriptedServer(flood) as server:
        transport = make_transport(plain_settings(server), queue_limit=10)
        transport.subscribe(["a"])
        transport.connect(10)
        first = wait_for(lambda: transport.receive_many(1000, 0.02), what="messages")
        # 16 MB fit into no socket buffers: unless the thread reads on, the flood cannot end.
        assert not sent_all.wait(0.3)
        received = sum(isinstance(item, Message) for item in first)
        assert received < count
        transport.publish("b", b"", retain=False, deadline_seconds=20)
        assert sent_all.is_set()
        while received < count:
            received += len(transport.receive_many(1000, 10))
        transport.close()


def test_a_frozen_broker_is_noticed(make_transport: MakeTransport, fresh_mosquitto: MosquittoServer) -> None:
    """A broker that is stopped dead, its connections open, counts as lost after the keep-alive time."""
    transport = make_transport(fresh_mosquitto.settings("hermes"), keepalive_seconds=1)
    transport.connect(10)
    assert isinstance(transport.receive(60), SessionStarted)
    fresh_mosquitto.suspend()
    assert isinstance(transport.receive(60), SessionLost)
    fresh_mosquitto.resume()
    assert isinstance(transport.receive(60), SessionStarted)


def test_close_does_not_wait_for_the_backoff(make_transport: MakeTransport, plain_settings: Plain) -> None:
    """Closing while waiting to try again returns at once."""
    with ScriptedServer(accept_then_close) as server:
        transport = make_transport(plain_settings(server), backoff=lambda _attempt: 3600.0)
        transport.connect(10)
        Collector(transport).wait(lambda c: c.count(SessionLost) == 1, "the loss")
        transport.close()
