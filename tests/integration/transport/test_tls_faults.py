"""Every way TLS can fail: what is wrong with whose certificate, and what to do about it."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.core.errors import ConfigError, RefusedError, TransportError, UnreachableError
from jobwire.core.settings import BrokerSettings
from jobwire.testing import BrokerProcess, ScriptedServer, wait_for
from jobwire.testing.scripted import CONNECT, Peer, connack
from jobwire.transport import PahoTransport

MakeTransport = Callable[..., PahoTransport]


class Pki(Protocol):
    """The `pki` fixture."""

    authority: CertificateAuthority
    ca_certs: str

    def server_context(
        self, *names: str, lifetime_days: float = 30, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> ssl.SSLContext:
        """Return a server context."""
        ...


def accept(peer: Peer) -> None:
    """Let the client in and keep it."""
    peer.expect(CONNECT)
    peer.send(connack())
    peer.wait_for_end()


def hang_up(peer: Peer) -> None:
    """Read CONNECT and close."""
    peer.expect(CONNECT)


def secure(server: ScriptedServer, ca_certs: str | None, host: str = "127.0.0.1") -> BrokerSettings:
    """Return TLS settings for a scripted server."""
    return BrokerSettings(host=host, port=server.port, ca_certs=ca_certs, protocol="3.1.1")


def failure(transport: PahoTransport) -> TransportError:
    """Return what connect raises, which names a remedy."""
    with pytest.raises(TransportError) as caught:
        transport.connect(10)
    assert caught.value.hint
    return caught.value


def test_a_good_certificate_is_accepted(make_transport: MakeTransport, pki: Pki) -> None:
    """The counterpart of all others here: the very same set-up works, by name and by address."""
    with ScriptedServer(accept, context=pki.server_context()) as server:
        for host in ("127.0.0.1", "localhost"):
            make_transport(secure(server, pki.ca_certs, host)).connect(10)


def test_tls_1_3_is_spoken(make_transport: MakeTransport, pki: Pki, tmp_path: Path) -> None:
    """The handshake settles on TLS 1.3 although the server offers older versions."""
    context = pki.server_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.keylog_filename = str(tmp_path / "keys")
    with ScriptedServer(accept, context=context) as server:
        make_transport(secure(server, pki.ca_certs)).connect(10)
    # NSS key log format: these labels exist in TLS 1.3 only.
    assert "CLIENT_TRAFFIC_SECRET_0" in (tmp_path / "keys").read_text()


def test_tls_1_2_broker(make_transport: MakeTransport, pki: Pki) -> None:
    """A broker that has TLS 1.2 at most is refused by us, and the version is named."""
    with ScriptedServer(accept, context=pki.server_context(newest=ssl.TLSVersion.TLSv1_2)) as server:
        error = failure(make_transport(secure(server, pki.ca_certs)))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "tls_version"
    assert "TLS 1.3" in error.message


def test_wrong_ca(make_transport: MakeTransport, broker: BrokerProcess, pki: Pki) -> None:
    """A broker whose certificate comes from another CA is refused, and the CA file in use is named."""
    settings = broker.settings("hermes")._replace(ca_certs=pki.ca_certs)
    error = failure(make_transport(settings))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "wrong_ca"
    assert pki.ca_certs in error.hint


def test_system_cas_do_not_know_ours(make_transport: MakeTransport, broker: BrokerProcess) -> None:
    """Without a CA setting the system's are asked, which do not know a private one."""
    error = failure(make_transport(broker.settings("hermes")._replace(ca_certs=None)))
    assert error.facts["cause"] == "wrong_ca"


def test_expired_certificate(make_transport: MakeTransport, pki: Pki) -> None:
    """An expired server certificate is refused and called that."""
    with ScriptedServer(accept, context=pki.server_context(lifetime_days=1)) as server:
        error = failure(make_transport(secure(server, pki.ca_certs)))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "certificate_expired"


@pytest.mark.parametrize(("host", "name"), [("127.0.0.1", "localhost"), ("localhost", "127.0.0.1")])
def test_wrong_host_name(make_transport: MakeTransport, pki: Pki, host: str, name: str) -> None:
    """A certificate for another name or address is refused, naming what was asked for."""
    with ScriptedServer(accept, context=pki.server_context(name)) as server:
        error = failure(make_transport(secure(server, pki.ca_certs, host)))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "wrong_host_name"
    assert host in error.message


def test_plaintext_port(make_transport: MakeTransport, pki: Pki) -> None:
    """A port that answers in the clear is told apart from one with a bad certificate."""

    def talk_plainly(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.wait_for_end()

    with ScriptedServer(talk_plainly) as server:
        error = failure(make_transport(secure(server, pki.ca_certs)))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "not_tls"


def test_closed_during_the_handshake(make_transport: MakeTransport, pki: Pki) -> None:
    """A peer that hangs up on the handshake is unreachable: that may pass."""

    def close_at_once(_: Peer) -> None:
        pass

    with ScriptedServer(close_at_once) as server:
        error = failure(make_transport(secure(server, pki.ca_certs)))
    assert isinstance(error, UnreachableError)
    assert error.facts["cause"] == "closed"


def test_silent_during_the_handshake(make_transport: MakeTransport, pki: Pki) -> None:
    """A peer that never answers the handshake costs the deadline."""

    def stay_silent(peer: Peer) -> None:
        peer.wait_for_end()

    with ScriptedServer(stay_silent) as server, pytest.raises(UnreachableError) as caught:
        make_transport(secure(server, pki.ca_certs)).connect(0.3)
    assert caught.value.facts["cause"] == "timeout"


def client_checking(context: ssl.SSLContext, ca_certs: str) -> ssl.SSLContext:
    """Let `context` demand client certificates of that CA."""
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca_certs)
    return context


def test_missing_client_certificate(make_transport: MakeTransport, pki: Pki) -> None:
    """A broker that wants a certificate from us refuses; TLS 1.3 says so only after the handshake."""
    with ScriptedServer(accept, context=client_checking(pki.server_context(), pki.ca_certs)) as server:
        error = failure(make_transport(secure(server, pki.ca_certs)))
    # The alert can be overtaken by the reset of the connection: then all we see is that it closed.
    assert error.facts["cause"] in {"client_certificate", "closed"}


def test_refused_client_certificate(make_transport: MakeTransport, pki: Pki, tmp_path: Path) -> None:
    """A certificate of a foreign CA is refused for good, whether the alert arrives or not."""
    foreign = CertificateAuthority(tmp_path / "foreign")
    foreign.init()
    issued = foreign.issue("hermes")
    with ScriptedServer(accept, context=client_checking(pki.server_context(), pki.ca_certs)) as server:
        settings = secure(server, pki.ca_certs)
        settings = settings._replace(certfile=str(issued.certfile), keyfile=str(issued.keyfile))
        error = failure(make_transport(settings))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "client_certificate"
    assert str(issued.certfile) in error.hint


def test_a_job_certificate_publishes_for_its_own_job(
    make_transport: MakeTransport, broker: BrokerProcess
) -> None:
    """With a job's certificate and no password both brokers let the job in, under its own identity."""
    settings = broker.certificate_settings("0badcafe")
    transport = make_transport(settings, client_id="0badcafe")
    transport.connect(10)
    topic = f"{settings.topic_root}/0badcafe/events"
    transport.publish(topic, b"1", retain=False, deadline_seconds=10)


def test_a_foreign_client_certificate_is_refused_by_brokers(
    make_transport: MakeTransport, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Both brokers refuse a certificate of a CA they do not know, and we call it that."""
    foreign = CertificateAuthority(tmp_path / "foreign")
    foreign.init()
    issued = foreign.issue("hermes")
    settings = broker.certificate_settings("hermes")._replace(
        certfile=str(issued.certfile), keyfile=str(issued.keyfile)
    )
    error = failure(make_transport(settings))
    assert isinstance(error, RefusedError)
    assert error.facts["cause"] == "client_certificate"


def test_accepted_client_certificate_is_renewed_on_reconnect(make_transport: MakeTransport, pki: Pki) -> None:
    """A certificate file that is replaced is used from the next reconnect on, in the same process."""
    issued = pki.authority.issue("hermes", lifetime_seconds=30 * 86400)
    context = client_checking(pki.server_context(), pki.ca_certs)
    serials: list[object] = []

    def note(peer: Peer) -> None:
        peer.expect(CONNECT)
        serials.append(peer.certificate()["serialNumber"])
        peer.send(connack())
        if len(serials) == 1:
            pki.authority.renew("hermes", lifetime_seconds=30 * 86400)
        else:
            peer.wait_for_end()

    with ScriptedServer(note, context=context) as server:
        settings = secure(server, pki.ca_certs)
        settings = settings._replace(certfile=str(issued.certfile), keyfile=str(issued.keyfile))
        make_transport(settings).connect(10)
        wait_for(lambda: len(serials) > 1, what="a second connection")
    assert serials[0] != serials[1]


def test_a_key_that_others_may_read_is_refused(make_transport: MakeTransport, pki: Pki) -> None:
    """Nothing is sent with a private key that is open to other users."""
    issued = pki.authority.issue("hermes")
    issued.keyfile.chmod(0o640)
    settings = BrokerSettings(
        ca_certs=pki.ca_certs, certfile=str(issued.certfile), keyfile=str(issued.keyfile), port=1
    )
    with pytest.raises(ConfigError) as caught:
        make_transport(settings).connect(1)
    assert caught.value.facts["mode"] == 0o640
    assert "chmod 600" in caught.value.hint


def test_a_key_of_another_certificate_is_refused(make_transport: MakeTransport, pki: Pki) -> None:
    """A certificate and a key that do not belong together are a matter of configuration."""
    first, second = pki.authority.issue("first"), pki.authority.issue("second")
    settings = BrokerSettings(
        ca_certs=pki.ca_certs, certfile=str(first.certfile), keyfile=str(second.keyfile), port=1
    )
    with pytest.raises(ConfigError) as caught:
        make_transport(settings).connect(1)
    assert caught.value.facts["keyfile"] == str(second.keyfile)
