"""The authority over its folder: creating it, issuing, renewing, revoking, and what stands in it."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from jobwire.certs import files, inspection, names, pem, profiles, revocation
from jobwire.certs.index import SerialEntry
from jobwire.certs.layout import SERVER_NAME, Places
from jobwire.certs.profiles import Signer
from jobwire.certs.values import (
    BROKER_COMMON_NAME,
    CA_LIFETIME,
    DEFAULT_LIFETIMES,
    DEFAULT_SERVER_NAMES,
    JOB_LIFETIME,
    ROLE_LIFETIME,
    SERVER_LIFETIME,
    WARN_WITHIN,
    CertificateFacts,
    Finding,
    Issued,
    Kind,
    RevocationReason,
)
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.core.topics import agent_identity, check_job_id, check_wire_name
from jobwire.storage.durable import change_durably, create_durably, remove_durably, remove_temporaries


class CertificateAuthority:
    """A private authority in one folder: `ca.pem`, `ca.key`, servers, clients, revocation list, index.

    Methods that write hold the folder's lock (another process: up to 10 s, then ConflictError), block on
    fsync, and leave either everything or nothing changed. Lifetimes are in seconds; a certificate is valid
    from 5 minutes before `clock.now() - backdate_seconds` until the lifetime after it, but never beyond its
    authority. All raise StorageError when the disk fails, NotFoundError without an authority, and
    ConfigError for key files that others may read or a clock outside the authority's validity.
    `rollover` moves it to a new key.
    """

    def __init__(self, directory: Path, *, clock: Clock | None = None, backdate_seconds: float = 0.0) -> None:
        self.directory = directory
        self.places = Places(directory)
        self._clock = clock or SystemClock()
        self._backdate = backdate_seconds

    @contextmanager
    def alone(self) -> Iterator[float]:
        """Hold the folder's lock for the block; gives the time. Not re-entrant."""
        with files.locked(self.directory, clock=self._clock):
            yield self._clock.now()

    def exists(self) -> bool:
        """Tell whether everything that `init` writes is there."""
        return self.places.complete()

    def init(
        self,
        server_names: Sequence[str] = DEFAULT_SERVER_NAMES,
        *,
        force: bool = False,
        permit: Sequence[str] = (),
        lifetime_seconds: float = CA_LIFETIME,
    ) -> Issued:
        """Create authority, server certificate and empty revocation list, or nothing; return the server's.

        The authority is confined to loopback, `server_names` and the DNS subtrees and address ranges in
        `permit`. Raises ConflictError if the folder is in use and not `force`; with `force` the old folder
        is kept beside it as `<name>.replaced-...`: a mistaken --force costs a rename, not the keys.
        """
        now, directory = self._clock.now(), self.directory
        signer = new_signer(server_names, permit, profiles.period(now, lifetime_seconds))
        files.make_directory(directory.parent)
        with files.locked(directory.parent, clock=self._clock):
            occupied = directory.is_dir() and any(directory.iterdir())
            if occupied and not force:
                raise ConflictError(
                    f"{directory} holds certificates already",
                    hint="use --force (force=True) to start over; the old folder is then kept beside it",
                    path=str(directory),
                )
            # Made in a folder beside, and renamed into place.
            staging = CertificateAuthority(directory.with_name(f".{directory.name}.new"))
            with files.storage_errors("create", directory):
                shutil.rmtree(staging.directory, ignore_errors=True)  # a crash left it: we hold the lock
                try:
                    issued = staging._create(signer, server_names, now)
                    if occupied:
                        directory.rename(_free_name(directory))
                    staging.directory.rename(directory)
                    files.FILES.sync_directory(directory.parent)
                finally:
                    shutil.rmtree(staging.directory, ignore_errors=True)
        return issued._replace(certfile=self.places.server, keyfile=self.places.server_key)

    def _create(self, signer: Signer, server_names: Sequence[str], now: float) -> Issued:
        places = self.places
        files.make_directory(places.clients)
        own = ((places.ca_key, pem.dump_key(signer.key)), (places.bundle, pem.dump([signer.certificate])))
        change_durably(replace=own, files=files.FILES)
        record(places, signer.certificate, signer.certificate.subject.rfc4514_string(), signer)
        revocation.write_lists(places, now=now)
        return self._write(SERVER_NAME, Kind.SERVER, now, SERVER_LIFETIME, server_names)

    def refuses(self, server_names: Sequence[str]) -> list[str]:
        """Return those of `server_names` that this authority may not certify; InvalidInputError for none."""
        permitted = profiles.permitted_by(pem.load_signer(self.places).certificate)
        return names.refused(names.parse_server_names(server_names), permitted)

    def issue(self, name: str, *, lifetime_seconds: float = ROLE_LIFETIME, force: bool = False) -> Issued:
        """Issue a client certificate for a user or role, with CN `name`, to `clients/<name>.pem`.

        Raises InvalidInputError for unusable names and for those of the form of a job id, ConflictError
        if it exists and not `force`.
        """
        return self._issue(names.check_name(name), Kind.ROLE, lifetime_seconds, force=force)

    def issue_job(
        self, job_id: str, *, lifetime_seconds: float = JOB_LIFETIME, force: bool = False
    ) -> Issued:
        """Issue the short-lived client certificate of a job: its CN is the job id itself."""
        return self._issue(check_job_id(job_id), Kind.JOB, lifetime_seconds, force=force)

    def issue_agent(
        self, agent: str, *, lifetime_seconds: float = ROLE_LIFETIME, force: bool = False
    ) -> Issued:
        """Issue the client certificate of an agent: its CN is `agent.NAME`, like no job's and no role's."""
        return self._issue(agent_identity(agent), Kind.ROLE, lifetime_seconds, force=force)

    def issue_server(
        self,
        name: str,
        server_names: Sequence[str],
        *,
        lifetime_seconds: float = SERVER_LIFETIME,
        force: bool = False,
    ) -> Issued:
        """Issue the certificate of a server beside the broker, the page's say, to `servers/<name>.pem`.

        No broker takes it for a client's. Raises InvalidInputError for unusable names and for
        `server_names` outside the authority's constraints, ConflictError if it exists and not `force`,
        or if a client has the name.
        """
        return self._issue(names.check_name(name), Kind.SERVER, lifetime_seconds, server_names, force=force)

    def _issue(
        self,
        name: str,
        kind: Kind,
        lifetime: float,
        server_names: Sequence[str] | None = None,
        *,
        force: bool,
    ) -> Issued:
        with self.alone() as now:
            certfile, keyfile = self.places.pair(name, kind)
            taken, _ = self.places.pair(name, Kind.ROLE if kind is Kind.SERVER else Kind.SERVER)
            if taken.exists():  # a client and a server of one name could not be told apart
                raise ConflictError(
                    f"the name {name!r} is taken by {taken}",
                    hint="choose another name: certificates are renewed and revoked by it",
                    path=str(taken),
                )
            if not force and os.path.lexists(certfile):
                raise _exists(certfile, name)
            # A key alone: a crash came before its certificate, which completes the pair.
            key = pem.load_key(keyfile) if not force and keyfile.exists() else None
            return self._write(name, kind, now, lifetime, server_names, key=key, replace=force)

    def renew(
        self,
        name: str,
        *,
        server_names: Sequence[str] | None = None,
        lifetime_seconds: float | None = None,
        new_key: bool = False,
    ) -> Issued:
        """Replace the certificate of a server, user, role or job; the key stays unless `new_key`.

        The old certificate stays valid until its end: running clients notice nothing. While the key stays,
        one rename changes everything and a reload at any moment finds a matching pair. `server_names`
        replace those of a server. Raises InvalidInputError for names outside the authority's
        constraints, NotFoundError if there is none, ConflictError if it is revoked (a server gets a new
        key then, a client is issued anew with force).
        """
        check_wire_name(name)
        with self.alone() as now:
            if server_names and not self.places.is_server(name):
                raise InvalidInputError(f"{name!r} is not a server: it has no host names", name=name)
            return self.renew_held(name, now, server_names, lifetime_seconds, new_key=new_key)

    def renew_held(
        self,
        name: str,
        now: float,
        server_names: Sequence[str] | None = None,
        lifetime: float | None = None,
        *,
        new_key: bool = False,
    ) -> Issued:
        """Renew as `renew` does; the caller holds the folder's lock."""
        kind = Kind.SERVER if self.places.is_server(name) else Kind.ROLE
        certfile, keyfile = self.places.pair(name, kind)
        present = pem.load_certificate(certfile)
        entry = self.places.index.entries().get(present.serial_number)
        if kind is Kind.SERVER:
            server_names = server_names or profiles.names_of(present)
            remedy = f"jobwire certs renew {name} --new-key"
        elif entry is None:
            raise NotFoundError(
                f"{certfile} is not from this authority",
                hint=f"issue one: jobwire certs issue {name} --force",
            )
        else:
            kind = entry.kind
            remedy = f"jobwire certs issue {name} --force makes a new key and certificate"
        revoked = entry is not None and entry.revoked_at is not None
        if revoked and not (new_key and kind is Kind.SERVER):
            raise ConflictError(
                f"the certificate of {name!r} is revoked; its key is not certified again",
                hint=remedy,
                serial=present.serial_number,
            )
        lifetime = DEFAULT_LIFETIMES[kind] if lifetime is None else lifetime
        key = None if new_key else pem.load_key(keyfile)
        return self._write(name, kind, now, lifetime, server_names, key=key)

    def _write(
        self,
        name: str,
        kind: Kind,
        now: float,
        lifetime: float,
        server_names: Sequence[str] | None,
        *,
        key: ec.EllipticCurvePrivateKey | None = None,
        replace: bool = True,
    ) -> Issued:
        """Write the certificate with a new key, or for the given `key` the certificate alone.

        Then one rename changes everything: certificate and key never disagree, whatever crashes. Raises
        InvalidInputError for names outside the authority's constraints, and unless `replace` ConflictError
        where a file stands: the file system has the last word, also about links that lead nowhere.
        """
        signer = pem.load_signer(self.places)
        hosts = None if server_names is None else names.parse_server_names(server_names)
        if hosts and (refused := names.refused(hosts, profiles.permitted_by(signer.certificate))):
            raise InvalidInputError(
                f"this authority may not certify {', '.join(refused)}: it is confined to the names given at "
                "its creation",
                hint="move to an authority that may: jobwire certs rollover begin --permit NAME",
                refused=refused,
            )
        used = key or profiles.new_key()
        certificate = profiles.leaf(
            used.public_key(),
            name=BROKER_COMMON_NAME if name == SERVER_NAME else name,
            kind=kind,
            validity=profiles.within(profiles.period(now, lifetime, self._backdate), signer, now),
            signer=signer,
            names=hosts,
        )
        certfile, keyfile = self.places.pair(name, kind)
        files.make_directory(certfile.parent)
        record(self.places, certificate, name, signer, kind)
        written = [] if key else [(keyfile, pem.dump_key(used))]
        written.append((certfile, pem.dump([certificate])))
        if replace:
            change_durably(replace=written, files=files.FILES)
        else:
            try:
                create_durably(written, files=files.FILES)
            except FileExistsError as error:
                raise _exists(Path(str(error.filename)), name) from None
        end = certificate.not_valid_after_utc.timestamp()
        return Issued(name, certfile, keyfile, certificate.serial_number, end)

    def revoke(
        self, name_or_serial: str | int, *, reason: RevocationReason = RevocationReason.UNSPECIFIED
    ) -> list[int]:
        """Revoke all valid certificates of a name, or the one of a serial; return the serials.

        Brokers see it when they load `crl.pem` anew. Raises NotFoundError for what was never issued,
        ConflictError if nothing valid is left of it.
        """
        with self.alone() as now:
            revoked = revocation.revoke(self.places, name_or_serial, now=now, reason=reason)
        return [entry.serial for entry in revoked]

    def refresh_crl(self, *, lifetime_seconds: float | None = None) -> float:
        """Sign the revocation lists anew and return the earliest nextUpdate (epoch seconds).

        By default a list lasts as long as its authority: brokers refuse everyone once it has run out.
        """
        with self.alone() as now:
            return revocation.write_lists(self.places, now=now, lifetime_seconds=lifetime_seconds)

    def prune(self) -> list[str]:
        """Remove expired job certificates, crash leftovers and old index entries; return the job ids."""
        gone = []
        with self.alone() as now:
            for folder in (self.directory, self.places.clients, self.places.servers):
                with suppress(OSError):
                    remove_temporaries(folder, files=files.FILES)
            for path in inspection.certificates_in(self.places.clients):
                item = inspection.facts(path, pem.load_certificate(path), now=now)
                if item.kind == Kind.JOB and item.not_after < now:
                    # The key first: a certificate without its key opens nothing.
                    remove_durably([path.with_suffix(".key"), path], files=files.FILES)
                    gone.append(path.stem)
            revocation.forget_expired(self.places, now=now)
        return gone

    def show(self) -> list[CertificateFacts]:
        """Return the facts of the trusted authorities, the servers and every client. Takes no lock."""
        return inspection.show_all(self.places, now=self._clock.now())

    def inspect(self, certfile: Path) -> CertificateFacts:
        """Return the facts of any certificate file; `revoked` is this authority's word."""
        certificate, revoked = pem.load_certificate(certfile), inspection.revoked_serials(self.places)
        return inspection.facts(certfile, certificate, now=self._clock.now(), revoked=revoked)

    def check(self, *, warn_seconds: float = WARN_WITHIN) -> list[Finding]:
        """Return what is wrong or will be within `warn_seconds`, the worst first; empty: all is well.

        Expiring certificates and lists, key files that others may read, a clock outside validity, pairs
        that do not match, a revocation that has not reached the list, a rollover under way. Reads only.
        """
        return inspection.Checkup(self.places, now=self._clock.now(), warn_seconds=warn_seconds).findings()


def _exists(path: Path, name: str) -> ConflictError:
    return ConflictError(
        f"{path} exists already",
        hint=f"renew it: jobwire certs renew {name}; or replace it and its key with --force",
        path=str(path),
    )


def new_signer(server_names: Sequence[str], permit: Sequence[str], validity: profiles.Period) -> Signer:
    """Return a fresh authority that may certify `server_names`, loopback and `permit`; nothing is written."""
    permitted = names.parse_permitted(names.parse_server_names(server_names), permit)
    key = profiles.new_key()
    return Signer(profiles.authority(key, label=token_hex(4), permitted=permitted, validity=validity), key)


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
    places.index.add(entry)


def _free_name(directory: Path) -> Path:
    number = 1
    while (old := directory.with_name(f"{directory.name}.replaced-{number}")).exists():
        number += 1
    return old
