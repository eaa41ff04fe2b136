"""`jobwire broker check DIR`: is this folder fit to be deployed? Looked at, and tried."""

import ssl
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jobwire.broker.acl import AccessList
from jobwire.broker.configuration import Files, current_user
from jobwire.broker.mosquitto import Mosquitto, find_mosquitto, require_writable
from jobwire.broker.passwd import MACHINE_ITERATIONS, PasswordFile
from jobwire.broker.probe import (
    ConnectionClosedError,
    ConnectRefusedError,
    RawClient,
    client_context,
)
from jobwire.broker.trial import trial_configuration
from jobwire.certs import CertificateAuthority, Finding, Level
from jobwire.core.errors import JobwireError

HOST = "127.0.0.1"
_SECONDS = 5.0
_DEMANDED = {
    "allow_anonymous": "false",
    "tls_version": "tlsv1.3",
    "set_tcp_nodelay": "true",
    "persistence": "true",
    "use_identity_as_username": "true",
    "use_username_as_clientid": "true",
    "require_certificate": "true",
}


def check_deployment(directory: Path, *, warn_seconds: float) -> list[Finding]:
    """Return what is wrong with a rendered folder, the worst first; empty if it is fit.

    Starts Mosquitto on free loopback ports with the folder's files for some seconds. `warn_seconds` is how
    long before an expiry the warning begins. Raises nothing for what it finds.
    """
    files = Files.of_deployment(directory)
    found: list[Finding] = []
    for part in (_permissions, _accounts, _settings, _storage):
        found.extend(_guarded(lambda part=part: part(files)))  # type: ignore[misc]  # part is bound at once
    found.extend(_certificates(files, warn_seconds))
    if not any(finding.level is Level.ERROR for finding in found):
        found.extend(_guarded(lambda: _trial(files)))
    order = list(Level)
    return sorted(found, key=lambda finding: order.index(finding.level))


def _guarded(part: Callable[[], Iterator[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(part())
    except JobwireError as error:
        subject = Path(str(error.facts.get("path", "broker"))).name
        found.append(Finding(Level.ERROR, subject, error.message, error.hint))
    return found


def _permissions(files: Files) -> Iterator[Finding]:
    for path in (files.passwd, files.server_key, files.acl, files.configuration):
        if not path.exists():
            yield Finding(Level.ERROR, path.name, f"{path} is missing", "jobwire broker render --force")
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077 and path in {files.passwd, files.server_key}:
            yield Finding(
                Level.ERROR, path.name, f"readable by others (mode {mode:04o})", f"chmod 600 {path}"
            )
        elif mode & 0o022:
            yield Finding(
                Level.ERROR, path.name, f"writable by others (mode {mode:04o})", f"chmod go-w {path}"
            )


def _accounts(files: Files) -> Iterator[Finding]:
    users = PasswordFile.load(files.passwd)
    access = AccessList.load(files.acl)
    for name in users.names:
        entry = users.entry(name)
        if entry is not None and entry.iterations < MACHINE_ITERATIONS:
            yield Finding(
                Level.WARNING,
                "passwd",
                f"the hash of {name} has only {entry.iterations} iterations",
                f"jobwire broker passwd add {name} --replace",
            )
        if name not in access.users:
            yield Finding(
                Level.NOTE, "acl", f"no rights for user {name}", f"add `user {name}` and topics to the acl"
            )
    if access.anonymous:
        line = access.anonymous[0].line
        yield Finding(
            Level.ERROR,
            "acl",
            f"line {line} gives rights to anonymous clients",
            "move it below a `user` line",
        )


def _settings(files: Files) -> Iterator[Finding]:
    present: dict[str, set[str]] = {}
    for line in files.configuration.read_text(encoding="utf-8").splitlines():
        name, _, value = line.strip().partition(" ")
        if name and not name.startswith("#"):
            present.setdefault(name, set()).add(value.strip())
    for name, value in _DEMANDED.items():
        if present.get(name) != {value}:
            said = ", ".join(sorted(present.get(name, ()))) or "nothing"
            yield Finding(Level.ERROR, "mosquitto.conf", f"{name} says {said}", f"set `{name} {value}`")
    if present.get("per_listener_settings", {"false"}) != {"false"}:
        yield Finding(
            Level.ERROR,
            "mosquitto.conf",
            "per_listener_settings is on",
            "remove it: it breaks the queueing for absent clients",
        )


def _storage(files: Files) -> Iterator[Finding]:
    require_writable(files.data)
    yield from ()


def _certificates(files: Files, warn_seconds: float) -> list[Finding]:
    # The authority's own key and index do not belong on the broker's host, so their absence is no finding.
    absent = {"ca.key", "index.ndjson"}
    found = CertificateAuthority(files.ca.parent).check(warn_seconds=warn_seconds)
    return [finding for finding in found if finding.subject not in absent]


def _trial(files: Files) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory(prefix="jobwire-check-") as folder, _log(Path(folder)) as log:
        trial = trial_configuration(files, Path(folder), user=current_user())
        broker = Mosquitto(trial.path, host=HOST, ports=(trial.port, trial.mtls_port))
        try:
            broker.start(log=log.fileno())
        except JobwireError as error:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-1:] or [error.message]
            yield Finding(
                Level.ERROR, "mosquitto", f"it does not start: {said[0]}", f"{find_mosquitto()} -v -c ..."
            )
            return
        try:
            yield from _try_connections(files, trial.port, trial.mtls_port)
        finally:
            broker.stop()


def _log(folder: Path) -> "tempfile._TemporaryFileWrapper[bytes]":
    return tempfile.NamedTemporaryFile(dir=folder)


def _try_connections(files: Files, port: int, mtls_port: int) -> Iterator[Finding]:
    wrong = {"username": "hermes", "password": "wrong"}
    attempts: tuple[tuple[str, int, dict[str, str], bool], ...] = (
        ("an anonymous client", port, {}, False),
        ("a wrong password", port, wrong, False),
        ("TLS 1.2", port, {}, True),
        ("TLS 1.2 with certificates", mtls_port, {}, True),
        ("a client without a certificate", mtls_port, wrong, False),
    )
    for what, where, credentials, tls12 in attempts:
        context = client_context(files.ca, tls12=tls12, check_host_name=False)
        if _let_in(where, context, credentials):
            yield Finding(Level.ERROR, "mosquitto", f"{what} is let in", "jobwire broker render --force")
    try:
        RawClient(
            HOST, port, client_context(files.ca, check_host_name=False), deadline_seconds=_SECONDS
        ).drop()
    except (ConnectionClosedError, OSError) as error:
        yield Finding(
            Level.ERROR, "server.pem", f"no TLS 1.3 connection comes about: {error}", "jobwire certs check"
        )


def _let_in(port: int, context: ssl.SSLContext, credentials: dict[str, str]) -> bool:
    try:
        with RawClient(HOST, port, context, deadline_seconds=_SECONDS) as client:
            client.connect(
                "jobwire-check", username=credentials.get("username"), password=credentials.get("password")
            )
    except (ConnectRefusedError, ConnectionClosedError, OSError):
        return False
    return True
