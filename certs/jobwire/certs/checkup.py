"""The check-up: what is wrong with an authority's files now, or will be soon, each with its remedy."""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from jobwire.certs import inspection, pem, profiles, rollover
from jobwire.certs.index import Index
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.values import DAY, CertificateFacts, Finding, Kind, Level, Phase, ends_soon
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import JobwireError
from jobwire.storage.named_files import exposure

_CLOCK_HINT = "if the clock is wrong, set it right (timedatectl status)"
_LIST_HINT = "jobwire certs crl, then restart the broker"


def check(places: Places, *, now: float, warn_seconds: float) -> list[Finding]:
    """Return every finding, the worst first. Reads only; never raises for what it finds."""
    found = list(_exposed(places))
    for part in (_authorities, _leaves, _lists, _rollover):
        try:
            found.extend(part(places, now, warn_seconds))
        except JobwireError as error:
            found.append(_of_file(error, places))
    order = list(Level)
    unique = dict.fromkeys(found)  # one unreadable file is met by several parts
    return sorted(unique, key=lambda finding: order.index(finding.level))


def _of_file(error: JobwireError, places: Places) -> Finding:
    return Finding.of(Path(str(error.facts.get("path", places.directory))).name, error)


def _exposed(places: Places) -> Iterator[Finding]:
    folders = (places.directory, places.clients, places.servers)
    for folder in folders:
        if error := exposure(folder):
            yield Finding.of(folder.name, error)._replace(level=Level.WARNING)
    for path in sorted(path for folder in folders for path in folder.glob("*.key")):
        if error := exposure(path):
            yield Finding.of(path.name, error)


def _authorities(places: Places, now: float, warn_seconds: float) -> Iterator[Finding]:
    for certificate in pem.load_certificates(places.bundle):
        yield from _validity(inspection.facts(places.bundle, certificate, now=now), now, warn_seconds)


def _leaves(places: Places, now: float, warn_seconds: float) -> Iterator[Finding]:
    authorities = pem.load_certificates(places.bundle)
    revoked = inspection.revoked_serials(places)
    for path in inspection.leaf_files(places):
        try:
            certificate = pem.load_certificate(path)
            item = inspection.facts(path, certificate, now=now, revoked=revoked)
            yield from _validity(item, now, warn_seconds)
            if _in_use(item, now):
                yield from _origin(item, certificate, authorities)
                yield from _pair(path, certificate)
        except JobwireError as error:  # one damaged file must not hide what the others have to say
            yield _of_file(error, places)


def _in_use(item: CertificateFacts, now: float) -> bool:
    """Tell whether anybody is still meant to present it: where it comes from matters only then."""
    return _is_brokers(item) or not (item.revoked or now > item.not_after)


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


def _validity(item: CertificateFacts, now: float, warn_seconds: float) -> Iterator[Finding]:
    subject, remedy = _subject(item), _remedy(item)
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
    elif item.kind != Kind.JOB and ends_soon(item.not_before, item.not_after, now, warn_seconds=warn_seconds):
        yield Finding(Level.WARNING, subject, f"expires in {_days(item.not_after - now)}", remedy)


def _days(seconds: float) -> str:
    return f"{seconds / DAY:.1f} days"


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


def _lists(places: Places, now: float, warn_seconds: float) -> Iterator[Finding]:
    lists = pem.load_lists(places.crl)
    for authority in pem.load_certificates(places.bundle):
        mine = [crl for crl in lists if _list_signed_by(crl, authority)]
        if not mine:
            name = authority.subject.rfc4514_string()
            text = f"holds no list signed by {name}: a broker that checks refuses its clients"
            yield Finding(Level.ERROR, places.crl.name, text, _LIST_HINT)
        for crl in mine:
            yield from _list_dates(places, crl, now, warn_seconds)
            yield from _list_content(places, crl, profiles.key_identifier(authority), now)


def _list_signed_by(crl: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    key = authority.public_key()
    if crl.issuer != authority.subject or not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    return crl.is_signature_valid(key)


def _list_dates(
    places: Places, crl: x509.CertificateRevocationList, now: float, warn_seconds: float
) -> Iterator[Finding]:
    subject = places.crl.name
    start = crl.last_update_utc.timestamp()
    end = crl.next_update_utc.timestamp() if crl.next_update_utc else float("inf")
    if now < start:
        yield Finding(Level.ERROR, subject, f"not valid before {utc_timestamp(start)}", _CLOCK_HINT)
    elif now > end:
        text = f"ran out at {utc_timestamp(end)}: a broker that checks refuses everyone"
        yield Finding(Level.ERROR, subject, text, _LIST_HINT)
    elif ends_soon(start, end, now, warn_seconds=warn_seconds):
        text = f"runs out in {_days(end - now)}: after that a broker that checks refuses everyone"
        yield Finding(Level.WARNING, subject, text, _LIST_HINT)


def _list_content(
    places: Places, crl: x509.CertificateRevocationList, issuer: str, now: float
) -> Iterator[Finding]:
    listed = {item.serial_number for item in crl}
    missing = {
        entry.name
        for entry in Index(places.index).entries().values()
        if entry.issuer == issuer
        and entry.revoked_at is not None
        and entry.not_after > now
        and entry.serial not in listed
    }
    if missing:
        text = f"revoked but not in the list: {', '.join(sorted(missing))}"
        yield Finding(Level.ERROR, places.crl.name, text, _LIST_HINT)


def _rollover(places: Places, now: float, warn_seconds: float) -> Iterator[Finding]:
    del now, warn_seconds  # the parts share one signature
    signer = pem.load_signer(places)
    reached = "when ca.pem and crl.pem have reached every broker and client: jobwire certs rollover "
    match rollover.phase(places):
        case Phase.BEGUN:
            text = "begun: both authorities are trusted, the old one signs"
            yield Finding(Level.NOTE, "rollover", text, reached + "switch")
        case Phase.SWITCHED:
            unfinished = pem.load_certificate(places.server).issuer != signer.certificate.subject
            text = "switched: both authorities are trusted, the new one signs"
            yield Finding(Level.NOTE, "rollover", text, reached + ("switch" if unfinished else "finish"))
        case Phase.IDLE if places.previous_key.exists():
            text = "finished, but the old authority's key is still here"
            yield Finding(Level.NOTE, "rollover", text, "jobwire certs rollover finish")
        case Phase.IDLE:
            return
