"""`jobwire doctor`: says in plain words what works and what does not, from the disk to each role's rights."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from jobwire.broker.access_table import ALLOWED, Action, Identity
from jobwire.broker.examinations import (
    examine_certificate_port,
    examine_queueing,
    examine_role,
    examine_strangers,
    examine_way,
    well,
)
from jobwire.broker.files import require_writable
from jobwire.broker.home import ROLES, BrokerPaths
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Finding, Level
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import exposure
from jobwire.storage.running_parts import READY, running_parts
from jobwire.storage.settings_file import mtls_port
from jobwire.transport import load_settings

# Files written by a clock ahead of ours: beyond this somebody's clock is wrong.
_SKEW_SECONDS = 30.0


class Doctor:
    """Examines one home directory and the broker that its settings name. Blocking."""

    def __init__(self, *, home: Path, environ: Mapping[str, str], clock: Clock) -> None:
        self._home = home
        self._environ = environ
        self._clock = clock
        self._settings: dict[str, BrokerSettings] = {}

    def examine(self) -> Iterator[Finding]:
        """Yield one finding after the other; stops early where the rest depends on what is wrong."""
        for folder in (self._home, *(self._home / name for name in ("jobs", "passwords", "certs"))):
            if folder.is_dir():
                yield _folder(folder)
        yield from _host(self._home)
        yield from self._load()
        if not self._settings:
            return
        first = next(iter(self._settings.values()))
        way = list(examine_way(first, self._clock))
        yield from way
        yield self._clock_skew()
        yield _persistence(BrokerPaths(self._home).data)
        if any(finding.level is Level.ERROR for finding in way):
            yield Finding(Level.NOTE, "roles", "not examined: the broker cannot be reached as it should")
            return
        yield from examine_strangers(first)
        yield from self._certificate_port(first)
        unwell = set()
        for role, settings in self._settings.items():
            for finding in examine_role(role, settings, self._observer(settings)):
                if finding.level is Level.ERROR:
                    unwell.add(role)
                yield finding
        yield self._queueing(unwell)

    def _load(self) -> Iterator[Finding]:
        # A wrong line of the file or the environment is met by every role, and said once.
        unusable: dict[Finding, list[str]] = {}
        for role in ROLES:
            try:
                settings = load_settings(
                    home=self._home, role=role, command_line={}, record={}, environ=self._environ
                )
                if settings.username or settings.certfile:
                    # Where the environment names one user it is that user for every role: examined once.
                    self._settings.setdefault(self._identity(settings) or role, settings)
            except JobwireError as error:
                unusable.setdefault(Finding.of("settings", error), []).append(role)
        for finding, roles in unusable.items():
            yield finding._replace(subject=f"settings of {', '.join(roles)}")
        if self._settings:
            yield well("settings", f"roles: {', '.join(self._settings)}")
        elif not unusable:
            hint = "add [roles.*] to jobwire.toml, or MQTT_USERNAME"
            yield Finding(Level.ERROR, "settings", "no role is configured", hint)

    def _identity(self, settings: BrokerSettings) -> str | None:
        """Return whom the broker will see: the name in a certificate counts before the user name."""
        if settings.certfile is None:
            return settings.username
        return CertificateAuthority(HomePaths(self._home).certs).inspect(Path(settings.certfile)).name

    def _observer(self, examined: BrokerSettings) -> BrokerSettings | None:
        observer = self._settings.get(Role.REGISTRY) or self._settings.get(Role.HERMES)
        # A certificate has one session: as its own observer it would end itself.
        return None if observer is examined and examined.certfile else observer

    def _certificate_port(self, settings: BrokerSettings) -> Iterator[Finding]:
        # The environment may name another broker than the file does.
        elsewhere = self._environ.get("MQTT_BROKER") or self._environ.get("MQTT_PORT")
        port = None if elsewhere or not settings.tls else mtls_port(self._home)
        if port is not None and port != settings.port:
            yield examine_certificate_port(settings, port)

    def _clock_skew(self) -> Finding:
        ahead = _newest(self._home) - self._clock.now()
        if ahead <= _SKEW_SECONDS:
            return well("clock", "no file here is from the future")
        text = f"files here are {ahead:.0f} s from the future: this clock was set back, or another is ahead"
        return Finding(Level.WARNING, "clock", text, "timedatectl status, on both hosts")

    def _queueing(self, unwell: Collection[str]) -> Finding:
        # One that fails has been said to: its failure says nothing about queues.
        known = [role for role in Role if role in self._settings and role not in unwell]
        reader, writer = (
            next((role for role in known if action in ALLOWED[Identity(role.value)]), None)
            for action in (Action.SUBSCRIBE_EVENTS, Action.PUBLISH_OTHERS)
        )
        if reader is None or writer is None or self._settings[reader].certfile:
            return Finding(
                Level.NOTE, "queueing", "needs a role that reads and one that writes, with passwords"
            )
        return examine_queueing(self._settings[reader], self._settings[writer])


def verdict(findings: list[Finding]) -> ExitCode:
    """Return OK if nothing fails, else the code of the first thing that does."""
    return next((item.exit_code for item in findings if item.level is Level.ERROR), ExitCode.OK)


def _host(home: Path) -> Iterator[Finding]:
    """Say what `jobwire up` runs here, and where."""
    for part in running_parts(home):
        if part.state == READY:
            yield well(part.name, f"runs at {part.address}" if part.address else "runs")
        else:
            yield Finding(Level.WARNING, part.name, f"is {part.state}", f"see {part.log}")


def _folder(folder: Path) -> Finding:
    if error := exposure(folder):
        return Finding.of(folder.name, error)
    try:
        require_writable(folder, "folder")
    except JobwireError as error:
        return Finding.of(folder.name, error)._replace(exit_code=ExitCode.INTERNAL)
    return well(folder.name, f"{folder} is private and writable")


def _persistence(data: Path) -> Finding:
    if not data.is_dir():
        text = "the broker's files are on another host: jobwire broker check, there"
        return Finding(Level.NOTE, "persistence", text)
    try:
        require_writable(data, "persistence folder")
    except JobwireError as error:
        hint = "Mosquitto would keep nothing, silently: make it writable for the broker's user"
        return Finding(Level.WARNING, "persistence", error.message, hint)
    return well("persistence", f"{data} is writable")


def _newest(home: Path) -> float:
    paths = HomePaths(home)
    places = (home, Path(paths.jobs_path()), paths.certs, paths.journal)
    newest = 0.0
    for path in (path for place in places if place.is_dir() for path in place.iterdir()):
        with suppress(FileNotFoundError):  # a temporary file that has its name by now
            newest = max(newest, path.lstat().st_mtime)
    return newest
