"""What `jobwire registry ticket` does: all that a worker on another host needs, in one secret file."""

import argparse
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.core.boundary import missing_library
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.lease import LeaseGrant
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings, is_loopback
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.registry.actions import broker_pair, say, warn
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import check_target
from jobwire.storage.settings_file import mtls_port
from jobwire.transport import load_settings

if TYPE_CHECKING:
    from jobwire.certs.authority import CertificateAuthority
    from jobwire.certs.values import Issued

_ACCOUNT = frozenset(
    {"MQTT_USERNAME", "MQTT_PASSWORD", "MQTT_PASSWORD_FILE", "MQTT_CERTFILE", "MQTT_KEYFILE"}
)
_HOUR = 3600.0


def ticket(args: argparse.Namespace) -> int:
    """Write the ticket of a job's present attempt; a pending job is claimed for its holder."""
    home = Path(args.home)
    store = RecordStore(home)
    overrides = dict(broker_pair(pair) for pair in args.broker)
    settings = load_settings(
        home=home,
        role=Role.WORKER,
        command_line=overrides,
        record=store.get(args.job).broker,
        environ=_without_our_account(os.environ),
    )
    if args.out != "-":
        check_target(args.out, "ticket")
    record = _claimed(store, args)
    broker = _certificate(home, record, settings, overrides, args) if args.certificate else _account(settings)
    if not args.certificate and settings.username is None and settings.certfile is None:
        warn(f"the ticket carries no account: use --certificate, --broker, or [roles.{Role.WORKER}]")
    if is_loopback(settings.host):
        warn(f"the ticket names {settings.host}: on another host it needs --broker broker=NAME")
    payload = encode_ticket(ticket_for(record, broker=broker, topic_root=settings.topic_root))
    if args.out == "-":
        print_secret(payload)
        return ExitCode.OK
    replace_durably(args.out, payload, files=SystemFiles())
    body = {"job_id": record.job_id, "attempt": record.attempt, "out": args.out}
    say(args, body, f"ticket of job {record.job_id}, attempt {record.attempt}, in {args.out}")
    return ExitCode.OK


def _without_our_account(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without an account in it that is not a worker's.

    Where it names the registry's own, as a service's environment does, a ticket would hand that out.
    """
    if environ.get("MQTT_USERNAME") == Role.WORKER:
        return dict(environ)
    return {name: value for name, value in environ.items() if name not in _ACCOUNT}


def _claimed(store: RecordStore, args: argparse.Namespace) -> JobRecord:
    """Return the record; a pending job is claimed, or somebody else would pick it under the same key."""
    record = store.repair(args.job)
    if record.status is Status.RUNNING:
        return record
    grant = LeaseGrant(args.owner or f"ticket-{record.job_id}", args.lease)
    return JobQueue(store, warn=warn).claim(args.job, grant, cause=f"ticket written for {grant.owner}")


def _account(settings: BrokerSettings) -> dict[str, str | int]:
    """Return the settings with a role account's password inside: the ticket is a secret anyway."""
    broker = _place(settings)
    if settings.username is not None:
        broker["username"] = settings.username
    if settings.password is not None:
        broker["password"] = settings.password.reveal()
    if settings.certfile is not None and settings.keyfile is not None:
        broker["certfile_pem"] = _pem(settings.certfile)
        broker["keyfile_pem"] = _pem(settings.keyfile)
    return broker


def _certificate(
    home: Path,
    record: JobRecord,
    settings: BrokerSettings,
    overrides: dict[str, str | int],
    args: argparse.Namespace,
) -> dict[str, str | int]:
    """Return the settings with a new certificate of the job's own inside."""
    # A new key for every ticket: the job may have been claimed again since the last one was written.
    lifetime = int(args.certificate_hours * _HOUR)
    return certified_broker(
        home,
        settings,
        keep_port="port" in overrides,
        issue=lambda authority: authority.issue_job(record.job_id, lifetime_seconds=lifetime, force=True),
    )


def certified_broker(
    home: Path,
    settings: BrokerSettings,
    *,
    keep_port: bool,
    issue: "Callable[[CertificateAuthority], Issued]",
) -> dict[str, str | int]:
    """Return the settings for a ticket with the certificate inside that `issue` makes.

    Raises ConfigError where this home has no authority.
    """
    try:
        from jobwire.certs.authority import CertificateAuthority  # noqa: PLC0415 - brings cryptography
    except ModuleNotFoundError as error:
        raise missing_library(error, "broker") from error
    authority = CertificateAuthority(HomePaths(home).certs)
    if not authority.exists():
        raise ConfigError(
            "there is no certificate authority here",
            hint="`jobwire certs init` makes one; a job's ticket can do without --certificate",
        )
    issued = issue(authority)
    broker = _place(settings)
    port = mtls_port(home)
    if not keep_port and port is not None:
        broker["port"] = port
    return {
        **broker,
        "certfile_pem": issued.certfile.read_text(encoding="ascii"),
        "keyfile_pem": issued.keyfile.read_text(encoding="ascii"),
    }


def _place(settings: BrokerSettings) -> dict[str, str | int]:
    broker: dict[str, str | int] = {
        "broker": settings.host,
        "port": settings.port,
        "tls": "on" if settings.tls else "off",
        "protocol": settings.protocol,
    }
    if settings.ca_certs is not None:
        broker["ca_certs_pem"] = _pem(settings.ca_certs)
    return broker


def _pem(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", path=path) from error


def print_secret(payload: bytes) -> None:
    """Print the ticket; a file that the shell opened for us is closed to others first."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    if stat.S_ISREG(mode):
        os.fchmod(sys.stdout.fileno(), 0o600)
    elif sys.stdout.isatty():
        raise InvalidInputError(
            "a ticket is a secret and is not printed on a terminal", hint="--out FILE, or redirect it"
        )
    sys.stdout.buffer.write(payload)
    sys.stdout.buffer.flush()
