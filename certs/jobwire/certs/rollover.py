"""Moving to a new authority without a moment in which somebody trusts the wrong one.

    idle ──begin──► begun ──switch──► switched ──finish──► idle
          bundle: old+new    the new one signs      bundle: new

Between the steps the operator hands the new `ca.pem` (and `crl.pem`) to brokers and clients. Which
authority signs is decided by one file, `ca.key`: the switch is one rename.
"""

from collections.abc import Sequence

from jobwire.certs import files, inspection, pem, profiles, revocation
from jobwire.certs.authority import CertificateAuthority, new_signer, record
from jobwire.certs.inspection import rollover_phase
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.profiles import Signer
from jobwire.certs.values import CA_LIFETIME, Kind, Phase
from jobwire.core.errors import ConflictError
from jobwire.storage.durable import remove_durably, replace_durably


def begin(authority: CertificateAuthority, *, permit: Sequence[str] = ()) -> None:
    """Make the new authority and put it into the bundle and the lists; the old one goes on signing.

    Next: bring `ca.pem` and `crl.pem` to every broker and client. ConflictError if one is under way.
    """
    places = authority.places
    with authority.alone() as now:
        _expect(places, Phase.IDLE, "begin")
        names = profiles.names_of(pem.load_certificate(places.server))
        old = profiles.permitted_by(pem.load_signer(places).certificate)
        permitted = [*(str(tree.value) for tree in old), *permit]
        coming = new_signer(names, permitted, profiles.period(now, CA_LIFETIME))
        present = pem.load_certificates(places.bundle)
        # The key first: without its certificate in the bundle it counts for nothing and is overwritten.
        replace_durably(places.next_key, pem.dump_key(coming.key), files=files.FILES)
        record(places, coming.certificate, coming.certificate.subject.rfc4514_string(), coming)
        # The lists before the bundle: an authority that is trusted without a list locks its clients out.
        revocation.write_lists(places, now=now, coming=[coming])
        replace_durably(places.bundle, pem.dump([*present, coming.certificate]), files=files.FILES)


def switch(authority: CertificateAuthority) -> list[str]:
    """Let the new authority sign, and renew every server and every valid client here; return their names.

    Repeating it after a crash continues: what the new authority has signed already is left alone.
    """
    places = authority.places
    with authority.alone() as now:
        if rollover_phase(places) is not Phase.SWITCHED:
            _expect(places, Phase.BEGUN, "switch")
            old_key = files.read_file(places.ca_key, private=True)
            replace_durably(places.previous_key, old_key, files=files.FILES)
            with files.storage_errors("switch to", places.next_key):
                places.next_key.replace(places.ca_key)
                files.FILES.sync_directory(places.directory)
        return _renew_all(authority, now)


def _renew_all(authority: CertificateAuthority, now: float) -> list[str]:
    places = authority.places
    signer = pem.load_signer(places)
    entries = places.index.entries()
    renewed = []
    for path in inspection.leaf_files(places):
        certificate = pem.load_certificate(path)
        if certificate.issuer == signer.certificate.subject:
            continue
        entry = entries.get(certificate.serial_number)
        revoked = entry is not None and entry.revoked_at is not None
        if path == places.server:
            # The broker's moves whatever became of it: nobody believes a revoked key, so it gets another.
            name, lifetime = SERVER_NAME, None
        elif entry is not None and not revoked and entry.not_after > now + 1:
            # A last second is not worth a certificate: its lifetime would be refused.
            name, lifetime = path.stem, entry.not_after - now if entry.kind is Kind.JOB else None
        else:
            continue
        authority.renew_held(name, now, lifetime=lifetime, new_key=revoked)
        renewed.append(name)
    return renewed


def finish(authority: CertificateAuthority, *, force: bool = False) -> None:
    """Drop the old authority: its certificates are refused wherever the new bundle is loaded.

    Raises ConflictError while a name still lives on the old one alone, unless `force`.
    """
    places = authority.places
    with authority.alone() as now:
        # A key alone: a crash came in between the last time.
        if rollover_phase(places) is not Phase.IDLE or not places.previous_key.exists():
            _expect(places, Phase.SWITCHED, "finish")
            signer = pem.load_signer(places)
            if not force and (left := _left_behind(places, signer, now)):
                raise ConflictError(
                    f"only the old authority vouches for: {', '.join(left)}",
                    hint="renew them (jobwire certs renew NAME), wait for their end, or drop them with "
                    "--force",
                    names=left,
                )
            replace_durably(places.bundle, pem.dump([signer.certificate]), files=files.FILES)
        revocation.write_lists(places, now=now)
        remove_durably([places.previous_key], files=files.FILES)


def cancel(authority: CertificateAuthority) -> None:
    """Take a begun rollover back: the new authority has signed nothing yet."""
    places = authority.places
    with authority.alone() as now:
        _expect(places, Phase.BEGUN, "cancel")
        old = pem.load_signer(places).certificate
        replace_durably(places.bundle, pem.dump([old]), files=files.FILES)
        remove_durably([places.next_key], files=files.FILES)
        revocation.write_lists(places, now=now)


def _left_behind(places: Places, signer: Signer, now: float) -> list[str]:
    """Return the names whose valid certificates are all from another authority than `signer`."""
    valid = [
        entry
        for entry in places.index.entries().values()
        if entry.kind is not Kind.AUTHORITY and entry.revoked_at is None and entry.not_after > now
    ]
    moved = {entry.name for entry in valid if entry.issuer == signer.identifier}
    return sorted({entry.name for entry in valid} - moved)


def _expect(places: Places, wanted: Phase, step: str) -> None:
    current = rollover_phase(places)
    if current is not wanted:
        next_step = {Phase.IDLE: "begin", Phase.BEGUN: "switch", Phase.SWITCHED: "finish"}[current]
        raise ConflictError(
            f"cannot {step}: the rollover is {current}, this step needs it {wanted}",
            hint=f"the next step is: jobwire certs rollover {next_step}",
            phase=str(current),
        )
