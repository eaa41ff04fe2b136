"""`jobwire broker check DIR`: is this folder ready to deploy? Looked at, and tried."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jobwire.broker.address import free_port
from jobwire.broker.configuration import Listening, current_user, render_configuration
from jobwire.broker.difference import differences, settings
from jobwire.broker.examinations import examine_certificate_port, examine_strangers, examine_way
from jobwire.broker.files import read_text, require_writable
from jobwire.broker.home import BrokerFiles, concerns_broker
from jobwire.broker.mosquitto import Mosquitto, find_mosquitto
from jobwire.broker.rights_check import examine_access
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Finding, Level
from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.core.settings import BrokerSettings
from jobwire.storage.named_files import exposure

_HOST = "127.0.0.1"


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
    for part in (_permissions, _configuration, examine_access):
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
    require_writable(files.data, "persistence folder")


def _configuration(files: BrokerFiles) -> Iterator[Finding]:
    text = read_text(files.configuration, "configuration", hint="jobwire broker render --force")
    return differences(text, files)


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
    """Run Mosquitto on the folder's settings, accounts and rights, as a server for this host, and try it."""
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="jobwire-check-") as name, tempfile.TemporaryFile() as log:
        own = BrokerFiles(Path(name), Path(name) / "certs")
        own.acl, own.passwd = files.acl.absolute(), files.passwd.absolute()
        own.data, own.pid = own.broker, own.broker / "broker.pid"
        CertificateAuthority(own.certs).init()
        lines = settings(read_text(files.configuration, "configuration"))
        own.configuration.write_text(_tried(lines, own, ports), encoding="utf-8")
        broker = Mosquitto(own.configuration, host=_HOST, ports=ports, log=log.fileno())
        try:
            broker.start()
            listener = max(number for number, line in enumerate(lines) if line.startswith("listener "))
            last = listener < lines.index("require_certificate true")
            port, mtls_port = ports if last else reversed(ports)
            tried = BrokerSettings(host=_HOST, port=port, ca_certs=str(own.ca), protocol="5")
            found = [*examine_way(tried, SystemClock()), *examine_strangers(tried)]
            found.append(examine_certificate_port(tried, mtls_port))
            yield from (item._replace(level=Level.ERROR) for item in found if item.level is not Level.WELL)
        except JobwireError as error:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-1:] or [error.message]
            hint = f"{find_mosquitto()} -v -c ..."
            yield Finding(Level.ERROR, "mosquitto", f"it does not start: {said[0]}", hint)
        finally:
            broker.stop()


def _tried(present: Sequence[str], own: BrokerFiles, ports: tuple[int, int]) -> str:
    """Return the configuration on other ports and for other places: nothing that is deployed is touched."""
    fresh = settings(render_configuration(own, Listening(_HOST, *ports), user=current_user()))
    listeners = (line for line in fresh if line.startswith("listener "))
    # Lines with places, whatever host the folder is rendered for.
    named = {line.partition(" ")[0]: line for line in fresh}
    places = {name: line for name, line in named.items() if "/" in line or name == "user"}
    names = (line.partition(" ")[0] for line in present)
    lines = zip(names, present, strict=True)
    return "".join(
        f"{next(listeners) if name == 'listener' else places.get(name, line)}\n" for name, line in lines
    )
