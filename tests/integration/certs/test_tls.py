"""Real TLS 1.3 connections with mutual authentication on loopback."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobwire.certs import rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.layout import Places
from jobwire.certs.values import HOUR, Issued
from jobwire.testing.self_signed import self_signed

_GREETING = b"k"
_TIMEOUT_SECONDS = 60.0


def server_context(places: Places, *, revocation: bool = True) -> ssl.SSLContext:
    """Return what a broker does: TLS 1.3, client certificate required, revocation list checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(places.server, places.server_key)
    context.load_verify_locations(places.bundle)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    if revocation:
        context.load_verify_locations(places.crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    return context


def client_context(bundle: Path, issued: Issued | None) -> ssl.SSLContext:
    """Return what a worker does: TLS 1.3, host name verified, its certificate shown."""
    context = ssl.create_default_context(cafile=str(bundle))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    if issued:
        context.load_cert_chain(issued.certfile, issued.keyfile)
    return context


@contextmanager
def serve_once(context: ssl.SSLContext) -> Iterator[int]:
    """Accept one connection, greet it if its certificate is accepted, and give the port."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.settimeout(_TIMEOUT_SECONDS)
        try:
            with context.wrap_socket(connection, server_side=True) as secure:
                secure.sendall(_GREETING)
        except ssl.SSLError:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        listener.settimeout(_TIMEOUT_SECONDS)
        served = pool.submit(serve, listener)
        yield listener.getsockname()[1]
        served.result(_TIMEOUT_SECONDS)


def connect(server: ssl.SSLContext, client: ssl.SSLContext, *, host: str = "localhost") -> str:
    """Return the TLS version of an accepted connection; ssl.SSLError if either side refuses.

    The greeting is read because in TLS 1.3 a refused client certificate shows only after the handshake.
    """
    with serve_once(server) as port:
        plain = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_SECONDS)
        with plain, client.wrap_socket(plain, server_hostname=host) as secure:
            assert secure.recv(1) == _GREETING
            return secure.version() or ""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_mutual_authentication(authority: CertificateAuthority, host: str) -> None:
    """Roles and jobs connect over TLS 1.3, by name and by address, with both sides verified."""
    for issued in (authority.issue("hermes"), authority.issue_job("deadbeef")):
        client = client_context(authority.places.bundle, issued)
        assert connect(server_context(authority.places), client, host=host) == "TLSv1.3"


def test_wrong_host_name_is_refused(authority: CertificateAuthority) -> None:
    """A client that asked for another host does not talk to this one."""
    client = client_context(authority.places.bundle, authority.issue("hermes"))
    with pytest.raises(ssl.SSLCertVerificationError, match="ostname mismatch"):
        connect(server_context(authority.places), client, host="example.org")


def test_expired_server_is_refused(authority: CertificateAuthority) -> None:
    """A client refuses a server certificate past its end."""
    CertificateAuthority(authority.directory, backdate_seconds=HOUR).renew("server", lifetime_seconds=60)
    client = client_context(authority.places.bundle, authority.issue("hermes"))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        connect(server_context(authority.places), client)


def test_server_of_another_authority_is_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    """A client trusts its own authority only."""
    other = CertificateAuthority(tmp_path / "other")
    other.init()
    client = client_context(authority.places.bundle, authority.issue("hermes"))
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(server_context(other.places), client)


@pytest.mark.parametrize(
    ("case", "alert"),
    [
        ("none", "certificate required"),
        ("expired", "certificate expired"),
        ("revoked", "certificate revoked"),
        ("foreign", "unknown ca"),
        ("self-signed", "unknown ca"),
        ("server's own", "unsupported certificate"),
    ],
)
def test_bad_client_is_refused(
    authority: CertificateAuthority, tmp_path: Path, case: str, alert: str
) -> None:
    """Each kind of bad client certificate is refused with its own TLS alert."""
    client = client_context(authority.places.bundle, _bad_client(authority, tmp_path, case))
    with pytest.raises(ssl.SSLError, match=alert):
        connect(server_context(authority.places), client)


def _bad_client(authority: CertificateAuthority, tmp_path: Path, case: str) -> Issued | None:
    places = authority.places
    match case:
        case "expired":
            return CertificateAuthority(authority.directory, backdate_seconds=HOUR).issue(
                "hermes", lifetime_seconds=60
            )
        case "revoked":
            issued = authority.issue("hermes")
            authority.revoke("hermes")
            return issued
        case "foreign":
            other = CertificateAuthority(tmp_path / "other")
            other.init()
            return other.issue("hermes")
        case "self-signed":
            return self_signed(tmp_path / "alone", "hermes")
        case "server's own":
            return Issued("server", places.server, places.server_key, 0, 0.0)
        case _:
            return None


def test_revocation_leaves_the_others_alone(authority: CertificateAuthority) -> None:
    """The list refuses the revoked certificate and nobody else, also a new one of the same name."""
    hermes, metrics = authority.issue("hermes"), authority.issue("metrics")
    authority.revoke("hermes")
    bundle = authority.places.bundle
    with pytest.raises(ssl.SSLError, match="certificate revoked"):
        connect(server_context(authority.places), client_context(bundle, hermes))
    assert connect(server_context(authority.places), client_context(bundle, metrics))
    again = authority.issue("hermes", force=True)
    assert connect(server_context(authority.places), client_context(bundle, again))


def test_rollover_drops_nobody(authority: CertificateAuthority) -> None:
    """Rehearsal: at every step, a client that did the step before still connects; afterwards only the new."""
    places = authority.places
    first = client_context(places.bundle, authority.issue("hermes"))
    rollover.begin(authority)
    assert connect(server_context(places), first)
    begun = client_context(places.bundle, authority.issue("metrics"))
    assert connect(server_context(places), begun)
    rollover.switch(authority)
    assert connect(server_context(places), begun)
    renewed = Issued("hermes", places.client("hermes"), places.client("hermes").with_suffix(".key"), 0, 0.0)
    switched = client_context(places.bundle, renewed)
    assert connect(server_context(places), switched)
    # A client that never got the new bundle cannot verify the new server: why `begin` comes first.
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(server_context(places), first)
    rollover.finish(authority)
    assert connect(server_context(places), switched)
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        connect(server_context(places), begun)


def test_revoked_before_the_rollover_stays_refused(authority: CertificateAuthority) -> None:
    """Both lists are in force while both authorities are trusted."""
    stolen = authority.issue("hermes")
    kept = stolen._replace(certfile=stolen.certfile.with_suffix(".kept"), keyfile=stolen.keyfile)
    kept.certfile.write_bytes(stolen.certfile.read_bytes())
    authority.revoke("hermes")
    rollover.begin(authority)
    rollover.switch(authority)
    with pytest.raises(ssl.SSLError, match="certificate revoked"):
        connect(server_context(authority.places), client_context(authority.places.bundle, kept))


def test_renewal_reloads_in_place(authority: CertificateAuthority) -> None:
    """A context that loads the renewed files again serves them: no restart, old clients stay welcome."""
    issued = authority.issue("hermes")
    client = client_context(authority.places.bundle, issued)
    server = server_context(authority.places)
    assert connect(server, client)
    authority.renew("server")
    authority.renew("hermes")
    assert connect(server, client)  # nothing reloaded yet
    server.load_cert_chain(authority.places.server, authority.places.server_key)
    assert connect(server, client)
    client.load_cert_chain(issued.certfile, issued.keyfile)
    assert connect(server, client)
