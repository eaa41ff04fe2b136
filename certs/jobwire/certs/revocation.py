"""Revocation: mark serials in the index, and sign the lists that brokers load.

An expired list makes a broker refuse everyone, so a list lives as long as its authority unless told
otherwise: it is the exception beside short-lived certificates, not a daily chore.
"""

import re
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from jobwire.certs import files, pem
from jobwire.certs.index import SerialEntry
from jobwire.certs.layout import Places
from jobwire.certs.profiles import Signer, moment, period
from jobwire.certs.values import DAY, SKEW, RevocationReason
from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.storage.durable import replace_durably

_SERIAL = re.compile(r"(0[xX])?[0-9A-Fa-f]{2,40}")
# A revoked certificate leaves the list this long after it expired by itself (RFC 5280 section 3.3 asks
# for one list past its end); the index forgets it at the same time.
_KEEP_EXPIRED = 30 * DAY


def revoke(places: Places, which: str | int, *, now: float, reason: RevocationReason) -> list[SerialEntry]:
    """Revoke the serial, or all unexpired certificates of the name, and write the lists.

    The index comes first: a crash in between leaves a list that `check` reports and `crl` repairs.
    Raises NotFoundError, or ConflictError if everything that matches is revoked already.
    """
    matching = _find(places.index.entries().values(), which)
    if not matching:
        raise NotFoundError(
            f"no certificate was issued as {which!r}", hint="jobwire certs show lists names and serials"
        )
    valid = [entry for entry in matching if entry.revoked_at is None and entry.not_after > now]
    if not valid:
        # Not an idle repetition: a crash may have come between index and lists.
        write_lists(places, now=now)
        state = "revoked already" if any(entry.revoked_at for entry in matching) else "expired by itself"
        raise ConflictError(f"{which!r} is {state}", hint="nothing to do; the lists are up to date")
    for entry in valid:
        places.index.revoke(entry.serial, at=now, reason=reason)
    write_lists(places, now=now)
    return valid


def write_lists(
    places: Places,
    *,
    now: float,
    lifetime_seconds: float | None = None,
    coming: Sequence[Signer] = (),
) -> float:
    """Sign the list of every authority whose key is here into `crl.pem`; return the first nextUpdate.

    `coming` are authorities that the bundle does not hold yet.
    """
    entries = list(places.index.entries().values())
    old = pem.load_lists(places.crl)
    lists = []
    for signer in (*_signers(places), *coming):
        mine = [entry for entry in entries if entry.issuer == signer.identifier]
        lists.append(_signed_list(signer, mine, old, now=now, lifetime=lifetime_seconds))
    replace_durably(places.crl, pem.dump(lists), files=files.FILES)
    return min(crl.next_update_utc.timestamp() for crl in lists if crl.next_update_utc)


def _signers(places: Places) -> list[Signer]:
    """Return the authorities of the bundle whose keys are here, the one that signs now first."""
    found = [pem.load_signer(places)]
    for keyfile in (places.next_key, places.previous_key):
        if not keyfile.exists():
            continue
        signer = pem.match_signer(places, keyfile)
        # None: a crash left a key whose certificate is not (or no longer) in the bundle.
        if signer and signer.identifier not in {known.identifier for known in found}:
            found.append(signer)
    return found


def _signed_list(
    signer: Signer,
    entries: Iterable[SerialEntry],
    old: Iterable[x509.CertificateRevocationList],
    *,
    now: float,
    lifetime: float | None,
) -> x509.CertificateRevocationList:
    """Return the list of the revoked `entries` that follows `old`; by default it lasts as the authority."""
    if lifetime is None:
        # The list of an authority that has ended still needs an end after its start.
        end = max(signer.certificate.not_valid_after_utc, moment(now + DAY))
    else:
        end = period(now, lifetime).end
    identifier = x509.AuthorityKeyIdentifier(bytes.fromhex(signer.identifier), None, None)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(signer.certificate.subject)
        .last_update(moment(_next_start(old, signer, now)))
        .next_update(end)
        .add_extension(x509.CRLNumber(_next_number(old, now)), critical=False)
        .add_extension(identifier, critical=False)
    )
    for entry in entries:
        if (at := entry.revoked_at) is None or entry.not_after <= now - _KEEP_EXPIRED:
            continue
        revoked = x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(moment(at))
        if entry.reason is not RevocationReason.UNSPECIFIED:  # RFC 5280 5.3.1: leave the extension out then
            reason = x509.CRLReason(x509.ReasonFlags(str(entry.reason)))
            revoked = revoked.add_extension(reason, critical=False)
        builder = builder.add_revoked_certificate(revoked.build())
    return builder.sign(signer.key, hashes.SHA256())


def forget_expired(places: Places, *, now: float) -> None:
    """Drop long expired certificates from the index."""
    entries = places.index.entries().values()
    kept = [entry for entry in entries if entry.not_after > now - _KEEP_EXPIRED]
    if len(kept) < len(entries):
        places.index.rewrite(kept)


def _find(entries: Iterable[SerialEntry], which: str | int) -> list[SerialEntry]:
    known = list(entries)
    if isinstance(which, str):
        text = which.replace(":", "")
        if (named := [entry for entry in known if entry.name == which]) or not _SERIAL.fullmatch(text):
            return named
        which = int(text, 16)
    return [entry for entry in known if entry.serial == which]


def _next_number(old: Iterable[x509.CertificateRevocationList], now: float) -> int:
    """CRL numbers only rise (RFC 5280 5.2.3); the time keeps them rising when the old list is lost."""
    numbers = [crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number for crl in old]
    return max([int(now), *(number + 1 for number in numbers)])


def _next_start(old: Iterable[x509.CertificateRevocationList], signer: Signer, now: float) -> float:
    """Return a thisUpdate after that of the signer's last list, in whole seconds.

    A broker that loads both goes by that time alone, and of two equal ones OpenSSL keeps the first it
    finds: the later list of a second would not be in force. What is signed is never of the future.
    """
    name = signer.certificate.subject
    starts = [crl.last_update_utc.timestamp() + 1 for crl in old if crl.issuer == name]
    return min(now, max([now - SKEW, *starts]))
