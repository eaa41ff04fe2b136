"""Certificates of the servers beside the broker: the page's, say."""

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from jobwire.broker.home import concerns_broker
from jobwire.certs import rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import DAY, SERVER_LIFETIME, Issued, Kind, Level
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.testing.clock import ManualClock


@pytest.fixture
def page(authority: CertificateAuthority) -> Issued:
    """Return the page's certificate."""
    return authority.issue_server("page", ["localhost"])


def test_it_is_a_servers_own(authority: CertificateAuthority, page: Issued) -> None:
    """The page has its names, its key, for its owner only, and may be nothing but a server."""
    certificate = x509.load_pem_x509_certificate(page.certfile.read_bytes())
    sans = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert sans.get_values_for_type(x509.DNSName) == ["localhost"]
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert (page.certfile, page.keyfile) == authority.places.pair("page", Kind.SERVER)
    assert page.keyfile.read_bytes() != authority.places.server_key.read_bytes()
    modes = {path.stat().st_mode & 0o777 for path in (page.keyfile, page.certfile)}
    assert (modes, page.keyfile.parent.stat().st_mode & 0o777) == ({0o600}, 0o700)
    assert [(item.kind, item.name) for item in authority.show()[1:]] == [
        (Kind.SERVER, "jobwire broker"),
        (Kind.SERVER, "page"),
    ]
    assert authority.check() == []


@pytest.mark.parametrize("name", ["server", "ca", "deadbeef", "a/b", "a.b", ""])
def test_unusable_names_are_refused(authority: CertificateAuthority, name: str) -> None:
    """A further server is named by the rules of all names, and the broker's stays the broker's."""
    with pytest.raises(InvalidInputError):
        authority.issue_server(name, ["localhost"], force=True)
    assert not authority.places.servers.exists()


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "not a name"])
def test_unusable_hosts_are_refused(authority: CertificateAuthority, host: str) -> None:
    """What the authority may not certify for the broker it does not certify for others."""
    with pytest.raises(InvalidInputError):
        authority.issue_server("page", [host])
    assert not authority.places.servers.exists()


def test_a_name_is_one_certificates(authority: CertificateAuthority, page: Issued) -> None:
    """Neither a second page, nor a client called like a server, nor the other way round."""
    authority.issue("hermes")
    with pytest.raises(ConflictError):
        authority.issue_server("page", ["localhost"])
    with pytest.raises(ConflictError):
        authority.issue("page", force=True)
    with pytest.raises(ConflictError):
        authority.issue_server("hermes", ["localhost"], force=True)
    replaced = authority.issue_server("page", ["localhost"], force=True)
    assert replaced.serial != page.serial
    assert authority.check() == []


def test_renewal_keeps_key_and_names(authority: CertificateAuthority, page: Issued) -> None:
    """`renew` treats the page as it treats the broker; a client has no host names."""
    key = page.keyfile.read_bytes()
    assert authority.renew("page").serial != page.serial
    assert page.keyfile.read_bytes() == key
    assert authority.inspect(page.certfile).names == ("localhost",)
    authority.renew("page", server_names=["127.0.0.2"], new_key=True)
    assert page.keyfile.read_bytes() != key
    assert authority.inspect(page.certfile).names == ("127.0.0.2",)
    assert authority.renew("server", lifetime_seconds=DAY).name == "server"
    authority.issue("hermes")
    with pytest.raises(InvalidInputError):
        authority.renew("hermes", server_names=["localhost"])
    with pytest.raises(NotFoundError):
        authority.renew("nobody")
    assert authority.check() == []


def test_a_revoked_key_is_not_certified_again(authority: CertificateAuthority, page: Issued) -> None:
    """After a revocation only a new key is renewed, and the broker's check-up stays quiet."""
    assert authority.revoke("page") == [page.serial]
    assert authority.check() == []
    with pytest.raises(ConflictError) as caught:
        authority.renew("page")
    assert caught.value.hint == "jobwire certs renew page --new-key"
    authority.renew("page", new_key=True)
    assert not authority.inspect(page.certfile).revoked


def test_the_check_up_names_it_and_lets_the_broker_start(
    authority: CertificateAuthority, page: Issued, clock: ManualClock
) -> None:
    """An end is warned of with the command that helps; past it, an open key: no broker stays away for it."""
    clock.advance(SERVER_LIFETIME - 10 * DAY)
    authority.renew("server")
    (finding,) = authority.check()
    assert (finding.level, finding.subject) == (Level.WARNING, "further server page")
    assert finding.hint == "jobwire certs renew page"
    clock.advance(20 * DAY)
    page.keyfile.chmod(0o644)
    page.keyfile.parent.chmod(0o755)
    found = authority.check()
    assert [finding.subject for finding in found] == ["page.key", "further server page", "servers"]
    assert not any(concerns_broker(finding) for finding in found)


def test_it_moves_to_a_new_authority(authority: CertificateAuthority, page: Issued) -> None:
    """The switch renews it with its key and names; one that lies elsewhere holds `finish` back."""
    key = page.keyfile.read_bytes()
    old = authority.inspect(page.certfile).issuer
    rollover.begin(authority)
    assert rollover.switch(authority) == ["server", "page"]
    moved = authority.inspect(page.certfile)
    assert (moved.names, moved.issuer != old) == (("localhost",), True)
    assert page.keyfile.read_bytes() == key
    page.certfile.unlink()
    rollover.finish(authority)
    assert authority.check() == []


def test_one_that_lies_elsewhere_is_not_left_behind(authority: CertificateAuthority, page: Issued) -> None:
    """A rollover does not end while a server elsewhere lives on the old authority."""
    page.certfile.unlink()
    rollover.begin(authority)
    rollover.switch(authority)
    with pytest.raises(ConflictError) as caught:
        rollover.finish(authority)
    assert caught.value.facts["names"] == ["page"]


def test_a_key_without_its_certificate_is_completed(authority: CertificateAuthority, page: Issued) -> None:
    """A crash between key and certificate leaves the way open, without --force."""
    key = page.keyfile.read_bytes()
    page.certfile.unlink()
    authority.issue_server("page", ["localhost"])
    assert page.keyfile.read_bytes() == key
    assert authority.check() == []
