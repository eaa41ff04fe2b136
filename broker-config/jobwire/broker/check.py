"""`jobwire broker check DIR`: is this folder fit to be deployed? Looked at, and tried."""

import enum
import ssl
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jobwire.broker.acl import AccessList
from jobwire.broker.configuration import Files, current_user
from jobwire.broker.files import read_text
from jobwire.broker.home import concerns_broker, rendered_root
from jobwire.broker.mosquitto import Mosquitto, find_mosquitto, require_writable
from jobwire.broker.passwd import PasswordFile
from jobwire.broker.probe import (
    ConnectionClosedError,
    ConnectRefusedError,
    RawClient,
    client_context,
)
from jobwire.broker.rights_check import examine_accounts, examine_rights
from jobwire.broker.settings_check import examine_settings
from jobwire.broker.trial import trial_configuration
from jobwire.certs import CertificateAuthority, Finding, Level
from jobwire.core.errors import JobwireError, NotFoundError

HOST = "127.0.0.1"
_SECONDS = 5.0


def check_deployment(directory: Path, *, warn_seconds: float) -> list[Finding]:
    """Return what is wrong with a rendered folder, the worst first; empty if it is fit.

    Starts Mosquitto on free loopback ports with the folder's files for some seconds. `warn_seconds` is how
    long before an expiry the warning begins. Raises NotFoundError where there is no such folder, and nothing
    for what it finds.
    """
    if not directory.is_dir():
        raise NotFoundError(f"no folder {directory}", hint=f"jobwire broker render --out {directory}")
    files = Files.of_folder(directory)
    found = list(_missing(files))
    if found:
        # What the others would say follows from this.
        return found
    for part in (_permissions, _access, _settings, _storage):
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


def _missing(files: Files) -> Iterator[Finding]:
    # The pid file is the running broker's.
    for path in files[: files.index(files.pid)]:
        if not path.exists():
            yield Finding(Level.ERROR, path.name, f"{path} is missing", "jobwire broker render --force")


def _permissions(files: Files) -> Iterator[Finding]:
    # The server's key is looked at with the other certificates.
    for path in (files.passwd, files.acl, files.configuration, files.data, files.ca.parent, files.acl.parent):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o022:
            yield Finding(
                Level.ERROR, path.name, f"writable by others (mode {mode:04o})", f"chmod go-w {path}"
            )
        elif mode & 0o077 and path == files.passwd:
            yield Finding(
                Level.ERROR, path.name, f"readable by others (mode {mode:04o})", f"chmod 600 {path}"
            )
        elif mode & 0o077 and path == files.data:
            yield Finding(
                Level.WARNING,
                path.name,
                f"others may read what is queued (mode {mode:04o})",
                f"chmod 700 {path}",
            )


def _access(files: Files) -> Iterator[Finding]:
    users, access = PasswordFile.load(files.passwd), AccessList.load(files.acl)
    yield from examine_accounts(users, access)
    root = rendered_root(read_text(files.acl, "access list"))
    if root is None:
        yield Finding(
            Level.NOTE,
            "acl",
            "the rights of the roles were not examined: the line that names the topic root is gone",
            "keep the line `# Rendered by jobwire for the topic root ...`",
        )
    else:
        yield from examine_rights(users, access, root)


def _settings(files: Files) -> Iterator[Finding]:
    yield from examine_settings(
        read_text(files.configuration, "configuration", hint="jobwire broker render --force")
    )


def _storage(files: Files) -> Iterator[Finding]:
    require_writable(files.data)
    yield from ()


def _certificates(files: Files, warn_seconds: float) -> list[Finding]:
    # The authority's own key and index do not belong on the broker's host, so their absence is no finding;
    # in a home, where single clients' certificates lie beside, those do not make a broker unfit.
    absent = {"ca.key", "index.ndjson"}
    found = CertificateAuthority(files.ca.parent).check(warn_seconds=warn_seconds)
    return [
        finding
        for finding in found
        if finding.subject not in absent and (finding.level is not Level.ERROR or concerns_broker(finding))
    ]


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
    context = client_context(files.ca, check_host_name=False)
    happened = {
        "an anonymous client is let in": _answer(port, context, None) is Answer.LET_IN,
        "a wrong password is let in": _answer(port, context, "hermes") is Answer.LET_IN,
        "TLS 1.2 is spoken": _speaks_tls12(port, files.ca),
        "TLS 1.2 is spoken to certificates": _speaks_tls12(mtls_port, files.ca),
        "a client without a certificate is heard": _answer(mtls_port, context, "hermes") is not Answer.NONE,
    }
    for what in (what for what, happens in happened.items() if happens):
        yield Finding(Level.ERROR, "mosquitto", what, "jobwire broker render --force")
    try:
        RawClient(HOST, port, context, deadline_seconds=_SECONDS).drop()
    except (ConnectionClosedError, OSError) as error:
        yield Finding(
            Level.ERROR, "server.pem", f"no TLS 1.3 connection comes about: {error}", "jobwire certs check"
        )


class Answer(enum.Enum):
    """How a broker answers CONNECT."""

    NONE = "not at all"
    REFUSED = "refused"
    LET_IN = "let in"


def _answer(port: int, context: ssl.SSLContext, username: str | None) -> Answer:
    password = None if username is None else "wrong"
    try:
        with RawClient(HOST, port, context, deadline_seconds=_SECONDS) as client:
            client.connect("jobwire-check", username=username, password=password)
    except ConnectRefusedError:
        return Answer.REFUSED
    except (ConnectionClosedError, OSError):
        return Answer.NONE
    return Answer.LET_IN


def _speaks_tls12(port: int, ca: Path) -> bool:
    """Tell whether a handshake of version 1.2 is refused for anything but its version, or not at all.

    A listener that wants a certificate ends the handshake in any version: only the alert tells why.
    """
    context = client_context(ca, tls12=True, check_host_name=False)
    try:
        RawClient(HOST, port, context, deadline_seconds=_SECONDS).drop()
    except ConnectionClosedError as error:
        alert = error.__cause__
        return not (isinstance(alert, ssl.SSLError) and "PROTOCOL_VERSION" in (alert.reason or ""))
    return True
