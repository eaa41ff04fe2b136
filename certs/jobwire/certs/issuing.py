"""Issuing: a new authority, server and client certificates, renewal."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from jobwire.certs import files, pem, profiles, revocation
from jobwire.certs.index import Index, SerialEntry
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.names import ServerNames, parse_permitted, parse_server_names
from jobwire.certs.profiles import Signer
from jobwire.certs.values import BROKER_COMMON_NAME, DEFAULT_LIFETIMES, SERVER_LIFETIME, Issued, Kind
from jobwire.core.clock import Clock
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError


def new_authority(
    server_names: Sequence[str], permit: Sequence[str], *, now: float, lifetime: float, backdate: float
) -> Signer:
    """Return a fresh authority that may certify `server_names`, loopback and `permit`; nothing is written."""
    permitted = parse_permitted(parse_server_names(server_names), permit)
    key = profiles.new_key()
    validity = profiles.period(now, lifetime, backdate)
    certificate = profiles.authority(key, label=token_hex(4), permitted=permitted, validity=validity)
    return Signer(certificate, key)


def create(
    places: Places, signer: Signer, server_names: Sequence[str], *, clock: Clock, now: float, force: bool
) -> Issued:
    """Write a whole new authority with its server certificate, or nothing.

    It is made in a folder beside and renamed into place. With `force` the old folder is kept beside it
    as `<name>.replaced-...`: a mistaken --force costs a rename, not the keys.
    """
    directory = places.directory
    files.make_directory(directory.parent)
    with files.locked(directory.parent, clock=clock):
        occupied = directory.is_dir() and any(directory.iterdir())
        if occupied and not force:
            raise ConflictError(
                f"{directory} holds certificates already",
                hint="use --force (force=True) to start over; the old folder is then kept beside it",
                path=str(directory),
            )
        staging = directory.with_name(f".{directory.name}.new")
        with files.storage_errors("create", directory):
            shutil.rmtree(staging, ignore_errors=True)  # a crash left it: we hold the lock
            try:
                issued = _fill(Places(staging), signer, server_names, now=now)
                if occupied:
                    directory.rename(_free_name(directory))
                staging.rename(directory)
                files.sync_directory(directory.parent)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return issued._replace(certfile=places.server, keyfile=places.server_key)


def _fill(places: Places, signer: Signer, server_names: Sequence[str], *, now: float) -> Issued:
    files.make_directory(places.clients)
    own = {places.ca_key: pem.dump_key(signer.key), places.bundle: pem.dump([signer.certificate])}
    files.write_files(own, overwrite=False)
    Index(places.index).add(entry_of(signer.certificate, signer.certificate.subject, Kind.AUTHORITY, signer))
    revocation.write_lists(places, now=now)
    return server(places, server_names, now=now, lifetime=SERVER_LIFETIME, key=profiles.new_key())


def _free_name(directory: Path) -> Path:
    number = 1
    while (old := directory.with_name(f"{directory.name}.replaced-{number}")).exists():
        number += 1
    return old


def server(
    places: Places,
    server_names: Sequence[str],
    *,
    name: str = SERVER_NAME,
    now: float,
    lifetime: float,
    backdate: float = 0.0,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Issued:
    """Write the certificate of the broker, or of the server `name`; without `key` the present one stays.

    Then only the certificate changes, in one rename: certificate and key never disagree, whatever
    crashes. Raises InvalidInputError for names outside the authority's constraints.
    """
    names = parse_server_names(server_names)
    signer = pem.load_signer(places)
    check_permitted(signer, names)
    certfile, keyfile = places.server_of(name), places.server_key_of(name)
    used = key or pem.load_key(keyfile)
    validity = profiles.within(profiles.period(now, lifetime, backdate), signer, now)
    common_name = BROKER_COMMON_NAME if name == SERVER_NAME else name
    certificate = profiles.server(
        used.public_key(), common_name=common_name, names=names, validity=validity, signer=signer
    )
    files.make_directory(certfile.parent)
    Index(places.index).add(entry_of(certificate, name, Kind.SERVER, signer))
    contents = {certfile: pem.dump([certificate])}
    if key:
        contents = {keyfile: pem.dump_key(key)} | contents
    files.write_files(contents, overwrite=True)
    return issued_of(name, certfile, keyfile, certificate)


def further_server(
    places: Places,
    name: str,
    server_names: Sequence[str],
    *,
    now: float,
    lifetime: float,
    backdate: float,
    overwrite: bool,
) -> Issued:
    """Write the first certificate of a server beside the broker, with a new key."""
    key: ec.EllipticCurvePrivateKey | None = profiles.new_key()
    refuse_taken(places.client(name))
    if not overwrite:
        refuse_existing(places.server_of(name))
        if places.server_key_of(name).exists():
            key = None  # a crash came before its certificate: complete the pair
    return server(places, server_names, name=name, now=now, lifetime=lifetime, backdate=backdate, key=key)


def client(
    places: Places,
    name: str,
    kind: Kind,
    *,
    now: float,
    lifetime: float,
    backdate: float,
    overwrite: bool,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Issued:
    """Write a client certificate with a new key, or for the given `key` the certificate alone."""
    certfile, keyfile = places.client(name), places.client_key(name)
    refuse_taken(places.server_of(name))
    signer = pem.load_signer(places)
    files.make_directory(places.clients)
    if not overwrite:
        refuse_existing(certfile)
        if keyfile.exists():
            key = pem.load_key(keyfile)  # a crash came before its certificate: complete the pair
    used = key or profiles.new_key()
    validity = profiles.within(profiles.period(now, lifetime, backdate), signer, now)
    certificate = profiles.client(used.public_key(), name=name, kind=kind, validity=validity, signer=signer)
    contents = {certfile: pem.dump([certificate])}
    if key is None:
        contents = {keyfile: pem.dump_key(used)} | contents
    Index(places.index).add(entry_of(certificate, name, kind, signer))
    files.write_files(contents, overwrite=overwrite)
    return issued_of(name, certfile, keyfile, certificate)


def renew_server(
    places: Places,
    server_names: Sequence[str] | None,
    *,
    name: str,
    now: float,
    lifetime: float,
    backdate: float,
    new_key: bool,
) -> Issued:
    """Write a server's next certificate for the given or the present names, keeping the key by default."""
    present = pem.load_certificate(places.server_of(name))
    names = server_names or list(profiles.names_of(present))
    if not new_key and is_revoked(places, present):
        raise ConflictError(
            f"the certificate of {name!r} is revoked, its key is not certified again",
            hint=f"jobwire certs renew {name} --new-key",
            serial=present.serial_number,
        )
    key = profiles.new_key() if new_key else None
    return server(places, names, name=name, now=now, lifetime=lifetime, backdate=backdate, key=key)


def renew_client(
    places: Places, name: str, *, now: float, lifetime: float | None, backdate: float, new_key: bool
) -> Issued:
    """Write the next certificate of an existing client, of the same kind, keeping the key by default."""
    serial = pem.load_certificate(places.client(name)).serial_number
    entry = Index(places.index).entries().get(serial)
    if entry is None:
        raise NotFoundError(
            f"{places.client(name)} is not from this authority",
            hint=f"issue one: jobwire certs issue {name} --force",
        )
    if entry.revoked_at is not None:
        raise ConflictError(
            f"the certificate of {name!r} is revoked, its key is not certified again",
            hint=f"jobwire certs issue {name} --force makes a new key and certificate",
            serial=serial,
        )
    return client(
        places,
        name,
        entry.kind,
        now=now,
        lifetime=lifetime or DEFAULT_LIFETIMES[entry.kind],
        backdate=backdate,
        overwrite=True,
        key=None if new_key else pem.load_key(places.client_key(name)),
    )


def self_signed(
    directory: Path, name: str, *, now: float, lifetime: float, backdate: float, force: bool
) -> Issued:
    """Write a client certificate signed by its own key into `directory`."""
    key = profiles.new_key()
    validity = profiles.period(now, lifetime, backdate)
    certificate = profiles.self_signed_client(key, name=name, validity=validity)
    certfile, keyfile = directory / f"{name}.pem", directory / f"{name}.key"
    files.make_directory(directory)
    contents = {keyfile: pem.dump_key(key), certfile: pem.dump([certificate])}
    files.write_files(contents, overwrite=force)
    return issued_of(name, certfile, keyfile, certificate)


def refuse_existing(certfile: Path) -> None:
    """Raise ConflictError if `certfile` exists, before anything is recorded or written."""
    if certfile.exists():
        raise ConflictError(
            f"{certfile} exists already",
            hint=f"renew it: jobwire certs renew {certfile.stem}; or replace it and its key with --force",
            path=str(certfile),
        )


def refuse_taken(certfile: Path) -> None:
    """Raise ConflictError if `certfile` exists: a client and a server of one name could not be told apart."""
    if certfile.exists():
        raise ConflictError(
            f"the name {certfile.stem!r} is taken by {certfile}",
            hint="choose another name: certificates are renewed and revoked by it",
            path=str(certfile),
        )


def is_revoked(places: Places, certificate: x509.Certificate) -> bool:
    """Tell whether the index calls `certificate` revoked."""
    entry = Index(places.index).entries().get(certificate.serial_number)
    return entry is not None and entry.revoked_at is not None


def check_permitted(signer: Signer, names: ServerNames) -> None:
    """Raise InvalidInputError if the authority's name constraints do not permit `names`."""
    if refused := profiles.permitted_by(signer.certificate).refuses(names):
        raise InvalidInputError(
            f"this authority may not certify {', '.join(refused)}: it is confined to the names given at its "
            "creation",
            hint="move to an authority that may: jobwire certs rollover begin --permit NAME",
            refused=refused,
        )


def entry_of(certificate: x509.Certificate, name: str | x509.Name, kind: Kind, signer: Signer) -> SerialEntry:
    """Return the index entry of a certificate that `signer` signed."""
    label = name if isinstance(name, str) else name.rfc4514_string()
    return SerialEntry(
        certificate.serial_number,
        label,
        kind,
        signer.identifier,
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


def issued_of(name: str, certfile: Path, keyfile: Path, certificate: x509.Certificate) -> Issued:
    """Return what the caller gets to know of a certificate just written."""
    return Issued(
        name,
        certfile,
        keyfile,
        certificate.serial_number,
        certificate.not_valid_after_utc.timestamp(),
    )
