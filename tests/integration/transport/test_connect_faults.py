"""Every way a connect can fail without TLS: the class says whether to retry, the facts say why."""

import time
from collections.abc import Callable

import pytest

from jobwire.core.errors import ConfigError, JobwireError, RefusedError, TransportError, UnreachableError
from jobwire.core.settings import BrokerSettings, Secret
from jobwire.testing import BrokerProcess, ScriptedServer, free_port
from jobwire.testing.scripted import CONNECT, SUBSCRIBE, Peer, connack, suback
from jobwire.transport import PahoTransport

MakeTransport = Callable[..., PahoTransport]
Plain = Callable[..., BrokerSettings]
_BOTH_VERSIONS = pytest.mark.parametrize("protocol", ["5", "3.1.1"])


def failure(transport: PahoTransport, deadline_seconds: float = 10.0) -> TransportError:
    """Return what connect raises; every such error names a cause and a remedy."""
    with pytest.raises(TransportError) as caught:
        transport.connect(deadline_seconds)
    assert caught.value.facts["cause"]
    assert caught.value.hint
    return caught.value


def hang_up(peer: Peer) -> None:
    """Read CONNECT and close."""
    peer.expect(CONNECT)


def stay_silent(peer: Peer) -> None:
    """Accept and never answer."""
    peer.wait_for_end()


@_BOTH_VERSIONS
def test_broker_down(make_transport: MakeTransport, protocol: str) -> None:
    """Nobody listens: unreachable, at once, and the remedy is to start a broker."""
    settings = BrokerSettings(host="127.0.0.1", port=free_port(), tls=False, protocol=protocol)
    error = failure(make_transport(settings))
    assert isinstance(error, UnreachableError)
    assert error.facts["cause"] == "connection_refused"
    assert settings.address in error.message
    assert "jobwire up" in error.hint


def test_unknown_name(make_transport: MakeTransport) -> None:
    """A name that does not resolve is unreachable (RFC 6761: .invalid never does)."""
    error = failure(make_transport(BrokerSettings(host="no-such-broker.invalid", port=1)))
    assert isinstance(error, UnreachableError)
    assert error.facts["cause"] == "dns"


@_BOTH_VERSIONS
def test_silent_server(make_transport: MakeTransport, plain_settings: Plain, protocol: str) -> None:
    """A server that accepts and says nothing costs the deadline, not more; version 5 hints at 3.1.1."""
    with ScriptedServer(stay_silent) as server:
        started = time.monotonic()
        error = failure(make_transport(plain_settings(server, protocol)), 0.3)
    assert isinstance(error, UnreachableError)
    assert error.facts["cause"] == "timeout"
    assert 0.3 <= time.monotonic() - started < 3
    assert ("MQTT_PROTOCOL=3.1.1" in error.hint) is (protocol == "5")


@_BOTH_VERSIONS
def test_closed_before_connack(make_transport: MakeTransport, plain_settings: Plain, protocol: str) -> None:
    """A server that hangs up on CONNECT is unreachable: it may be starting or the wrong port."""
    with ScriptedServer(hang_up) as server:
        error = failure(make_transport(plain_settings(server, protocol)))
    assert isinstance(error, UnreachableError)
    assert error.facts["cause"] == "closed"


@pytest.mark.parametrize(
    ("protocol", "code", "expected"),
    [
        ("3.1.1", 1, (RefusedError, "mqtt_version")),
        ("3.1.1", 2, (RefusedError, "connack")),
        ("3.1.1", 3, (UnreachableError, "busy")),
        ("3.1.1", 4, (RefusedError, "credentials")),
        ("3.1.1", 5, (RefusedError, "credentials")),
        ("5", 0x84, (RefusedError, "mqtt_version")),
        ("5", 0x85, (RefusedError, "connack")),
        ("5", 0x86, (RefusedError, "credentials")),
        ("5", 0x87, (RefusedError, "credentials")),
        ("5", 0x88, (UnreachableError, "busy")),
        ("5", 0x89, (UnreachableError, "busy")),
        ("5", 0x8A, (RefusedError, "connack")),
        ("5", 0x9F, (UnreachableError, "busy")),
    ],
)
def test_connack_codes(
    make_transport: MakeTransport,
    plain_settings: Plain,
    protocol: str,
    code: int,
    expected: tuple[type[JobwireError], str],
) -> None:
    """Each refusal of CONNECT is told apart: refused for good, or to be tried again."""

    def refuse(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(code, version5=protocol == "5"))
        peer.wait_for_end()

    with ScriptedServer(refuse) as server:
        error = failure(make_transport(plain_settings(server, protocol)))
    assert (type(error), error.facts["cause"]) == expected


def test_wrong_password(make_transport: MakeTransport, broker: BrokerProcess) -> None:
    """A wrong password is refused by both brokers, and the message names the user, not the password."""
    settings = broker.settings("hermes")._replace(password=Secret("guessed"))
    error = failure(make_transport(settings))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "credentials"
    assert "hermes" in error.message
    assert "guessed" not in str(error)


def test_anonymous(make_transport: MakeTransport, broker: BrokerProcess) -> None:
    """A connection without user name is refused by both brokers."""
    error = failure(make_transport(broker.settings("hermes")._replace(username=None, password=None)))
    assert isinstance(error, RefusedError)


@_BOTH_VERSIONS
def test_refused_subscription(make_transport: MakeTransport, plain_settings: Plain, protocol: str) -> None:
    """Of several filters the refused one is named; the SUBACK code is among the facts."""
    code = 0x87 if protocol == "5" else 0x80

    def grant_first_only(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack(version5=protocol == "5"))
        peer.send(suback(peer.expect(SUBSCRIBE), 1, code, version5=protocol == "5"))
        peer.wait_for_end()

    with ScriptedServer(grant_first_only) as server:
        transport = make_transport(plain_settings(server, protocol))
        transport.connect(10)
        with pytest.raises(RefusedError) as caught:
            transport.subscribe(["yes", "no"])
        transport.close()
    assert caught.value.facts["filters"] == ("no",)
    assert caught.value.facts["code"] == code


def test_subscription_never_answered(make_transport: MakeTransport, plain_settings: Plain) -> None:
    """A missing SUBACK costs the deadline."""

    def ignore_subscribe(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        peer.wait_for_end()

    with ScriptedServer(ignore_subscribe) as server:
        transport = make_transport(plain_settings(server))
        transport.connect(10)
        with pytest.raises(UnreachableError):
            transport.subscribe(["a"], deadline_seconds=0.2)
        early = make_transport(plain_settings(server))
        early.subscribe(["a"])
        with pytest.raises(UnreachableError):
            early.connect(0.2)
        transport.close()


def test_connect_can_be_tried_again(make_transport: MakeTransport, plain_settings: Plain) -> None:
    """The same transport connects once the broker is there."""

    def accept(peer: Peer) -> None:
        peer.expect(CONNECT)
        peer.send(connack())
        peer.wait_for_end()

    with ScriptedServer(hang_up, accept) as server:
        transport = make_transport(plain_settings(server))
        failure(transport)
        transport.connect(10)
        transport.close()


def test_a_persistent_session_needs_a_client_id() -> None:
    """Without a client id there is nothing to find a session by."""
    with pytest.raises(JobwireError):
        PahoTransport(BrokerSettings(), client_id="", clean_session=False)


def test_missing_ca_file(make_transport: MakeTransport) -> None:
    """A CA file that is not there is a matter of configuration, and named."""
    with pytest.raises(ConfigError) as caught:
        make_transport(BrokerSettings(ca_certs="/nowhere/ca.pem")).connect(1)
    assert caught.value.facts["path"] == "/nowhere/ca.pem"
