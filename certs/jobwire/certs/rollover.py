"""Moving to a new authority without a moment in which somebody trusts the wrong one.

    idle ──begin──► begun ──switch──► switched ──finish──► idle
          bundle: old+new    the new one signs      bundle: new

Between the steps the operator hands the new `ca.pem` (and `crl.pem`) to brokers and clients. Which
authority signs is decided by one file, `ca.key`: the switch is one rename.
"""

from collections.abc import Sequence

from jobwire.certs import files, inspection, issuing, pem, profiles, revocation
from jobwire.certs.index import Index
from jobwire.certs.issuing import CertificateRequest
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.profiles import Signer
from jobwire.certs.values import CA_LIFETIME, Kind, Phase
from jobwire.core.errors import ConflictError


def phase(places: Places) -> Phase:
    """Return where the rollover stands, from the files alone."""
    if places.next_key.exists() and pem.match_signer(places, places.next_key):
        return Phase.BEGUN
    return Phase.SWITCHED if len(pem.load_certificates(places.bundle)) > 1 else Phase.IDLE


def begin(places: Places, permit: Sequence[str], *, now: float) -> None:
    """Make the new authority and put it into the bundle and the lists; the old one goes on signing."""
    _expect(places, Phase.IDLE, "begin")
    names = profiles.names_of(pem.load_certificate(places.server))
    old = profiles.permitted_by(pem.load_signer(places).certificate)
    permitted = [*old.dns, *(str(network) for network in old.networks), *permit]
    coming = issuing.new_authority(names, permitted, profiles.period(now, CA_LIFETIME))
    present = pem.load_certificates(places.bundle)
    # The key first: without its certificate in the bundle it counts for nothing and is overwritten.
    files.write_file(places.next_key, pem.dump_key(coming.key), overwrite=True)
    issuing.record(places, coming.certificate, coming.certificate.subject.rfc4514_string(), coming)
    # The lists before the bundle: an authority that is trusted without a list locks its clients out.
    revocation.write_lists(places, now=now, coming=[coming])
    files.write_file(places.bundle, pem.dump([*present, coming.certificate]), overwrite=True)


def switch(places: Places, *, now: float) -> list[str]:
    """Let the new authority sign, and renew every server and every valid client here; return their names.

    Repeating it after a crash continues: what the new authority has signed already is left alone.
    """
    if phase(places) is not Phase.SWITCHED:
        _expect(places, Phase.BEGUN, "switch")
        files.write_file(places.previous_key, files.read_file(places.ca_key, private=True), overwrite=True)
        with files.storage_errors("switch to", places.next_key):
            places.next_key.replace(places.ca_key)
            files.sync_directory(places.directory)
    return _renew_all(places, now=now)


def _renew_all(places: Places, *, now: float) -> list[str]:
    signer = pem.load_signer(places)
    entries = Index(places.index).entries()
    renewed = []
    for path in inspection.leaf_files(places):
        certificate = pem.load_certificate(path)
        if certificate.issuer == signer.certificate.subject:
            continue
        entry = entries.get(certificate.serial_number)
        revoked = entry is not None and entry.revoked_at is not None
        if path == places.server:
            # The broker's moves whatever became of it: nobody believes a revoked key, so it gets another.
            request = CertificateRequest(SERVER_NAME, Kind.SERVER, now)
        elif entry is not None and not revoked and entry.not_after > now + 1:
            # A last second is not worth a certificate: its lifetime would be refused.
            lifetime = entry.not_after - now if entry.kind is Kind.JOB else None
            request = CertificateRequest(path.stem, entry.kind, now, lifetime)
        else:
            continue
        issuing.renew(places, request, new_key=revoked)
        renewed.append(request.name)
    return renewed


def finish(places: Places, *, now: float, force: bool) -> None:
    """Drop the old authority: its certificates are refused wherever the new bundle is loaded.

    Raises ConflictError while a name still lives on the old one alone, unless `force`.
    """
    if phase(places) is Phase.IDLE and places.previous_key.exists():
        _clean_up(places, now=now)  # a crash came in between the last time
        return
    _expect(places, Phase.SWITCHED, "finish")
    signer = pem.load_signer(places)
    if not force and (left := left_behind(places, signer, now=now)):
        raise ConflictError(
            f"only the old authority vouches for: {', '.join(left)}",
            hint="renew them (jobwire certs renew NAME), wait for their end, or drop them with --force",
            names=left,
        )
    files.write_file(places.bundle, pem.dump([signer.certificate]), overwrite=True)
    _clean_up(places, now=now)


def _clean_up(places: Places, *, now: float) -> None:
    revocation.write_lists(places, now=now)
    files.remove_files(places.previous_key)


def cancel(places: Places, *, now: float) -> None:
    """Take a begun rollover back: the new authority has signed nothing yet."""
    _expect(places, Phase.BEGUN, "cancel")
    files.write_file(places.bundle, pem.dump([pem.load_signer(places).certificate]), overwrite=True)
    files.remove_files(places.next_key)
    revocation.write_lists(places, now=now)


def left_behind(places: Places, signer: Signer, *, now: float) -> list[str]:
    """Return the names whose valid certificates are all from another authority than `signer`."""
    valid = [
        entry
        for entry in Index(places.index).entries().values()
        if entry.kind is not Kind.AUTHORITY and entry.revoked_at is None and entry.not_after > now
    ]
    moved = {entry.name for entry in valid if entry.issuer == signer.identifier}
    return sorted({entry.name for entry in valid} - moved)


def _expect(places: Places, wanted: Phase, step: str) -> None:
    current = phase(places)
    if current is not wanted:
        next_step = {Phase.IDLE: "begin", Phase.BEGUN: "switch", Phase.SWITCHED: "finish"}[current]
        raise ConflictError(
            f"cannot {step}: the rollover is {current}, this step needs it {wanted}",
            hint=f"the next step is: jobwire certs rollover {next_step}",
            phase=str(current),
        )
