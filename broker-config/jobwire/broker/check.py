"""`jobwire broker check DIR`: is this folder ready to deploy? Looked at, and tried."""

import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jobwire.broker.address import free_port
from jobwire.broker.configuration import Listening, current_user, render_configuration
from jobwire.broker.difference import differences
from jobwire.broker.files import read_text, require_writable
from jobwire.broker.home import BrokerFiles, concerns_broker
from jobwire.broker.mosquitto import Mosquitto, find_mosquitto
from jobwire.broker.rights_check import examine_access
from jobwire.certs import CertificateAuthority, Finding, Level
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.storage.named_files import exposure

_HOST = "127.0.0.1"
_SECONDS = 5.0
# CONNECT of MQTT 3.1.1 with a clean session: without a name, and as hermes with the password "wrong".
_STRANGERS = {
    "an anonymous client": b"\x10\x0c\0\4MQTT\4\x02\0\x05\0\0",
    "a wrong password": b"\x10\x1b\0\4MQTT\4\xc2\0\x05\0\0\0\6hermes\0\5wrong",
}
# What is the folder's own in a trial, whatever place on whatever host it is rendered for.
_PLACES = {
    "password_file",
    "acl_file",
    "cafile",
    "certfile",
    "keyfile",
    "crlfile",
    "persistence_location",
    "pid_file",
    "user",
}


def check_deployment(directory: Path, *, warn_seconds: float) -> list[Finding]:
    """Return what is wrong with a rendered folder, the worst first; empty if it is fit.

    Starts Mosquitto on free loopback ports with the folder's files for some seconds. `warn_seconds` is how
    long before an expiry the warning begins. Raises NotFoundError where there is no such folder, and nothing
    for what it finds.
    """
    if not directory.is_dir():
        raise NotFoundError(f"no folder {directory}", hint=f"jobwire broker render --out {directory}")
    files = BrokerFiles.of_folder(directory)
    if found := list(_missing(files)):
        # What the others would say follows from this.
        return found
    for part in (_permissions, _configuration, examine_access, _storage):
        found += _guarded(part, files)
    found += _certificates(files, warn_seconds)
    if not any(finding.level is Level.ERROR for finding in found):
        found += _guarded(_trial, files)
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


def _guarded(part: Callable[[BrokerFiles], Iterator[Finding]], files: BrokerFiles) -> list[Finding]:
    try:
        return list(part(files))
    except JobwireError as error:
        return [Finding.of(Path(str(error.facts.get("path", "broker"))).name, error)]


def _missing(files: BrokerFiles) -> Iterator[Finding]:
    certificates = (files.ca, files.crl, files.server_certificate, files.server_key)
    for path in (files.configuration, files.acl, files.passwd, files.data, *certificates):
        if not path.exists():
            yield Finding(Level.ERROR, path.name, f"{path} is missing", "jobwire broker render --force")


def _permissions(files: BrokerFiles) -> Iterator[Finding]:
    # The server's key is looked at with the other certificates.
    for path in (files.passwd, files.acl, files.configuration, files.data, files.certs, files.broker):
        if error := exposure(path, to_write=path != files.passwd):
            yield Finding.of(path.name, error)
    if (error := exposure(files.data)) and not exposure(files.data, to_write=True):
        yield Finding(Level.WARNING, "data", f"others may read what is queued ({error.message})", error.hint)


def _configuration(files: BrokerFiles) -> Iterator[Finding]:
    text = read_text(files.configuration, "configuration", hint="jobwire broker render --force")
    return differences(text, files)


def _storage(files: BrokerFiles) -> Iterator[Finding]:
    require_writable(files.data, "persistence folder")
    yield from ()


def _certificates(files: BrokerFiles, warn_seconds: float) -> list[Finding]:
    # The authority's own key and index do not belong on the broker's host, so their absence is no finding;
    # in a home, where single clients' certificates lie beside, those do not make a broker unfit.
    absent = {"ca.key", "index.ndjson"}
    return [
        finding
        for finding in CertificateAuthority(files.certs).check(warn_seconds=warn_seconds)
        if finding.subject not in absent and (finding.level is not Level.ERROR or concerns_broker(finding))
    ]


def _trial(files: BrokerFiles) -> Iterator[Finding]:
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="jobwire-check-") as name, tempfile.TemporaryFile() as log:
        configuration = Path(name) / "mosquitto.conf"
        configuration.write_text(_tried(files, Path(name), ports), encoding="utf-8")
        broker = Mosquitto(configuration, host=_HOST, ports=ports)
        try:
            broker.start(log=log.fileno())
            for port in ports:
                yield from _try_connections(port, files.ca)
        except JobwireError as error:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-1:] or [error.message]
            text, hint = f"it does not start: {said[0]}", f"{find_mosquitto()} -v -c ..."
            yield Finding(Level.ERROR, "mosquitto", text, hint)
        finally:
            broker.stop()


def _tried(files: BrokerFiles, folder: Path, ports: tuple[int, int]) -> str:
    """Return the folder's configuration on other ports, with its own files and without touching its data."""
    own = BrokerFiles(files.broker.absolute(), files.certs.absolute())
    own.data, own.pid = folder, folder / "broker.pid"
    fresh = render_configuration(own, Listening(_HOST, *ports), user=current_user()).splitlines()
    listeners = (line for line in fresh if line.startswith("listener "))
    places = {name: line for line in fresh if (name := line.partition(" ")[0]) in _PLACES}
    lines = []
    for line in read_text(files.configuration, "configuration").splitlines():
        name = line.strip().partition(" ")[0]
        lines.append(next(listeners) if name == "listener" else places.get(name, line))
    return "\n".join(lines) + "\n"


def _try_connections(port: int, ca: Path) -> Iterator[Finding]:
    answers = {who: _answer(port, ca, packet) for who, packet in _STRANGERS.items()}
    # The last byte of CONNACK; where it hung up instead there is none.
    found = [f"{who} is let in" for who, answer in answers.items() if answer[3:] == b"\0"]
    if _speaks_tls12(port, ca):
        found.append("TLS 1.2 is spoken")
    for text in found:
        yield Finding(Level.ERROR, "mosquitto", text, "jobwire broker render --force")
    try:
        _connect(port, ca).close()
    except OSError as error:
        text = f"no TLS 1.3 connection comes about: {error}"
        yield Finding(Level.ERROR, "server.pem", text, "jobwire certs check")


def _answer(port: int, ca: Path, connect: bytes) -> bytes:
    """Return the CONNACK, nothing where the broker hangs up instead."""
    try:
        with _connect(port, ca) as connection:
            connection.sendall(connect)
            return connection.makefile("rb").read(4)
    except OSError:
        return b""


def _speaks_tls12(port: int, ca: Path) -> bool:
    """Tell whether a handshake of version 1.2 is refused for anything but its version, or not at all.

    A listener that wants a certificate ends the handshake in any version: only the alert tells why.
    """
    try:
        _connect(port, ca, ssl.TLSVersion.TLSv1_2).close()
    except OSError as error:
        return not (isinstance(error, ssl.SSLError) and "PROTOCOL_VERSION" in (error.reason or ""))
    return True


def _connect(port: int, ca: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = context.minimum_version = version
    with socket.create_connection((_HOST, port), timeout=_SECONDS) as plain:
        return context.wrap_socket(plain)
