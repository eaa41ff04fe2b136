"""Issuing: a new authority, server and client certificates, renewal. The caller holds the folder's lock."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from jobwire.certs import files, pem, profiles, revocation
from jobwire.certs.index import Index, SerialEntry
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.names import ServerNames, parse_permitted, parse_server_names
from jobwire.certs.profiles import Signer
from jobwire.certs.values import BROKER_COMMON_NAME, DEFAULT_LIFETIMES, Issued, Kind
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError


class CertificateRequest(NamedTuple):
    """What is to be certified from `now` on; times in seconds. `server_names` are a server's alone."""

    name: str
    kind: Kind
    now: float
    lifetime: float | None = None
    backdate: float = 0.0
    server_names: Sequence[str] | None = None


def new_authority(server_names: Sequence[str], permit: Sequence[str], validity: profiles.Period) -> Signer:
    """Return a fresh authority that may certify `server_names`, loopback and `permit`; nothing is written."""
    permitted = parse_permitted(parse_server_names(server_names), permit)
    key = profiles.new_key()
    return Signer(profiles.authority(key, label=token_hex(4), permitted=permitted, validity=validity), key)


def create(places: Places, signer: Signer, server_names: Sequence[str], *, now: float, force: bool) -> Issued:
    """Write a whole new authority with its server certificate, or nothing; the lock is the parent folder's.

    It is made in a folder beside and renamed into place. With `force` the old folder is kept beside it
    as `<name>.replaced-...`: a mistaken --force costs a rename, not the keys.
    """
    directory = places.directory
    occupied = directory.is_dir() and any(directory.iterdir())
    if occupied and not force:
        raise ConflictError(
            f"{directory} holds certificates already",
            hint="use --force (force=True) to start over; the old folder is then kept beside it",
            path=str(directory),
        )
    staging = Places(directory.with_name(f".{directory.name}.new"))
    with files.storage_errors("create", directory):
        shutil.rmtree(staging.directory, ignore_errors=True)  # a crash left it: we hold the lock
        try:
            files.make_directory(staging.clients)
            own = {staging.ca_key: pem.dump_key(signer.key), staging.bundle: pem.dump([signer.certificate])}
            files.write_files(own, overwrite=False)
            record(staging, signer.certificate, signer.certificate.subject.rfc4514_string(), signer)
            revocation.write_lists(staging, now=now)
            issued = write(
                staging, CertificateRequest(SERVER_NAME, Kind.SERVER, now, server_names=server_names)
            )
            if occupied:
                directory.rename(_free_name(directory))
            staging.directory.rename(directory)
            files.sync_directory(directory.parent)
        finally:
            shutil.rmtree(staging.directory, ignore_errors=True)
    return issued._replace(certfile=places.server, keyfile=places.server_key)


def _free_name(directory: Path) -> Path:
    number = 1
    while (old := directory.with_name(f"{directory.name}.replaced-{number}")).exists():
        number += 1
    return old


def write(
    places: Places,
    request: CertificateRequest,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
    overwrite: bool = True,
) -> Issued:
    """Write the certificate with a new key, or for the given `key` the certificate alone.

    Then one rename changes everything: certificate and key never disagree, whatever crashes. Raises
    InvalidInputError for names outside the authority's constraints.
    """
    name, kind, now, lifetime, backdate, server_names = request
    names = parse_server_names(server_names) if server_names is not None else None
    signer = pem.load_signer(places)
    if names is not None:
        _check_permitted(signer, names)
    used = key or profiles.new_key()
    period = profiles.period(now, DEFAULT_LIFETIMES[kind] if lifetime is None else lifetime, backdate)
    certificate = profiles.leaf(
        used.public_key(),
        name=BROKER_COMMON_NAME if name == SERVER_NAME else name,
        kind=kind,
        validity=profiles.within(period, signer, now),
        signer=signer,
        names=names,
    )
    certfile, keyfile = places.pair(name, kind)
    files.make_directory(certfile.parent)
    record(places, certificate, name, signer, kind)
    contents = {} if key else {keyfile: pem.dump_key(used)}
    files.write_files(contents | {certfile: pem.dump([certificate])}, overwrite=overwrite)
    end = certificate.not_valid_after_utc.timestamp()
    return Issued(name, certfile, keyfile, certificate.serial_number, end)


def issue(places: Places, request: CertificateRequest, *, overwrite: bool) -> Issued:
    """Write the first certificate of a name, with a new key; ConflictError if it is taken."""
    certfile, keyfile = places.pair(request.name, request.kind)
    taken, _ = places.pair(request.name, Kind.ROLE if request.kind is Kind.SERVER else Kind.SERVER)
    if taken.exists():  # a client and a server of one name could not be told apart
        raise ConflictError(
            f"the name {request.name!r} is taken by {taken}",
            hint="choose another name: certificates are renewed and revoked by it",
            path=str(taken),
        )
    if not overwrite and certfile.exists():
        raise ConflictError(
            f"{certfile} exists already",
            hint=f"renew it: jobwire certs renew {request.name}; or replace it and its key with --force",
            path=str(certfile),
        )
    # A key alone: a crash came before its certificate, which completes the pair.
    key = pem.load_key(keyfile) if not overwrite and keyfile.exists() else None
    return write(places, request, key=key, overwrite=overwrite)


def renew(places: Places, request: CertificateRequest, *, new_key: bool = False) -> Issued:
    """Write the next certificate of a name, for the ordered or the present host names, of the same kind."""
    certfile, keyfile = places.pair(request.name, request.kind)
    present = pem.load_certificate(certfile)
    entry = Index(places.index).entries().get(present.serial_number)
    if request.kind is Kind.SERVER:
        request = request._replace(server_names=request.server_names or profiles.names_of(present))
        remedy = f"jobwire certs renew {request.name} --new-key"
    elif entry is None:
        raise NotFoundError(
            f"{certfile} is not from this authority",
            hint=f"issue one: jobwire certs issue {request.name} --force",
        )
    else:
        request = request._replace(kind=entry.kind)
        remedy = f"jobwire certs issue {request.name} --force makes a new key and certificate"
    if entry is not None and entry.revoked_at is not None and not (new_key and request.kind is Kind.SERVER):
        raise ConflictError(
            f"the certificate of {request.name!r} is revoked; its key is not certified again",
            hint=remedy,
            serial=present.serial_number,
        )
    return write(places, request, key=None if new_key else pem.load_key(keyfile))


def _check_permitted(signer: Signer, names: ServerNames) -> None:
    if refused := profiles.permitted_by(signer.certificate).refuses(names):
        raise InvalidInputError(
            f"this authority may not certify {', '.join(refused)}: it is confined to the names given at its "
            "creation",
            hint="move to an authority that may: jobwire certs rollover begin --permit NAME",
            refused=refused,
        )


def record(
    places: Places,
    certificate: x509.Certificate,
    name: str,
    signer: Signer,
    kind: Kind = Kind.AUTHORITY,
) -> None:
    """Put a certificate that `signer` signed into the index, before it is written."""
    validity = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    entry = SerialEntry(certificate.serial_number, name, kind, signer.identifier, *validity)
    Index(places.index).add(entry)
