"""What stands in each kind of certificate: RFC 5280 profiles, as pure functions over keys and names."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jobwire.certs.values import SKEW, Kind
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConfigError, InvalidInputError

_E = TypeVar("_E", bound=x509.ExtensionType)


class Period(NamedTuple):
    """When a certificate is valid."""

    start: datetime
    end: datetime


class Signer(NamedTuple):
    """An authority certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def identifier(self) -> str:
        """Return the hex subject key identifier: what the index and the lists call this authority."""
        return key_identifier(self.certificate)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh P-256 key: small, fast in handshakes, accepted by every TLS 1.3 stack."""
    return ec.generate_private_key(ec.SECP256R1())


def period(now: float, lifetime_seconds: float, backdate_seconds: float = 0.0) -> Period:
    """Return the validity that begins `backdate_seconds` before `now` (less SKEW) and lasts the lifetime."""
    if not 1 <= lifetime_seconds <= MAX_SECONDS:
        raise InvalidInputError(
            f"not a usable lifetime: {lifetime_seconds:g} s",
            hint="from one second to a hundred years",
            lifetime_seconds=lifetime_seconds,
        )
    begin = now - backdate_seconds
    return Period(moment(begin - SKEW), moment(begin + lifetime_seconds))


def moment(seconds: float) -> datetime:
    """Return epoch `seconds` as whole-second UTC datetime, the resolution of X.509."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidInputError(f"not a date X.509 can hold: {seconds:g}") from error


def within(wanted: Period, signer: Signer, now: float) -> Period:
    """Return `wanted` cut to the authority's own end; ConfigError if the authority is not valid now."""
    ca = signer.certificate
    start = ca.not_valid_before_utc.timestamp()
    if now < start:
        raise ConfigError(
            f"the clock says {utc_timestamp(now)}, but the authority starts at {utc_timestamp(start)}",
            hint="set this machine's clock right (timedatectl status)",
            now=now,
        )
    if wanted.start >= ca.not_valid_after_utc:
        raise ConfigError(
            f"the authority ended at {utc_timestamp(ca.not_valid_after_utc.timestamp())}, the clock says "
            f"{utc_timestamp(now)}",
            hint="if the clock is right, make a new authority: jobwire certs rollover begin",
            now=now,
        )
    return Period(wanted.start, min(wanted.end, ca.not_valid_after_utc))


def authority(
    key: ec.EllipticCurvePrivateKey, *, label: str, permitted: Iterable[x509.GeneralName], validity: Period
) -> x509.Certificate:
    """Return the self-signed certificate of a new authority.

    It may sign end entities only (path length 0) and only for the permitted names (RFC 5280 4.2.1.10):
    whoever installs it elsewhere does not hand over the whole web. `label` keeps two authorities apart.
    """
    name = _subject(f"jobwire CA {label}")
    constraints = x509.NameConstraints(permitted_subtrees=list(permitted), excluded_subtrees=None)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, name, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(constraints, critical=True)
        .add_extension(x509.AuthorityKeyIdentifier(identifier.digest, None, None), critical=False)
        .sign(key, hashes.SHA256())
    )


def leaf(
    public_key: ec.EllipticCurvePublicKey,
    *,
    name: str,
    kind: Kind,
    validity: Period,
    signer: Signer,
    names: Sequence[x509.GeneralName] | None = None,
) -> x509.Certificate:
    """Return the certificate of a server with `names`, or of a client: one CN, the identity itself.

    The host names of a server stand in the SANs, where RFC 9525 has clients look. It is no client's: whoever
    verifies a client looks for clientAuth (RFC 5280 4.2.1.12) and refuses it, whatever its CN; and the other
    way round.
    """
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if names is None else ExtendedKeyUsageOID.SERVER_AUTH
    subject = _subject(name, unit=str(kind) if names is None else "")
    issuer_key = x509.AuthorityKeyIdentifier(bytes.fromhex(signer.identifier), None, None)
    builder = (
        _builder(subject, signer.certificate.subject, public_key, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    if names is None and "." in name:
        # OpenSSL holds a CN that looks like a host name, as `agent.NAME` does, against the authority's
        # constraints, unless a DNS name stands beside it (x509_vfy.c, check_name_constraints).
        names = [x509.DNSName("agent.localhost")]
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer.key, hashes.SHA256())


def permitted_by(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """Return the name constraints an authority certificate carries."""
    constraints = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    return list(constraints.permitted_subtrees or ())


def key_identifier(certificate: x509.Certificate) -> str:
    """Return the hex subject key identifier of an authority certificate."""
    extension = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return extension.value.digest.hex()


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, validity: Period
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.start)
        .not_valid_after(validity.end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _subject(common_name: str, *, unit: str = "") -> x509.Name:
    values = {
        NameOID.ORGANIZATION_NAME: "jobwire",
        NameOID.ORGANIZATIONAL_UNIT_NAME: unit,
        NameOID.COMMON_NAME: common_name,
    }
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in values.items() if value])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def extension(certificate: x509.Certificate, kind: type[_E]) -> _E | None:
    """Return an extension of `certificate`, None where it has none of the kind."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the SANs as text."""
    return [str(san.value) for san in extension(certificate, x509.SubjectAlternativeName) or ()]
