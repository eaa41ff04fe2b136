"""Reading certificates: what each says, whether it is revoked, and what is wrong or will be soon."""

from collections.abc import Collection, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jobwire.certs import pem, profiles
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.values import DAY, CertificateFacts, Finding, Kind, Level, Phase, ends_soon
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import JobwireError
from jobwire.storage.named_files import exposure

_CLOCK_HINT = "if the clock is wrong, set it right (timedatectl status)"
_LIST_HINT = "jobwire certs crl, then restart the broker"


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


class Checkup:
    """One look at the files of an authority, in parts. Reads only."""

    def __init__(self, places: Places, *, now: float, warn_seconds: float) -> None:
        self._places = places
        self._now = now
        self._warn_seconds = warn_seconds

    def findings(self) -> list[Finding]:
        """Return every finding, the worst first; never raises for what it finds."""
        found = list(self._exposed())
        for part in (self._authorities, self._leaves, self._lists, self._rollover):
            try:
                found.extend(part())
            except JobwireError as error:
                found.append(self._of_file(error))
        order = list(Level)
        unique = dict.fromkeys(found)  # one unreadable file is met by several parts
        return sorted(unique, key=lambda finding: order.index(finding.level))

    def _of_file(self, error: JobwireError) -> Finding:
        return Finding.of(Path(str(error.facts.get("path", self._places.directory))).name, error)

    def _exposed(self) -> Iterator[Finding]:
        folders = (self._places.directory, self._places.clients, self._places.servers)
        for folder in folders:
            if error := exposure(folder):
                yield Finding.of(folder.name, error)._replace(level=Level.WARNING)
        for path in sorted(path for folder in folders for path in folder.glob("*.key")):
            if error := exposure(path):
                yield Finding.of(path.name, error)

    def _authorities(self) -> Iterator[Finding]:
        for certificate in pem.load_certificates(self._places.bundle):
            yield from self._validity(facts(self._places.bundle, certificate, now=self._now))

    def _leaves(self) -> Iterator[Finding]:
        authorities = pem.load_certificates(self._places.bundle)
        revoked = revoked_serials(self._places)
        for path in leaf_files(self._places):
            try:
                certificate = pem.load_certificate(path)
                item = facts(path, certificate, now=self._now, revoked=revoked)
                yield from self._validity(item)
                # Where it comes from matters only while anybody is still meant to present it.
                if _is_brokers(item) or not (item.revoked or self._now > item.not_after):
                    yield from _origin(item, certificate, authorities)
                    yield from _pair(path, certificate)
            except JobwireError as error:  # one damaged file must not hide what the others have to say
                yield self._of_file(error)

    def _ends_soon(self, start: float, end: float) -> bool:
        return ends_soon(start, end, self._now, warn_seconds=self._warn_seconds)

    def _in_days(self, end: float) -> str:
        return f"in {(end - self._now) / DAY:.1f} days"

    def _validity(self, item: CertificateFacts) -> Iterator[Finding]:
        subject, remedy, now = _subject(item), _remedy(item), self._now
        if now < item.not_before:
            text = f"not valid before {utc_timestamp(item.not_before)}, the clock says {utc_timestamp(now)}"
            yield Finding(Level.ERROR, subject, text, _CLOCK_HINT)
        elif item.revoked:
            # A revoked client is refused as intended; a revoked broker is refused by all who look.
            if _is_brokers(item):
                yield Finding(Level.ERROR, subject, "is revoked", "jobwire certs renew server --new-key")
        elif now > item.not_after:
            # A job's certificate is meant to end with its job.
            level = Level.NOTE if item.kind == Kind.JOB else Level.ERROR
            hint = "jobwire certs prune removes it" if item.kind == Kind.JOB else f"{remedy}; {_CLOCK_HINT}"
            yield Finding(level, subject, f"expired at {utc_timestamp(item.not_after)}", hint)
        elif item.kind != Kind.JOB and self._ends_soon(item.not_before, item.not_after):
            yield Finding(Level.WARNING, subject, f"expires {self._in_days(item.not_after)}", remedy)

    def _lists(self) -> Iterator[Finding]:
        lists = pem.load_lists(self._places.crl)
        for authority in pem.load_certificates(self._places.bundle):
            mine = [crl for crl in lists if _list_signed_by(crl, authority)]
            if not mine:
                name = authority.subject.rfc4514_string()
                text = f"holds no list signed by {name}: a broker that checks refuses its clients"
                yield self._of_lists(Level.ERROR, text)
            for crl in mine:
                yield from self._list_dates(crl)
                yield from self._list_content(crl, profiles.key_identifier(authority))

    def _of_lists(self, level: Level, text: str, hint: str = _LIST_HINT) -> Finding:
        return Finding(level, self._places.crl.name, text, hint)

    def _list_dates(self, crl: x509.CertificateRevocationList) -> Iterator[Finding]:
        start = crl.last_update_utc.timestamp()
        end = crl.next_update_utc.timestamp() if crl.next_update_utc else float("inf")
        if self._now < start:
            yield self._of_lists(Level.ERROR, f"not valid before {utc_timestamp(start)}", _CLOCK_HINT)
        elif self._now > end:
            text = f"ran out at {utc_timestamp(end)}: a broker that checks refuses everyone"
            yield self._of_lists(Level.ERROR, text)
        elif self._ends_soon(start, end):
            text = f"runs out {self._in_days(end)}: after that a broker that checks refuses everyone"
            yield self._of_lists(Level.WARNING, text)

    def _list_content(self, crl: x509.CertificateRevocationList, issuer: str) -> Iterator[Finding]:
        listed = {item.serial_number for item in crl}
        missing = {
            entry.name
            for entry in self._places.index.entries().values()
            if entry.issuer == issuer
            and entry.revoked_at is not None
            and entry.not_after > self._now
            and entry.serial not in listed
        }
        if missing:
            yield self._of_lists(Level.ERROR, f"revoked but not in the list: {', '.join(sorted(missing))}")

    def _rollover(self) -> Iterator[Finding]:
        signer, present = pem.load_signer(self._places), rollover_phase(self._places)
        reached = "when ca.pem and crl.pem have reached every broker and client: jobwire certs rollover "
        if present is Phase.BEGUN:
            text = "begun: both authorities are trusted, the old one signs"
            yield Finding(Level.NOTE, "rollover", text, reached + "switch")
        elif present is Phase.SWITCHED:
            unfinished = pem.load_certificate(self._places.server).issuer != signer.certificate.subject
            text = "switched: both authorities are trusted, the new one signs"
            yield Finding(Level.NOTE, "rollover", text, reached + ("switch" if unfinished else "finish"))
        elif self._places.previous_key.exists():
            text = "finished, but the old authority's key is still here"
            yield Finding(Level.NOTE, "rollover", text, "jobwire certs rollover finish")


def _is_brokers(item: CertificateFacts) -> bool:
    return item.path.stem == SERVER_NAME


def _subject(item: CertificateFacts) -> str:
    # What starts with `server` keeps the broker from starting: a further server must not.
    further = item.kind == Kind.SERVER and not _is_brokers(item)
    return f"{'further ' if further else ''}{item.kind} {item.name}"


def _remedy(item: CertificateFacts) -> str:
    if item.kind not in set(Kind):
        return "remove the file, or issue it again"
    if item.kind == Kind.AUTHORITY:
        return "move to a new authority: jobwire certs rollover begin"
    remedy = f"jobwire certs renew {item.path.stem}"
    return f"{remedy}, then reload the broker" if _is_brokers(item) else remedy


def _origin(
    item: CertificateFacts, certificate: x509.Certificate, authorities: list[x509.Certificate]
) -> Iterator[Finding]:
    if not any(_signed_by(certificate, authority) for authority in authorities):
        text = f"{item.path.name} is from an authority that ca.pem does not hold ({item.issuer})"
        yield Finding(Level.ERROR, _subject(item), text, "issue it again with --force")


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _pair(certfile: Path, certificate: x509.Certificate) -> Iterator[Finding]:
    keyfile = certfile.with_suffix(".key")
    if not keyfile.exists():
        text = f"{keyfile.name} is missing"
        yield Finding(Level.WARNING, certfile.name, text, "restore it, or issue again with --force")
    elif exposure(keyfile) is None and pem.load_key(keyfile).public_key() != certificate.public_key():
        text = f"{certfile.name} and {keyfile.name} do not belong together"
        yield Finding(Level.ERROR, certfile.name, text, "renew it: the certificate follows the key")


def _list_signed_by(crl: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    key = authority.public_key()
    if crl.issuer != authority.subject or not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    return crl.is_signature_valid(key)
