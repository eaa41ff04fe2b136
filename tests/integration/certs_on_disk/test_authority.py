"""Creating, issuing, renewing, revoking."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import CA_LIFETIME, DAY, HOUR, SKEW, Issued, Kind, RevocationReason
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError, JobwireError, NotFoundError
from jobwire.testing.clock import ManualClock


def certificate_of(issued: Issued) -> x509.Certificate:
    """Return the certificate that was written."""
    return x509.load_pem_x509_certificate(issued.certfile.read_bytes())


def revoked_in_list(authority: CertificateAuthority) -> set[int]:
    """Return the serials of the signed list."""
    crl = x509.load_pem_x509_crl(authority.places.crl.read_bytes())
    return {item.serial_number for item in crl}


def snapshot(folder: Path) -> dict[Path, bytes]:
    """Return all files with their contents."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_init_writes_everything_privately(authority: CertificateAuthority) -> None:
    """After `init` every file is 0600 and every folder 0700, and the authority says that it exists."""
    assert authority.exists()
    for path in (authority.directory, *authority.directory.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_init_refuses_to_start_over_unasked(authority: CertificateAuthority) -> None:
    """A second `init` changes not one byte."""
    before = snapshot(authority.directory)
    with pytest.raises(ConflictError) as caught:
        authority.init()
    assert "--force" in caught.value.hint
    assert snapshot(authority.directory) == before


def test_init_refuses_a_folder_with_foreign_files(tmp_path: Path, clock: ManualClock) -> None:
    """Somebody's own ca.key is not ours to replace."""
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "ca.key").write_bytes(b"theirs")
    with pytest.raises(ConflictError):
        CertificateAuthority(folder, clock=clock).init()
    assert snapshot(folder) == {folder / "ca.key": b"theirs"}


def test_init_takes_an_empty_folder(tmp_path: Path, clock: ManualClock) -> None:
    """A folder that was merely prepared is no obstacle, and becomes private."""
    (tmp_path / "certs").mkdir(mode=0o755)
    authority = CertificateAuthority(tmp_path / "certs", clock=clock)
    authority.init()
    assert authority.directory.stat().st_mode & 0o777 == 0o700


def test_forced_init_keeps_the_old_folder(authority: CertificateAuthority) -> None:
    """--force starts over and keeps the old keys beside: a mistake costs a rename."""
    old_key = authority.places.ca_key.read_bytes()
    authority.init(force=True)
    assert authority.places.ca_key.read_bytes() != old_key
    kept = authority.directory.with_name("certs.replaced-1")
    assert (kept / "ca.key").read_bytes() == old_key


def test_failed_init_leaves_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """A refused server name leaves no half-made authority behind."""
    with pytest.raises(InvalidInputError):
        CertificateAuthority(tmp_path / "certs", clock=clock).init(["not a name"])
    assert list(tmp_path.iterdir()) == []


def test_server_certificate_names_its_hosts(authority: CertificateAuthority) -> None:
    """The SANs hold DNS names as DNS names and addresses as addresses, for server use only."""
    certificate = x509.load_pem_x509_certificate(authority.places.server.read_bytes())
    sans = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sans.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(item) for item in sans.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_authority_certificate_is_confined(authority: CertificateAuthority) -> None:
    """It signs end entities only, and only for the names it was made for; all of it critical."""
    certificate = x509.load_pem_x509_certificate(authority.places.bundle.read_bytes())
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (True, True, False)
    names = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert names.critical
    assert x509.DNSName("localhost") in (names.value.permitted_subtrees or [])


def test_issue_writes_a_matching_pair(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A client certificate has one CN, the name, serves clients only and ends when asked."""
    issued = authority.issue("hermes", lifetime_seconds=10 * DAY)
    certificate = certificate_of(issued)
    common_names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [item.value for item in common_names] == ["hermes"]
    key = load_pem_private_key(issued.keyfile.read_bytes(), None)
    assert key.public_key() == certificate.public_key()
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert issued.not_after == clock.now() + 10 * DAY
    assert certificate.not_valid_before_utc.timestamp() == clock.now() - SKEW
    assert issued.serial == certificate.serial_number


def test_issue_refuses_to_overwrite(authority: CertificateAuthority) -> None:
    """An existing name needs force; then key and certificate are both new."""
    first = authority.issue("hermes")
    before = snapshot(authority.directory)
    with pytest.raises(ConflictError):
        authority.issue("hermes")
    assert snapshot(authority.directory) == before
    second = authority.issue("hermes", force=True)
    assert second.serial != first.serial
    assert second.keyfile.read_bytes() != before[first.keyfile]


@pytest.mark.parametrize("suffix", [".pem", ".key"])
def test_issue_replaces_no_link_that_leads_nowhere(
    authority: CertificateAuthority, tmp_path: Path, suffix: str
) -> None:
    """A key may lie on a disk that is not mounted just now: its name is taken without force."""
    link = authority.places.client("hermes").with_suffix(suffix)
    link.symlink_to(tmp_path / "not-mounted")
    with pytest.raises(ConflictError):
        authority.issue("hermes")
    assert sorted(link.parent.iterdir()) == [link]
    assert link.is_symlink()


def test_issue_replaces_no_file_that_appears_meanwhile(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last word is the file system's, not an earlier look."""
    target = authority.places.client("hermes")
    flush = os.fdatasync

    def intrude(descriptor: int) -> None:
        target.write_bytes(b"theirs")
        flush(descriptor)

    monkeypatch.setattr(os, "fdatasync", intrude)
    with pytest.raises(ConflictError):
        authority.issue("hermes")
    assert target.read_bytes() == b"theirs"


def test_issue_completes_a_pair_that_a_crash_cut(authority: CertificateAuthority) -> None:
    """A key whose certificate was never written gets one, and is not replaced."""
    issued = authority.issue("hermes")
    key = issued.keyfile.read_bytes()
    issued.certfile.unlink()
    again = authority.issue("hermes")
    assert again.keyfile.read_bytes() == key
    assert authority.check() == []


@pytest.mark.parametrize("name", ["deadbeef", "DEADBEEF", "../x", "a/b", "#", "%u", "", "a\n"])
def test_issue_refuses_names(authority: CertificateAuthority, name: str) -> None:
    """A refused name leaves no trace, in the index or in a file."""
    before = snapshot(authority.directory)
    with pytest.raises(InvalidInputError):
        authority.issue(name)
    assert snapshot(authority.directory) == before


def test_job_certificate_is_the_job(authority: CertificateAuthority, clock: ManualClock) -> None:
    """CN is the job id itself, and a day later it is over."""
    issued = authority.issue_job("deadbeef")
    facts = authority.inspect(issued.certfile)
    assert (facts.name, facts.kind) == ("deadbeef", Kind.JOB)
    assert issued.not_after == clock.now() + DAY
    for bad in ("DEADBEEF", "deadbee", "hermes", "deadbeef\n", "../x"):
        with pytest.raises(InvalidInputError):
            authority.issue_job(bad)


@pytest.mark.parametrize("lifetime", [0, -1, float("nan"), float("inf"), 1e12])
def test_senseless_lifetime_is_refused(authority: CertificateAuthority, lifetime: float) -> None:
    """Lifetimes that no certificate can have are refused with their value."""
    with pytest.raises(InvalidInputError):
        authority.issue("hermes", lifetime_seconds=lifetime)


def test_nothing_outlives_its_authority(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A certificate ends with its authority at the latest."""
    issued = authority.issue("hermes", lifetime_seconds=2 * CA_LIFETIME)
    assert issued.not_after == clock.now() + CA_LIFETIME


def test_clock_before_the_authority_is_named(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A clock set back is recognised as such instead of making certificates of the past."""
    clock.set_wall(clock.now() - 10 * DAY)
    with pytest.raises(ConfigError) as caught:
        authority.issue("hermes")
    assert "clock" in caught.value.hint


def test_expired_authority_signs_nothing(authority: CertificateAuthority, clock: ManualClock) -> None:
    """After its end the authority refuses and points to the rollover."""
    clock.advance(CA_LIFETIME + DAY)
    with pytest.raises(ConfigError) as caught:
        authority.issue("hermes")
    assert "rollover" in caught.value.hint


def test_backdated_certificate_is_expired_at_once(
    authority: CertificateAuthority, clock: ManualClock
) -> None:
    """Backdating makes an expired certificate without waiting."""
    issued = CertificateAuthority(authority.directory, clock=clock, backdate_seconds=2 * HOUR).issue(
        "hermes", lifetime_seconds=HOUR
    )
    assert issued.not_after == clock.now() - HOUR


def test_renewal_keeps_the_key(authority: CertificateAuthority, clock: ManualClock) -> None:
    """Renewing replaces one file only, so certificate and key never disagree."""
    issued = authority.issue("hermes")
    before = snapshot(authority.directory)
    clock.advance(DAY)
    renewed = authority.renew("hermes")
    changed = {path for path, data in snapshot(authority.directory).items() if before.get(path) != data}
    assert changed == {issued.certfile, authority.places.index.path}
    assert renewed.not_after == issued.not_after + DAY
    assert authority.renew("server").not_after > clock.now() + 300 * DAY
    assert authority.check() == []


def test_renewal_with_a_new_key(authority: CertificateAuthority) -> None:
    """Asked for a new key, renewal writes a new matching pair."""
    issued = authority.issue("hermes")
    old = issued.keyfile.read_bytes()
    authority.renew("hermes", new_key=True)
    server_key = authority.places.server_key.read_bytes()
    authority.renew("server", new_key=True)
    assert issued.keyfile.read_bytes() != old
    assert authority.places.server_key.read_bytes() != server_key
    assert authority.check() == []


def test_renewed_job_certificate_stays_short(authority: CertificateAuthority, clock: ManualClock) -> None:
    """A job's certificate is renewed as a job's certificate."""
    authority.issue_job("deadbeef")
    clock.advance(HOUR)
    assert authority.renew("deadbeef").not_after == clock.now() + DAY


def test_server_names_change_within_the_constraints(authority: CertificateAuthority) -> None:
    """New server names are taken if the authority may certify them, otherwise nothing changes."""
    authority.renew("server", server_names=["localhost", "127.0.0.2"])
    assert authority.inspect(authority.places.server).names == ("localhost", "127.0.0.2")
    before = snapshot(authority.directory)
    with pytest.raises(InvalidInputError) as caught:
        authority.renew("server", server_names=["broker.example.org"])
    assert caught.value.facts["refused"] == ["broker.example.org"]
    assert snapshot(authority.directory) == before


def test_permitted_subtree_can_be_certified_later(tmp_path: Path, clock: ManualClock) -> None:
    """What `init` permits, `renew` can use."""
    authority = CertificateAuthority(tmp_path / "certs", clock=clock)
    authority.init(permit=["example.org", "10.0.0.0/8"])
    authority.renew("server", server_names=["broker.example.org", "10.1.2.3"])
    assert authority.check() == []


def test_revoking_a_name_revokes_all_its_certificates(authority: CertificateAuthority) -> None:
    """Every valid certificate of the name is in the signed list, and only those."""
    first, other = authority.issue("hermes"), authority.issue("metrics")
    second = authority.renew("hermes")
    assert set(authority.revoke("hermes")) == {first.serial, second.serial}
    assert revoked_in_list(authority) == {first.serial, second.serial}
    assert authority.inspect(first.certfile).revoked
    assert not authority.inspect(other.certfile).revoked


@pytest.mark.parametrize("form", ["{0:x}", "{0:X}", "0x{0:x}", "int"])
def test_revoking_one_serial(authority: CertificateAuthority, form: str) -> None:
    """A serial, as a number or in the ways tools print it, revokes exactly that certificate."""
    first = authority.issue("hermes")
    authority.renew("hermes")
    which = first.serial if form == "int" else form.format(first.serial)
    assert authority.revoke(which, reason=RevocationReason.KEY_COMPROMISE) == [first.serial]
    crl = x509.load_pem_x509_crl(authority.places.crl.read_bytes())
    (item,) = crl
    reason = item.extensions.get_extension_for_class(x509.CRLReason).value.reason
    assert reason is x509.ReasonFlags.key_compromise


def test_revoking_nothing_says_so(authority: CertificateAuthority, clock: ManualClock) -> None:
    """Unknown, already revoked and expired each have their own answer."""
    with pytest.raises(NotFoundError):
        authority.revoke("nobody")
    with pytest.raises(NotFoundError):
        authority.revoke(12345)
    authority.issue("hermes")
    authority.revoke("hermes")
    with pytest.raises(ConflictError, match="revoked already"):
        authority.revoke("hermes")
    authority.issue_job("deadbeef")
    clock.advance(2 * DAY)
    with pytest.raises(ConflictError, match="expired"):
        authority.revoke("deadbeef")


def test_revoked_key_is_not_certified_again(authority: CertificateAuthority) -> None:
    """Renewing a revoked certificate is refused; issuing anew makes a new key."""
    authority.issue("hermes")
    authority.revoke("hermes")
    with pytest.raises(ConflictError):
        authority.renew("hermes")
    issued = authority.issue("hermes", force=True)
    assert issued.serial not in revoked_in_list(authority)
    authority.revoke("server")
    with pytest.raises(ConflictError) as caught:
        authority.renew("server")
    assert "--new-key" in caught.value.hint
    authority.renew("server", new_key=True)
    assert authority.check() == []


def test_list_numbers_rise_and_the_list_lasts(authority: CertificateAuthority, clock: ManualClock) -> None:
    """Each list has a higher number, also with a clock that stands still or a lost list."""
    numbers = []
    for lose in (False, False, True, False):
        if lose:
            authority.places.crl.unlink()
            clock.advance(60)
        until = authority.refresh_crl()
        crl = x509.load_pem_x509_crl(authority.places.crl.read_bytes())
        numbers.append(crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)
    assert numbers == sorted(set(numbers))
    assert until > clock.now() + 3000 * DAY


def test_list_with_a_chosen_end(authority: CertificateAuthority, clock: ManualClock) -> None:
    """An operator may want a shorter list; a senseless end is refused."""
    assert authority.refresh_crl(lifetime_seconds=5 * DAY) == clock.now() + 5 * DAY
    with pytest.raises(InvalidInputError):
        authority.refresh_crl(lifetime_seconds=-1)


def test_prune_forgets_what_time_has_ended(authority: CertificateAuthority, clock: ManualClock) -> None:
    """Expired job certificates go with their keys, roles stay, and the list does not grow for ever."""
    job, role = authority.issue_job("deadbeef"), authority.issue("hermes")
    authority.revoke("deadbeef")
    clock.advance(2 * DAY)
    assert authority.prune() == ["deadbeef"]
    assert not job.certfile.exists()
    assert not job.keyfile.exists()
    assert role.certfile.exists()
    authority.refresh_crl()
    assert revoked_in_list(authority) == {job.serial}
    clock.advance(40 * DAY)
    authority.prune()
    authority.refresh_crl()
    assert revoked_in_list(authority) == set()
    assert authority.renew("hermes").not_after > clock.now()


def test_show_lists_everything(authority: CertificateAuthority) -> None:
    """Authority, server and clients are shown with kind, name and revocation."""
    authority.issue("hermes")
    authority.issue_job("deadbeef")
    authority.revoke("hermes")
    shown = [(item.kind, item.name, item.revoked) for item in authority.show()]
    assert shown[0][0] == Kind.AUTHORITY
    assert shown[1:] == [
        (Kind.SERVER, "jobwire broker", False),
        (Kind.JOB, "deadbeef", False),
        (Kind.ROLE, "hermes", True),
    ]


def test_exposed_authority_key_stops_everything(authority: CertificateAuthority) -> None:
    """No certificate is signed with a key that others may read."""
    authority.places.ca_key.chmod(0o644)
    for action in (lambda: authority.issue("x"), lambda: authority.renew("server"), authority.refresh_crl):
        with pytest.raises(ConfigError, match="open to other users"):
            action()


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAA==\n"])
def test_damaged_key_or_bundle_is_named(authority: CertificateAuthority, content: bytes) -> None:
    """A file that holds no key or certificate is an error with its path, not a traceback."""
    for path in (authority.places.ca_key, authority.places.bundle):
        before = path.read_bytes()
        path.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            authority.issue("x")
        assert caught.value.facts["path"] == str(path)
        path.write_bytes(before)


def test_key_of_another_authority_is_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    """ca.key and ca.pem from different places sign nothing."""
    other = CertificateAuthority(tmp_path / "other" / "certs")
    other.init()
    authority.places.ca_key.write_bytes(other.places.ca_key.read_bytes())
    with pytest.raises(ConfigError, match="belongs to no certificate"):
        authority.issue("x")


def test_racing_for_a_name_has_one_winner(authority: CertificateAuthority) -> None:
    """Of eight that issue the same name one wins; all different names are in the index."""

    def attempt(number: int) -> int | None:
        mine = CertificateAuthority(authority.directory)
        try:
            mine.issue_job(f"{number:08x}", lifetime_seconds=HOUR)
            return mine.issue("hermes").serial
        except ConflictError:
            return None

    authority.init(force=True)  # on the manual clock's time; the racers use the real one
    with ThreadPoolExecutor(8) as pool:
        serials = [serial for serial in pool.map(attempt, range(8)) if serial]
    assert len(serials) == 1
    assert len(authority.show()) == 2 + 8 + 1


def test_racing_for_init_has_one_winner(tmp_path: Path) -> None:
    """Of four that create the authority one wins, and what it made is whole."""

    def attempt(_: int) -> bool:
        try:
            CertificateAuthority(tmp_path / "certs").init()
        except JobwireError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(4))) == 1
    assert CertificateAuthority(tmp_path / "certs").check() == []
    assert [path.name for path in tmp_path.iterdir()] == ["certs"]
