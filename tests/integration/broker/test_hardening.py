"""Each hole of the stock broker, closed: every test here fails on amqtt as it comes."""

from pathlib import Path
from typing import Any

import pytest

from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.topics import Topics
from jobwire.testing.raw_mqtt import (
    CONNACK,
    CONNECT,
    ConnectionClosedError,
    ConnectRefusedError,
    RawClient,
    Will,
    text,
)
from jobwire.testing.threaded_broker import StartBroker, ThreadedBroker

TOPICS = Topics()
A, B = "aaaaaaaa", "bbbbbbbb"
EVENTS_A, EVENTS_B, STATE_A = TOPICS.events(A), TOPICS.events(B), TOPICS.state(A)


@pytest.mark.parametrize("which", ["hardened", "stock"])
def test_both_serve_what_is_allowed(which: str, start_broker: StartBroker) -> None:
    """The counterpart of all others: the broker as it comes works, so it fails them for their own reasons."""
    broker = start_broker(which)
    watcher = broker.client("hermes")
    assert watcher.subscribe(TOPICS.events("+")) == 1
    broker.client("claude-worker").publish(EVENTS_A, b"seen")
    assert watcher.next_message().payload == b"seen"


def test_retained_messages_go_to_own_subscriptions_only(kind: str, start_broker: StartBroker) -> None:
    """A client that subscribed to nothing is sent nothing, whatever others subscribed to."""
    broker = start_broker(kind)
    watcher = broker.client("hermes")
    assert watcher.subscribe(TOPICS.events("+")) == 1
    broker.client("claude-worker").publish(EVENTS_A, b"last", retain=True)
    assert watcher.next_message().payload == b"last"
    assert broker.client("claude-worker").settle() == []


def test_retained_messages_pass_the_access_list(kind: str, start_broker: StartBroker, own_home: Path) -> None:
    """A wildcard subscription is not answered with a retained message that its reader may not read."""
    acl = own_home / "broker" / "acl"
    acl.write_text(acl.read_text() + f"\nuser hermes\ntopic deny {EVENTS_B}\n")
    broker = start_broker(kind, home=own_home)
    worker = broker.client("claude-worker")
    worker.publish(EVENTS_B, b"secret", retain=True)
    worker.publish(EVENTS_A, b"open", retain=True)
    watcher = broker.client("hermes")
    assert watcher.subscribe(TOPICS.events("+"), qos=0) == 0
    assert [message.payload for message in watcher.settle()] == [b"open"]


def test_a_will_passes_the_access_list(kind: str, start_broker: StartBroker) -> None:
    """A client that may not publish somewhere cannot leave a Will there."""
    broker = start_broker(kind)
    watcher = broker.client("hermes")
    watcher.subscribe(TOPICS.events("+"))
    try:
        forger = broker.client("metrics", will=Will(EVENTS_A, b"forged"))
    except ConnectRefusedError:
        pass  # ours says no at once; Mosquitto lets in and stays silent
    else:
        forger.drop()
    broker.client("claude-worker", will=Will(EVENTS_A, b"genuine")).drop()
    assert watcher.next_message().payload == b"genuine"


def test_a_wrong_password_disturbs_nobody(kind: str, start_broker: StartBroker) -> None:
    """A connection that fails to authenticate leaves the session of its client id alone."""
    broker = start_broker(kind)
    victim = broker.client("hermes", "victim", clean=False)
    with pytest.raises(ConnectRefusedError):
        broker.open().connect("victim", username="hermes", password="wrong", clean=False)
    assert victim.settle() == []


@pytest.mark.parametrize(
    "which",
    [
        "hardened",
        pytest.param(
            "stock without users",
            marks=pytest.mark.xfail(
                strict=True, raises=pytest.fail.Exception, reason="a hole of amqtt as it comes"
            ),
        ),
    ],
)
@pytest.mark.parametrize("name", ["nobody-we-know", "aaaaaaaa", "hermes"])
def test_a_name_alone_lets_nobody_in(which: str, name: str, start_broker: StartBroker) -> None:
    """A user name without its password is refused: known, unknown or a job's."""
    broker = start_broker(which)
    with pytest.raises(ConnectRefusedError):
        broker.open().connect(username=name)
    with pytest.raises(ConnectRefusedError):
        broker.open().connect(username=name, password="a guess")


def test_another_user_cannot_take_a_session(kind: str, start_broker: StartBroker) -> None:
    """A valid account that asks for somebody else's client id is refused; the owner stays connected."""
    broker = start_broker(kind)
    victim = broker.client("hermes", "victim")
    with pytest.raises(ConnectRefusedError) as caught:
        broker.client("claude-worker", "victim")
    assert caught.value.code == 2
    assert victim.settle() == []


def test_an_unacknowledged_message_comes_again(kind: str, start_broker: StartBroker) -> None:
    """What a persistent subscriber did not acknowledge is sent again, marked DUP, when it comes back."""
    broker = start_broker(kind)
    watcher = broker.client("hermes", "watcher", clean=False)
    watcher.subscribe(EVENTS_A)
    worker = broker.client("claude-worker")
    for payload in (b"1", b"2", b"3"):
        worker.publish(EVENTS_A, payload)
    first = [watcher.next_message() for _ in range(3)]
    watcher.acknowledge(first[0])
    watcher.settle()
    watcher.drop()
    again = broker.client("hermes", "watcher", clean=False)
    assert again.session_present
    second = [again.next_message() for _ in range(2)]
    assert [(message.payload, message.dup) for message in second] == [(b"2", True), (b"3", True)]
    assert [message.packet_id for message in second] == [message.packet_id for message in first[1:]]


def test_a_slow_subscriber_loses_nothing(kind: str, start_broker: StartBroker) -> None:
    """A message that stays unacknowledged for more than five seconds is still owed."""
    broker = start_broker(kind)
    watcher = broker.client("hermes", "slow", clean=False, deadline_seconds=5.6)
    watcher.subscribe(EVENTS_A)
    broker.client("claude-worker").publish(EVENTS_A, b"patience")
    assert watcher.next_message().payload == b"patience"
    with pytest.raises(TimeoutError):
        watcher.next_message()
    watcher.drop()
    again = broker.client("hermes", "slow", clean=False)
    assert again.next_message().payload == b"patience"


def test_a_silent_client_is_disconnected(kind: str, start_broker: StartBroker) -> None:
    """A client that stays silent for one and a half times its keep-alive is cut off, and its Will told."""
    broker = start_broker(kind)
    watcher = broker.client("hermes")
    watcher.subscribe(EVENTS_A)
    frozen = broker.client("claude-worker", keep_alive=1, will=Will(EVENTS_A, b"gone"))
    assert watcher.next_message().payload == b"gone"
    assert frozen.closed_by_broker()


def test_queued_messages_are_not_marked_retained(kind: str, start_broker: StartBroker) -> None:
    """What waited for an absent subscriber arrives as live messages do, in order."""
    broker = start_broker(kind)
    watcher = broker.client("hermes", "away", clean=False)
    watcher.subscribe(EVENTS_A)
    watcher.disconnect()
    worker = broker.client("claude-worker")
    worker.publish(EVENTS_A, b"1")
    worker.publish(EVENTS_A, b"2")
    again = broker.client("hermes", "away", clean=False)
    found = [again.next_message() for _ in range(2)]
    assert [(message.payload, message.retain) for message in found] == [(b"1", False), (b"2", False)]


def test_tls_1_2_is_refused(kind: str, start_broker: StartBroker) -> None:
    """Nothing older than TLS 1.3 completes a handshake."""
    with pytest.raises(ConnectionClosedError):
        start_broker(kind).open(tls12=True)


def test_a_certificate_is_an_identity(kind: str, start_broker: StartBroker, own_home: Path) -> None:
    """A job's certificate needs no password, and its CN is both user name and client id."""
    issued = CertificateAuthority(own_home / "certs").issue_job(A)
    broker = start_broker(kind, home=own_home)
    watcher = broker.client("hermes")
    watcher.subscribe(TOPICS.events("+"))
    job = broker.open(issued.certfile, issued.keyfile).connect(B, username="registry", password="ignored")
    job.publish(EVENTS_B, b"other's")
    job.publish(EVENTS_A, b"own")
    assert watcher.next_message().payload == b"own"
    # The session is A's, whatever the packet said: a second connection takes it over.
    broker.open(issued.certfile, issued.keyfile).connect(A)
    assert job.closed_by_broker()


def test_a_revoked_certificate_is_refused(kind: str, start_broker: StartBroker, own_home: Path) -> None:
    """A certificate on the revocation list does not connect."""
    authority = CertificateAuthority(own_home / "certs")
    issued = authority.issue_job(A)
    authority.revoke(A)
    broker = start_broker(kind, home=own_home)
    with pytest.raises(ConnectionClosedError):
        broker.open(issued.certfile, issued.keyfile).connect(
            A, username="hermes", password=broker.password("hermes")
        )


def test_a_full_queue_is_not_acknowledged(kind: str, start_broker: StartBroker) -> None:
    """A message for a queue that is full is never acknowledged, and nothing that was is lost."""
    broker = start_broker(kind, limits=BrokerLimits(max_queued_messages=3, stall_seconds=0.2))
    _leave_subscription(broker)
    worker = broker.client("claude-worker")
    for payload in (b"1", b"2", b"3"):
        worker.publish(EVENTS_A, payload)
    with pytest.raises(ConnectionClosedError):
        worker.publish(EVENTS_A, b"4")
    watcher = broker.client("hermes", "away", clean=False)
    for expected in (b"1", b"2", b"3"):
        message = watcher.next_message()
        assert message.payload == expected
        watcher.acknowledge(message)
    assert watcher.settle() == []
    broker.client("claude-worker").publish(EVENTS_A, b"4")
    assert watcher.next_message().payload == b"4"


def test_a_publisher_waits_for_room(kind: str, start_broker: StartBroker) -> None:
    """A publisher held up by a full queue is acknowledged as soon as there is room."""
    broker = start_broker(kind, limits=BrokerLimits(max_queued_messages=1, stall_seconds=10))
    _leave_subscription(broker)
    worker = broker.client("claude-worker")
    worker.publish(EVENTS_A, b"1")
    worker.publish(EVENTS_A, b"2", wait=False)
    watcher = broker.client("hermes", "away", clean=False)
    first = watcher.next_message()
    assert watcher.settle() == []
    watcher.acknowledge(first)
    assert watcher.next_message().payload == b"2"


def test_version_5_is_told_no(kind: str, start_broker: StartBroker) -> None:
    """A version 5 CONNECT is answered with reason 0x84, not with silence."""
    client = start_broker(kind).open()
    client.send(CONNECT, 0, text("MQTT") + bytes([5, 2, 0, 60, 0]) + text("five"))
    answer = client.read()
    assert (answer.kind, answer.body) == (CONNACK, bytes([0, 0x84, 0]))


def _leave_subscription(broker: ThreadedBroker[Any]) -> None:
    watcher: RawClient = broker.client("hermes", "away", clean=False)
    watcher.subscribe(EVENTS_A)
    watcher.disconnect()
