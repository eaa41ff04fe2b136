"""Reading certificates: what each says, and whether it is revoked."""

from collections.abc import Collection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jobwire.certs import pem, profiles
from jobwire.certs.layout import Places
from jobwire.certs.values import DAY, CertificateFacts, Kind, Phase


def show_all(places: Places, *, now: float) -> list[CertificateFacts]:
    """Return the facts of the bundle, the servers and every client, in this order."""
    revoked = revoked_serials(places)
    leaves = [path for path in leaf_files(places) if path.exists()]
    found = [(places.bundle, item) for item in pem.load_certificates(places.bundle)]
    found += [(path, pem.load_certificate(path)) for path in leaves]
    return [facts(path, certificate, now=now, revoked=revoked) for path, certificate in found]


def leaf_files(places: Places) -> list[Path]:
    """Return the broker's certificate, which may be missing, those of further servers and of clients."""
    return [places.server, *certificates_in(places.servers), *certificates_in(places.clients)]


def certificates_in(folder: Path) -> list[Path]:
    """Return the certificates of a folder, by name."""
    return sorted(path for path in folder.glob("*.pem") if not path.name.startswith("."))


def rollover_phase(places: Places) -> Phase:
    """Return where a rollover stands, from the files alone."""
    if places.next_key.exists() and pem.match_signer(places, places.next_key):
        return Phase.BEGUN
    return Phase.SWITCHED if len(pem.load_certificates(places.bundle)) > 1 else Phase.IDLE


def revoked_serials(places: Places) -> set[int]:
    """Return what the index and the signed lists call revoked."""
    entries = places.index.entries().values()
    serials = {entry.serial for entry in entries if entry.revoked_at is not None}
    return serials | listed_serials(places.crl)


def listed_serials(path: Path) -> set[int]:
    """Return the serials in a file of revocation lists; none if it is absent, ConfigError if unreadable."""
    return {item.serial_number for crl in pem.load_lists(path) for item in crl}


def facts(
    path: Path, certificate: x509.Certificate, *, now: float, revoked: Collection[int] = ()
) -> CertificateFacts:
    """Return what `certificate`, read from `path`, says."""
    end = certificate.not_valid_after_utc.timestamp()
    return CertificateFacts(
        path=path,
        kind=kind_of(certificate),
        name=_common_name(certificate.subject),
        subject=_readable(certificate.subject),
        issuer=_readable(certificate.issuer),
        names=tuple(profiles.names_of(certificate)),
        serial=certificate.serial_number,
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=end,
        days_left=(end - now) / DAY,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        revoked=certificate.serial_number in revoked,
    )


def kind_of(certificate: x509.Certificate) -> str:
    """Return the Kind a certificate's own extensions make it, or `unknown`."""
    constraints = profiles.extension(certificate, x509.BasicConstraints)
    usages = list(profiles.extension(certificate, x509.ExtendedKeyUsage) or ())
    if constraints is not None and constraints.ca:
        return str(Kind.AUTHORITY)
    if ExtendedKeyUsageOID.SERVER_AUTH in usages:
        return str(Kind.SERVER)
    if ExtendedKeyUsageOID.CLIENT_AUTH not in usages:
        return "unknown"
    units = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    return str(Kind.JOB) if [unit.value for unit in units] == [str(Kind.JOB)] else str(Kind.ROLE)


def _common_name(name: x509.Name) -> str:
    return "/".join(str(attribute.value) for attribute in name.get_attributes_for_oid(NameOID.COMMON_NAME))


def _readable(name: x509.Name) -> str:
    """Return the name in the order of `openssl x509 -subject`."""
    return ", ".join(part.rfc4514_string() for part in name.rdns)
