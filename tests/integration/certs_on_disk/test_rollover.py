"""Moving to a new authority."""

import pytest
from cryptography import x509

from jobwire.certs import rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.inspection import rollover_phase
from jobwire.certs.values import CA_LIFETIME, DAY, Level, Phase
from jobwire.core.errors import ConflictError
from jobwire.testing.clock import ManualClock


def trusted(authority: CertificateAuthority) -> int:
    """Return how many authorities the bundle holds."""
    return len(x509.load_pem_x509_certificates(authority.places.bundle.read_bytes()))


def errors(authority: CertificateAuthority) -> list[str]:
    """Return what the check-up calls an error."""
    return [finding.message for finding in authority.check() if finding.level is Level.ERROR]


def test_whole_rollover(authority: CertificateAuthority) -> None:
    """Both are trusted from begin to finish, the new one signs from the switch on, nothing is ever wrong."""
    authority.issue("hermes")
    job = authority.issue_job("deadbeef")
    old = authority.inspect(authority.places.server).issuer
    rollover.begin(authority)
    assert (trusted(authority), rollover_phase(authority.places)) == (2, Phase.BEGUN)
    assert authority.inspect(authority.issue("metrics").certfile).issuer == old
    assert errors(authority) == []
    assert rollover.switch(authority) == ["server", "deadbeef", "hermes", "metrics"]
    assert (trusted(authority), rollover_phase(authority.places)) == (2, Phase.SWITCHED)
    assert {item.issuer for item in authority.show()[2:]} != {old}
    assert authority.inspect(job.certfile).not_after == job.not_after
    assert errors(authority) == []
    rollover.finish(authority)
    assert (trusted(authority), rollover_phase(authority.places)) == (1, Phase.IDLE)
    assert old not in {item.issuer for item in authority.show()}
    assert not authority.places.previous_key.exists()
    assert authority.check() == []


def test_revocations_hold_through_a_rollover(authority: CertificateAuthority) -> None:
    """What the old authority revoked stays revoked until the old one is dropped."""
    issued = authority.issue("hermes")
    rollover.begin(authority)
    rollover.switch(authority)
    renewed = authority.inspect(authority.places.client("hermes")).serial
    authority.revoke("hermes")
    text = authority.places.crl.read_text()
    blocks = [part + "-----END X509 CRL-----" for part in text.split("-----END X509 CRL-----")[:-1]]
    lists = [x509.load_pem_x509_crl(block.encode()) for block in blocks]
    assert [{item.serial_number for item in crl} for crl in lists] == [{renewed}, {issued.serial}]


def test_steps_come_in_order(authority: CertificateAuthority) -> None:
    """A step out of order is refused with the name of the next one, and changes nothing."""
    for step in (rollover.finish, rollover.cancel, rollover.switch):
        with pytest.raises(ConflictError) as caught:
            step(authority)
        assert "rollover begin" in caught.value.hint
    rollover.begin(authority)
    with pytest.raises(ConflictError):
        rollover.begin(authority)
    assert trusted(authority) == 2


def test_cancel_takes_the_beginning_back(authority: CertificateAuthority) -> None:
    """Before the switch the old state can be had again."""
    before = authority.places.bundle.read_bytes()
    rollover.begin(authority)
    rollover.cancel(authority)
    assert authority.places.bundle.read_bytes() == before
    assert authority.check() == []


def test_finish_waits_for_those_left_behind(authority: CertificateAuthority) -> None:
    """A certificate that lives elsewhere is not cut off unasked."""
    issued = authority.issue("remote")
    issued.certfile.unlink()
    issued.keyfile.unlink()
    rollover.begin(authority)
    rollover.switch(authority)
    with pytest.raises(ConflictError) as caught:
        rollover.finish(authority)
    assert caught.value.facts["names"] == ["remote"]
    rollover.finish(authority, force=True)
    assert trusted(authority) == 1


def test_new_authority_may_certify_more(authority: CertificateAuthority) -> None:
    """The constraints go over to the new authority, with what is permitted now."""
    rollover.begin(authority, permit=["example.org"])
    rollover.switch(authority)
    authority.renew("server", server_names=["localhost", "broker.example.org"])
    rollover.finish(authority)
    assert authority.check() == []


def test_expired_authority_can_still_be_left(authority: CertificateAuthority, clock: ManualClock) -> None:
    """Too late is not never: after its end the way to a new authority is still open."""
    clock.advance(CA_LIFETIME + DAY)
    rollover.begin(authority)
    rollover.switch(authority)
    rollover.finish(authority)
    assert authority.check() == []


def test_revoked_server_gets_a_new_key(authority: CertificateAuthority) -> None:
    """The switch does not certify a revoked server key again."""
    authority.revoke("server")
    old = authority.places.server_key.read_bytes()
    rollover.begin(authority)
    rollover.switch(authority)
    assert authority.places.server_key.read_bytes() != old
