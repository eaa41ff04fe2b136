"""The embedded broker by itself: protocol, sessions, files read again, refusals at the start."""

import asyncio
from pathlib import Path

import pytest

from jobwire.broker.embedded import EmbeddedBroker
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.passwd import PasswordFile
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.core.topics import Topics
from jobwire.testing.clock import ManualClock
from jobwire.testing.raw_mqtt import (
    CONNACK,
    CONNECT,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    ConnectionClosedError,
    ConnectRefusedError,
    text,
)
from jobwire.testing.threaded_broker import StartBroker

A, B = "aaaaaaaa", "bbbbbbbb"
EVENTS = Topics().events(A)


@pytest.mark.parametrize(
    ("kind", "flags", "body"),
    [
        (CONNECT, 0, text("MQTT") + bytes([4, 2, 0, 60]) + text("again")),
        (CONNACK, 0, b"\0\0"),
        (PUBLISH, 2, text("a/+") + b"\0\1x"),
        (PUBLISH, 2, text("") + b"\0\1x"),
        (PUBLISH, 2, text("a\0b") + b"\0\1x"),
        (PUBLISH, 2, text(b"\xff\xfe") + b"\0\1x"),
        (PUBLISH, 2, b"\0\xff" + b"short"),
        (PUBLISH, 2, text("a") + b"\0\0x"),
        (PUBLISH, 6, text("a") + b"\0\1x"),
        (SUBSCRIBE, 2, b"\0\1"),
        (SUBSCRIBE, 2, b"\0\1" + text("a") + b"\x07"),
        (0, 0, b""),
        (15, 0, b""),
    ],
)
def test_protocol_violations_end_the_connection(
    start_broker: StartBroker, kind: int, flags: int, body: bytes
) -> None:
    """A packet that MQTT forbids closes its connection and no other."""
    broker = start_broker()
    bystander, client = broker.client("hermes"), broker.client("claude-worker")
    client.send(kind, flags, body)
    assert client.closed_by_broker()
    assert bystander.settle() == []


def test_a_subscribe_has_a_bound(start_broker: StartBroker) -> None:
    """One packet cannot have all retained messages looked through more often than a session has filters."""
    client = start_broker(limits=BrokerLimits(max_subscriptions=3)).client("hermes")
    client.send(SUBSCRIBE, 2, b"\0\1" + (text(EVENTS) + b"\1") * 4)
    assert client.closed_by_broker()


def test_an_oversized_packet_is_not_read(start_broker: StartBroker) -> None:
    """A packet beyond the bound ends the connection before its body is taken."""
    client = start_broker(limits=BrokerLimits(max_packet_bytes=1000)).client("claude-worker")
    client.send_bytes(bytes([PUBLISH << 4 | 2, 0xFF, 0xFF, 0xFF, 0x7F]))
    assert client.closed_by_broker()


def test_a_connection_without_connect_ends(start_broker: StartBroker) -> None:
    """Who does not send CONNECT in time loses the connection."""
    assert start_broker(limits=BrokerLimits(connect_seconds=0.3)).open().closed_by_broker()


def test_qos_2_is_received_once(start_broker: StartBroker) -> None:
    """A QoS 2 publish that is repeated before its release is routed once, and the flow completes."""
    broker = start_broker()
    watcher, worker = broker.client("hermes"), broker.client("claude-worker")
    assert watcher.subscribe(EVENTS, qos=2) == 1
    for dup in (0, 8):
        worker.send(PUBLISH, 4 | dup, text(EVENTS) + b"\0\x07once")
        assert worker.expect(PUBREC).body == b"\0\x07"
    worker.send(PUBREL, 2, b"\0\x07")
    worker.expect(PUBCOMP)
    assert [message.payload for message in watcher.settle()] == [b"once"]


def test_order_is_kept_under_load(start_broker: StartBroker) -> None:
    """A thousand messages without waiting arrive in order beyond the in-flight window."""
    broker = start_broker()
    watcher, worker = broker.client("hermes"), broker.client("claude-worker")
    watcher.subscribe(EVENTS)
    for number in range(1000):
        worker.publish(EVENTS, b"%d" % number, wait=False)
    for number in range(1000):
        message = watcher.next_message()
        assert message.payload == b"%d" % number
        watcher.acknowledge(message)


def test_a_second_connection_continues_the_session(start_broker: StartBroker) -> None:
    """The same user with the same client id takes its own session over, with everything it is owed."""
    broker = start_broker()
    first = broker.client("hermes", "mine", clean=False)
    first.subscribe(EVENTS)
    second = broker.client("hermes", "mine", clean=False)
    assert second.session_present
    assert first.closed_by_broker()
    broker.client("claude-worker").publish(EVENTS, b"x")
    assert second.next_message().payload == b"x"


def test_a_clean_connection_ends_the_old_session(start_broker: StartBroker) -> None:
    """A clean session starts without the subscriptions and messages of the one before."""
    broker = start_broker()
    broker.client("hermes", "mine", clean=False).subscribe(EVENTS)
    broker.client("hermes", "mine").disconnect()
    broker.client("claude-worker").publish(EVENTS, b"x")
    again = broker.client("hermes", "mine", clean=False)
    assert not again.session_present
    assert again.settle() == []


def test_a_slow_clean_session_does_not_hold_publishers(start_broker: StartBroker) -> None:
    """A clean session that does not acknowledge is disconnected, not waited for."""
    broker = start_broker(limits=BrokerLimits(max_queued_messages=2))
    slow = broker.client("hermes")
    slow.subscribe(EVENTS)
    worker = broker.client("claude-worker")
    for number in range(4):
        worker.publish(EVENTS, b"%d" % number)
    assert slow.closed_by_broker()


def test_sys_topics_are_refused(start_broker: StartBroker) -> None:
    """Nobody subscribes to $SYS or to everything."""
    client = start_broker().client("registry")
    assert client.subscribe("$SYS/#") == 0x80
    assert client.subscribe("#") == 0x80


def test_connections_are_bounded(start_broker: StartBroker) -> None:
    """A session beyond the bound is told that the server is unavailable."""
    broker = start_broker(limits=BrokerLimits(max_sessions=1))
    broker.client("hermes", "one")
    with pytest.raises(ConnectRefusedError) as caught:
        broker.client("hermes", "two")
    assert caught.value.code == 3


def test_a_changed_password_disconnects_on_reload(start_broker: StartBroker, own_home: Path) -> None:
    """After a reload the old password is refused, its connection gone, and everybody else stays."""
    broker = start_broker(home=own_home)
    hermes, metrics = broker.client("hermes"), broker.client("metrics")
    with PasswordFile.edit(own_home / "broker" / "passwd") as users:
        users.set("hermes", "another", iterations=101)
    broker.call(broker.broker.reload)
    assert hermes.closed_by_broker()
    assert metrics.settle() == []
    with pytest.raises(ConnectRefusedError):
        broker.client("hermes")
    broker.open().connect(username="hermes", password="another")


def test_a_revocation_takes_effect_on_reload(start_broker: StartBroker, own_home: Path) -> None:
    """A certificate revoked while the broker runs loses its connection on reload, and gets no other."""
    authority = CertificateAuthority(own_home / "certs")
    issued, other = authority.issue_job(A), authority.issue_job(B)
    broker = start_broker(home=own_home)
    intruder = broker.open(issued.certfile, issued.keyfile).connect(A)
    bystander = broker.open(other.certfile, other.keyfile).connect(B)
    authority.revoke(A)
    broker.call(broker.broker.reload)
    assert intruder.closed_by_broker()
    assert bystander.settle() == []
    with pytest.raises(ConnectionClosedError):
        broker.open(issued.certfile, issued.keyfile).connect(A)


def test_a_revocation_meets_who_is_connecting(start_broker: StartBroker, own_home: Path) -> None:
    """A certificate that is revoked between a connection's handshake and its CONNECT opens no session."""
    authority = CertificateAuthority(own_home / "certs")
    issued = authority.issue_job(A)
    broker = start_broker(home=own_home)
    intruder = broker.open(issued.certfile, issued.keyfile)
    authority.revoke(A)
    broker.call(broker.broker.reload)
    with pytest.raises((ConnectRefusedError, ConnectionClosedError)):
        intruder.connect(A)


def test_every_list_of_a_second_is_in_force_once_loaded(start_broker: StartBroker, own_home: Path) -> None:
    """Certificates revoked one after the other in one second are refused after each reload."""
    authority = CertificateAuthority(own_home / "certs", clock=ManualClock(now=SystemClock().now()))
    jobs = {name: authority.issue_job(name) for name in (A, B)}
    broker = start_broker(home=own_home)
    for name, issued in jobs.items():
        broker.open(issued.certfile, issued.keyfile).connect(name).drop()
        authority.revoke(name)
        broker.call(broker.broker.reload)
        with pytest.raises(ConnectionClosedError):
            broker.open(issued.certfile, issued.keyfile).connect(name)


def test_a_renewed_server_certificate_is_used_on_reload(start_broker: StartBroker, own_home: Path) -> None:
    """New handshakes get the new server certificate; open connections go on."""
    broker = start_broker(home=own_home)
    before = broker.client("hermes")
    CertificateAuthority(own_home / "certs").renew("server", new_key=True)
    broker.call(broker.broker.reload)
    after = broker.client("hermes")
    assert before.settle() == []
    assert _serial(before.socket) != _serial(after.socket)


def test_an_unusable_file_changes_nothing_on_reload(start_broker: StartBroker, own_home: Path) -> None:
    """A reload with a malformed access list raises, names the line, and the old one stays in force."""
    broker = start_broker(home=own_home)
    acl = own_home / "broker" / "acl"
    acl.write_text(acl.read_text() + "nonsense\n")
    with pytest.raises(ConfigError, match=r"acl, line \d+: unknown keyword"):
        broker.call(broker.broker.reload)
    assert broker.client("hermes").subscribe(EVENTS) == 1


@pytest.mark.parametrize(("name", "content"), [("acl", "topics read x\n"), ("passwd", "hermes:plain\n")])
def test_a_malformed_file_prevents_the_start(own_home: Path, name: str, content: str) -> None:
    """The broker refuses to start and names the line."""
    (own_home / "broker" / name).write_text(content)
    with pytest.raises(ConfigError, match=f"{name}, line 1: "):
        EmbeddedBroker(home=own_home)


def test_a_key_that_others_can_read_prevents_the_start(start_broker: StartBroker, own_home: Path) -> None:
    """A server key with loose permissions is refused with the command that mends it."""
    (own_home / "certs" / "server.key").chmod(0o644)
    with pytest.raises(ConfigError, match="open to other users") as caught:
        start_broker(home=own_home)
    assert "chmod 600" in caught.value.hint


def test_it_stays_on_this_host(own_home: Path) -> None:
    """An address beyond loopback is refused unless it was asked for explicitly."""
    with pytest.raises(ConfigError, match="for this host"):
        EmbeddedBroker(home=own_home, host="0.0.0.0")  # noqa: S104 - the refusal is what is tested
    EmbeddedBroker(home=own_home, host="0.0.0.0", beyond_loopback=True)  # noqa: S104 - as above


def test_it_serves_the_other_loopback(own_home: Path) -> None:
    """An IPv6 address can be bound, too."""

    async def port() -> int:
        broker = EmbeddedBroker(home=own_home, host="::1")
        await broker.start()
        await broker.stop()
        return broker.port

    assert asyncio.run(port()) > 0


def _serial(connection: object) -> object:
    certificate = connection.getpeercert()  # type: ignore[attr-defined]  # an SSLSocket
    return certificate["serialNumber"]
