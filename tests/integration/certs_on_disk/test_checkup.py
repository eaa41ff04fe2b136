"""The check-up finds what is wrong, names the remedy, and the remedy helps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import CA_LIFETIME, DAY, SERVER_LIFETIME, Finding, Level
from jobwire.testing.clock import ManualClock


def only(findings: list[Finding]) -> Finding:
    """Return the one finding."""
    assert len(findings) == 1, findings
    return findings[0]


def test_fresh_authority_is_well(authority: CertificateAuthority) -> None:
    """Right after creation there is nothing to say."""
    authority.issue("hermes")
    authority.issue_job("deadbeef")
    assert authority.check() == []


def test_check_changes_nothing(authority: CertificateAuthority) -> None:
    """Looking writes no file."""
    before = {path: path.stat().st_mtime_ns for path in authority.directory.rglob("*")}
    authority.check()
    assert {path: path.stat().st_mtime_ns for path in authority.directory.rglob("*")} == before


def test_server_certificate_running_out(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A month before its end the server certificate is a warning, after it an error; renewal cures both."""
    clock.advance(SERVER_LIFETIME - 29 * DAY)
    finding = only(authority.check())
    assert (finding.level, finding.subject) == (Level.WARNING, "server jobwire broker")
    assert authority.check(warn_seconds=20 * DAY) == []
    clock.advance(30 * DAY)
    finding = only(authority.check())
    assert finding.level is Level.ERROR
    assert "renew server" in finding.hint
    authority.renew("server")
    assert authority.check() == []


def test_role_certificate_running_out(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A role's certificate warns with the very command that renews it."""
    authority.issue("hermes", lifetime_seconds=60 * DAY)
    clock.advance(45 * DAY)
    assert only(authority.check()).hint == "jobwire certs renew hermes"


def test_expired_job_certificate_is_only_a_note(authority: CertificateAuthority, clock: ManualClock) -> None:
    """The end of a job's certificate is as intended."""
    authority.issue_job("deadbeef")
    clock.advance(2 * DAY)
    assert only(authority.check()).level is Level.NOTE
    authority.prune()
    assert authority.check() == []


def test_authority_running_out(authority: CertificateAuthority, clock: ManualClock) -> None:
    """Before the authority ends, it and its list are warnings that lead to the rollover."""
    clock.advance(CA_LIFETIME - 10 * DAY)
    authority.renew("server")
    found = {finding.subject: finding for finding in authority.check()}
    assert any("rollover begin" in finding.hint for finding in found.values())
    assert found["crl.pem"].level is Level.WARNING


def test_list_running_out(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A list near its end warns, a list past it is an error, and signing anew cures it."""
    authority.refresh_crl(lifetime_seconds=90 * DAY)
    assert authority.check() == []
    clock.advance(61 * DAY)
    finding = only(authority.check())
    assert (finding.level, finding.subject) == (Level.WARNING, "crl.pem")
    clock.advance(30 * DAY)
    finding = only(authority.check())
    assert finding.level is Level.ERROR
    assert "refuses everyone" in finding.message
    authority.refresh_crl()
    assert authority.check() == []


def test_clock_set_back(authority: CertificateAuthority, clock: ManualClock) -> None:
    """With a clock before the beginning every certificate and list points at the clock."""
    clock.set_wall(clock.now() - DAY)
    found = authority.check()
    assert {finding.level for finding in found} == {Level.ERROR}
    assert all("timedatectl" in finding.hint for finding in found)
    assert len(found) == 3


def test_revocation_missing_in_the_list(authority: CertificateAuthority) -> None:
    """A revocation that a crash kept out of the list is found, and `crl` repairs it."""
    authority.issue("hermes")
    old = authority.places.crl.read_bytes()
    authority.revoke("hermes")
    assert authority.check() == []
    authority.places.crl.write_bytes(old)
    finding = only(authority.check())
    assert "hermes" in finding.message
    authority.refresh_crl()
    assert authority.check() == []


def _expose_key(authority: CertificateAuthority) -> None:
    authority.places.server_key.chmod(0o640)


def _open_folder(authority: CertificateAuthority) -> None:
    authority.directory.chmod(0o755)


def _lose_key(authority: CertificateAuthority) -> None:
    authority.places.client("hermes").with_suffix(".key").unlink()


def _lose_list(authority: CertificateAuthority) -> None:
    authority.places.crl.unlink()


def _lose_server(authority: CertificateAuthority) -> None:
    authority.places.server.unlink()


def _swap_keys(authority: CertificateAuthority) -> None:
    authority.places.server_key.write_bytes(
        authority.places.client("hermes").with_suffix(".key").read_bytes()
    )


def _break_certificate(authority: CertificateAuthority) -> None:
    authority.places.client("hermes").write_bytes(b"torn")


def _break_list(authority: CertificateAuthority) -> None:
    authority.places.crl.write_bytes(b"-----BEGIN X509 CRL-----\nAA\n-----END X509 CRL-----\n")


@pytest.mark.parametrize(
    ("damage", "level", "subject"),
    [
        (_expose_key, Level.ERROR, "server.key"),
        (_open_folder, Level.WARNING, "certs"),
        (_lose_key, Level.WARNING, "hermes.pem"),
        (_lose_list, Level.ERROR, "crl.pem"),
        (_lose_server, Level.ERROR, "server.pem"),
        (_swap_keys, Level.ERROR, "server.pem"),
        (_break_certificate, Level.ERROR, "hermes.pem"),
        (_break_list, Level.ERROR, "crl.pem"),
    ],
)
def test_damage_is_found_and_named(
    authority: CertificateAuthority,
    damage: Callable[[CertificateAuthority], None],
    level: Level,
    subject: str,
) -> None:
    """Every kind of damage is one finding about the right file, with something to do about it."""
    authority.issue("hermes")
    damage(authority)
    finding = only(authority.check())
    assert (finding.level, finding.subject) == (level, subject)
    assert finding.hint


def test_foreign_certificate_is_found(
    authority: CertificateAuthority, tmp_path: Path, clock: ManualClock
) -> None:
    """A client certificate of another authority would be refused by the broker: found before."""
    other = CertificateAuthority(tmp_path / "other", clock=clock)
    other.init()
    issued = other.issue("hermes")
    authority.places.client("hermes").write_bytes(issued.certfile.read_bytes())
    authority.places.client("hermes").with_suffix(".key").write_bytes(issued.keyfile.read_bytes())
    authority.places.client("hermes").with_suffix(".key").chmod(0o600)
    finding = only(authority.check())
    assert "an authority that ca.pem does not hold" in finding.message


def test_missing_authority_is_found(tmp_path: Path, clock: ManualClock) -> None:
    """Without any authority the check-up says how to create one."""
    found = CertificateAuthority(tmp_path / "certs", clock=clock).check()
    assert any("jobwire certs init" in finding.hint for finding in found)
