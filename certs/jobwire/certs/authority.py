"""The authority as one object over its folder: who may change it when, and what each method promises."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobwire.certs import files, inspection, issuing, names, pem, profiles, revocation, rollover
from jobwire.certs.checkup import Checkup
from jobwire.certs.issuing import CertificateRequest
from jobwire.certs.layout import Places
from jobwire.certs.values import (
    CA_LIFETIME,
    DEFAULT_SERVER_NAMES,
    JOB_LIFETIME,
    ROLE_LIFETIME,
    SERVER_LIFETIME,
    WARN_WITHIN,
    CertificateFacts,
    Finding,
    Issued,
    Kind,
    Phase,
    RevocationReason,
)
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import agent_identity, check_job_id, check_wire_name


class CertificateAuthority:
    """A private authority in one folder: `ca.pem`, `ca.key`, servers, clients, revocation list, index.

    Methods that write hold the folder's lock (another process: up to 10 s, then ConflictError), block on
    fsync, and leave either everything or nothing changed. Lifetimes and backdating are in seconds; a
    certificate is valid from 5 minutes before `clock.now() - backdate_seconds` until the lifetime after
    it, but never beyond its authority. All raise StorageError when the disk fails, NotFoundError without
    an authority, and ConfigError for key files that others may read or a clock outside the authority's
    validity.
    """

    def __init__(self, directory: Path, *, clock: Clock | None = None) -> None:
        self.directory = directory
        self.places = Places(directory)
        self._clock = clock or SystemClock()

    @contextmanager
    def _alone(self) -> Iterator[float]:
        """Hold the folder's lock; gives the time."""
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
        backdate_seconds: float = 0.0,
    ) -> Issued:
        """Create authority, server certificate and empty revocation list; return the server's.

        The authority is confined to loopback, `server_names` and the DNS subtrees and address ranges in
        `permit`. Raises ConflictError if the folder is in use and not `force`; with `force` the old
        folder is kept beside it.
        """
        now = self._clock.now()
        validity = profiles.period(now, lifetime_seconds, backdate_seconds)
        signer = issuing.new_authority(server_names, permit, validity)
        files.make_directory(self.directory.parent)
        with files.locked(self.directory.parent, clock=self._clock):
            return issuing.create(self.places, signer, server_names, now=now, force=force)

    def refuses(self, server_names: Sequence[str]) -> list[str]:
        """Return those of `server_names` that this authority may not certify; InvalidInputError for none."""
        permitted = profiles.permitted_by(pem.load_signer(self.places).certificate)
        return permitted.refuses(names.parse_server_names(server_names))

    def issue(
        self,
        name: str,
        *,
        lifetime_seconds: float = ROLE_LIFETIME,
        force: bool = False,
        backdate_seconds: float = 0.0,
    ) -> Issued:
        """Issue a client certificate for a user or role, with CN `name`, to `clients/<name>.pem`.

        Raises InvalidInputError for unusable names and for those of the form of a job id, ConflictError
        if it exists and not `force`.
        """
        names.check_name(name)
        with self._alone() as now:
            request = CertificateRequest(name, Kind.ROLE, now, lifetime_seconds, backdate_seconds)
            return issuing.issue(self.places, request, overwrite=force)

    def issue_job(
        self,
        job_id: str,
        *,
        lifetime_seconds: float = JOB_LIFETIME,
        force: bool = False,
        backdate_seconds: float = 0.0,
    ) -> Issued:
        """Issue the short-lived client certificate of a job: its CN is the job id itself."""
        check_job_id(job_id)
        with self._alone() as now:
            request = CertificateRequest(job_id, Kind.JOB, now, lifetime_seconds, backdate_seconds)
            return issuing.issue(self.places, request, overwrite=force)

    def issue_agent(
        self, agent: str, *, lifetime_seconds: float = ROLE_LIFETIME, force: bool = False
    ) -> Issued:
        """Issue the client certificate of an agent: its CN is `agent.NAME`, like no job's and no role's."""
        with self._alone() as now:
            request = CertificateRequest(agent_identity(agent), Kind.ROLE, now, lifetime_seconds)
            return issuing.issue(self.places, request, overwrite=force)

    def issue_server(
        self,
        name: str,
        server_names: Sequence[str],
        *,
        lifetime_seconds: float = SERVER_LIFETIME,
        force: bool = False,
        backdate_seconds: float = 0.0,
    ) -> Issued:
        """Issue the certificate of a server beside the broker, the page's say, to `servers/<name>.pem`.

        No broker takes it for a client's. Raises InvalidInputError for unusable names and for
        `server_names` outside the authority's constraints, ConflictError if it exists and not `force`,
        or if a client has the name.
        """
        names.check_name(name)
        with self._alone() as now:
            request = CertificateRequest(
                name, Kind.SERVER, now, lifetime_seconds, backdate_seconds, server_names
            )
            return issuing.issue(self.places, request, overwrite=force)

    def renew(
        self,
        name: str,
        *,
        server_names: Sequence[str] | None = None,
        lifetime_seconds: float | None = None,
        backdate_seconds: float = 0.0,
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
        with self._alone() as now:
            kind = Kind.SERVER if self.places.is_server(name) else Kind.ROLE
            if server_names and kind is not Kind.SERVER:
                raise InvalidInputError(f"{name!r} is not a server: it has no host names", name=name)
            request = CertificateRequest(name, kind, now, lifetime_seconds, backdate_seconds, server_names)
            return issuing.renew(self.places, request, new_key=new_key)

    def revoke(
        self, name_or_serial: str | int, *, reason: RevocationReason = RevocationReason.UNSPECIFIED
    ) -> list[int]:
        """Revoke all valid certificates of a name, or the one of a serial; return the serials.

        Brokers see it when they load `crl.pem` anew. Raises NotFoundError for what was never issued,
        ConflictError if nothing valid is left of it.
        """
        with self._alone() as now:
            revoked = revocation.revoke(self.places, name_or_serial, now=now, reason=reason)
        return [entry.serial for entry in revoked]

    def refresh_crl(self, *, lifetime_seconds: float | None = None) -> float:
        """Sign the revocation lists anew and return the earliest nextUpdate (epoch seconds).

        By default a list lasts as long as its authority: brokers refuse everyone once it has run out.
        """
        with self._alone() as now:
            return revocation.write_lists(self.places, now=now, lifetime_seconds=lifetime_seconds)

    def prune(self) -> list[str]:
        """Remove expired job certificates, crash leftovers and old index entries; return the job ids."""
        gone = []
        with self._alone() as now:
            for folder in (self.directory, self.places.clients, self.places.servers):
                files.sweep(folder)
            for path in inspection.certificates_in(self.places.clients):
                item = inspection.facts(path, pem.load_certificate(path), now=now)
                if item.kind == Kind.JOB and item.not_after < now:
                    # The key first: a certificate without its key opens nothing.
                    files.remove_files(path.with_suffix(".key"), path)
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
        return Checkup(self.places, now=self._clock.now(), warn_seconds=warn_seconds).findings()

    def rollover_phase(self) -> Phase:
        """Return where the rollover to a new authority stands."""
        return rollover.phase(self.places)

    def begin_rollover(self, *, permit: Sequence[str] = ()) -> None:
        """Make a new authority and trust it beside the old one, which goes on signing.

        Next: bring `ca.pem` and `crl.pem` to every broker and client. ConflictError if one is under way.
        """
        with self._alone() as now:
            rollover.begin(self.places, permit, now=now)

    def switch_rollover(self) -> list[str]:
        """Let the new authority sign; renew servers and clients from it and return their names."""
        with self._alone() as now:
            return rollover.switch(self.places, now=now)

    def finish_rollover(self, *, force: bool = False) -> None:
        """Trust the new authority alone; ConflictError while a name lives on the old one, unless `force`."""
        with self._alone() as now:
            rollover.finish(self.places, now=now, force=force)

    def cancel_rollover(self) -> None:
        """Take back a rollover that has begun and not switched."""
        with self._alone() as now:
            rollover.cancel(self.places, now=now)
