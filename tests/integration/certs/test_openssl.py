"""What we make, judged by the openssl program in its strict mode."""

from collections.abc import Callable
from pathlib import Path

from jobwire.certs import names, pem, profiles, rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import HOUR, Issued, Kind, RevocationReason, serial_text
from jobwire.testing.self_signed import self_signed

OpenSsl = Callable[..., str]


def verdict(openssl: OpenSsl, authority: CertificateAuthority, issued: Issued, purpose: str) -> str:
    """Return what `openssl verify` says of a leaf, with revocation checked and RFC 5280 taken strictly."""
    places = authority.places
    lists = ["-crl_check", "-CRLfile", str(places.crl)]
    return openssl(
        "verify", "-x509_strict", "-CAfile", places.bundle, *lists, "-purpose", purpose, issued.certfile
    )


def test_server_certificate_verifies(openssl: OpenSsl, authority: CertificateAuthority) -> None:
    """The server certificate is good for its names and for no other use."""
    places = authority.places
    base = ["verify", "-x509_strict", "-CAfile", str(places.bundle)]
    assert openssl(*base, "-purpose", "sslserver", "-verify_hostname", "localhost", places.server).startswith(
        "0"
    )
    for address in ("127.0.0.1", "::1"):
        assert openssl(*base, "-purpose", "sslserver", "-verify_ip", address, places.server).startswith("0")
    assert "ostname mismatch" in openssl(*base, "-verify_hostname", "example.org", places.server)
    assert "IP address mismatch" in openssl(*base, "-verify_ip", "127.0.0.2", places.server)
    assert "unsuitable certificate purpose" in openssl(*base, "-purpose", "sslclient", places.server)


def test_client_certificates_verify(openssl: OpenSsl, authority: CertificateAuthority) -> None:
    """Role and job certificates are good for clients and cannot play the server."""
    for issued in (authority.issue("hermes"), authority.issue_job("deadbeef")):
        assert verdict(openssl, authority, issued, "sslclient").startswith("0")
        assert "unsuitable certificate purpose" in verdict(openssl, authority, issued, "sslserver")


def test_bad_certificates_do_not_verify(
    openssl: OpenSsl, authority: CertificateAuthority, tmp_path: Path
) -> None:
    """Expired, not yet valid, revoked, foreign and self-signed each fail with their own reason."""
    foreign = CertificateAuthority(tmp_path / "foreign")
    foreign.init()
    revoked = authority.issue("revoked")
    authority.revoke("revoked")
    cases = {
        "certificate has expired": CertificateAuthority(authority.directory, backdate_seconds=HOUR).issue(
            "expired", lifetime_seconds=60
        ),
        "certificate is not yet valid": CertificateAuthority(
            authority.directory, backdate_seconds=-2 * HOUR
        ).issue("early"),
        "certificate revoked": revoked,
        "unable to get": foreign.issue("hermes"),
        "self-signed certificate": self_signed(tmp_path / "alone", "hermes"),
    }
    for reason, issued in cases.items():
        answer = verdict(openssl, authority, issued, "sslclient")
        assert not answer.startswith("0")
        assert reason in answer


def test_authority_cannot_certify_foreign_names(openssl: OpenSsl, tmp_path: Path) -> None:
    """Even with the key in hand, nobody makes a certificate for another host that is believed."""
    victim = CertificateAuthority(tmp_path / "victim")
    victim.init()
    # Sign a foreign name with the confined authority's key by going round our own refusal.
    signer = pem.load_signer(victim.places)
    key = profiles.new_key()
    forged = profiles.leaf(
        key.public_key(),
        name="bank",
        kind=Kind.SERVER,
        names=names.parse_server_names(["bank.example.org"]),
        validity=profiles.period(victim.show()[0].not_before + HOUR, HOUR),
        signer=signer,
    )
    path = tmp_path / "forged.pem"
    path.write_bytes(pem.dump([forged]))
    answer = openssl("verify", "-CAfile", victim.places.bundle, "-no_check_time", path)
    assert "permitted subtree violation" in answer


def test_text_of_certificate_and_list(openssl: OpenSsl, authority: CertificateAuthority) -> None:
    """Openssl reads what we say: CN, serial, key, usages; and the list with its number, reason and end."""
    issued = authority.issue_job("deadbeef")
    text = openssl("x509", "-in", issued.certfile, "-noout", "-text", "-serial")
    for expected in (
        "CN = deadbeef",
        "ASN1 OID: prime256v1",
        "TLS Web Client Authentication",
        f"serial={serial_text(issued.serial)}",
        "CA:FALSE",
    ):
        assert expected in text
    authority.revoke("deadbeef", reason=RevocationReason.KEY_COMPROMISE)
    crl = openssl("crl", "-in", authority.places.crl, "-CAfile", authority.places.bundle, "-noout", "-text")
    for expected in ("verify OK", "X509v3 CRL Number", serial_text(issued.serial), "Key Compromise"):
        assert expected in crl


def test_every_step_of_a_rollover_verifies(openssl: OpenSsl, authority: CertificateAuthority) -> None:
    """From begin to finish, what is trusted verifies what is in use; afterwards the old does not."""
    old = authority.issue("hermes")
    copy = old._replace(certfile=old.certfile.with_name("old-copy"))
    copy.certfile.write_bytes(old.certfile.read_bytes())
    rollover.begin(authority)
    assert verdict(openssl, authority, old, "sslclient").startswith("0")
    rollover.switch(authority)
    assert verdict(openssl, authority, old, "sslclient").startswith("0")
    assert verdict(openssl, authority, copy, "sslclient").startswith("0")
    rollover.finish(authority)
    assert verdict(openssl, authority, old, "sslclient").startswith("0")
    assert "unable to get" in verdict(openssl, authority, copy, "sslclient")
