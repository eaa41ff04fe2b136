"""PEM in and out: certificates, keys and revocation lists, with errors that name the file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from jobwire.certs import files
from jobwire.certs.layout import Places
from jobwire.certs.profiles import Signer
from jobwire.core.errors import ConfigError

_CRL_END = b"-----END X509 CRL-----"
_T = TypeVar("_T")


def dump_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key as PKCS 8 PEM, unencrypted: brokers and workers start without a person."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def dump(items: Iterable[x509.Certificate | x509.CertificateRevocationList]) -> bytes:
    """Return certificates or lists as one PEM text."""
    return b"".join(item.public_bytes(Encoding.PEM) for item in items)


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key in `path`; ConfigError if others may read it or it is not an EC key."""
    data = files.read_file(path, private=True)
    remedy = "restore it from a backup"
    key = _parsed(path, "usable private key", remedy, lambda: load_pem_private_key(data, password=None))
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path} holds no elliptic-curve key", hint="issue a new one", path=str(path))
    return key


def load_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates in `path`, at least one."""
    data = files.read_file(path)
    remedy = "issue it again with --force"
    return _parsed(path, "readable certificate", remedy, lambda: x509.load_pem_x509_certificates(data))


def _parsed(path: Path, what: str, remedy: str, parse: Callable[[], _T]) -> _T:
    try:
        return parse()
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} holds no {what}: {error}", hint=remedy, path=str(path)) from error


def load_certificate(path: Path) -> x509.Certificate:
    """Return the first certificate in `path`."""
    return load_certificates(path)[0]


def load_lists(path: Path) -> list[x509.CertificateRevocationList]:
    """Return the revocation lists in `path`, none if the file is absent."""
    if not path.exists():
        return []
    blocks = files.read_file(path).split(_CRL_END)[:-1]
    remedy = "write it again: jobwire certs crl"
    return _parsed(
        path,
        "readable revocation list",
        remedy,
        lambda: [x509.load_pem_x509_crl(block + _CRL_END) for block in blocks],
    )


def load_signer(places: Places) -> Signer:
    """Return the authority that signs now: the certificate of the bundle that `ca.key` belongs to."""
    if signer := match_signer(places, places.ca_key):
        return signer
    raise ConfigError(
        f"{places.ca_key} belongs to no certificate in {places.bundle}",
        hint="the two files are from different authorities: restore them from one backup",
        path=str(places.ca_key),
    )


def match_signer(places: Places, keyfile: Path) -> Signer | None:
    """Return the certificate of the bundle that the key in `keyfile` belongs to, with the key, if any."""
    key = load_key(keyfile)
    for certificate in load_certificates(places.bundle):
        if certificate.public_key() == key.public_key():
            return Signer(certificate, key)
    return None
