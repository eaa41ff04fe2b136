"""`jobwire doctor`: says in plain words what works and what does not, from the disk to each role's rights."""

import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from jobwire.broker.home import ROLES, BrokerPaths, mtls_port
from jobwire.broker.network_examination import examine_network
from jobwire.broker.reports import Report, State, ill, skipped, warning, well
from jobwire.broker.rights_examination import (
    EXPECTED,
    examine_certificate_port,
    examine_protocol,
    examine_queueing,
    examine_role,
    examine_storage,
    examine_strangers,
)
from jobwire.certs import CertificateAuthority
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
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

    def examine(self) -> Iterator[Report]:
        """Yield one report after the other; stops early where the rest depends on what is ill."""
        yield from self._directories()
        yield from self._load()
        if not self._settings:
            return
        first = next(iter(self._settings.values()))
        network = list(examine_network(first, self._clock))
        yield from network
        yield self._clock_skew()
        yield examine_storage(BrokerPaths(self._home).data)
        if any(report.state is State.ILL for report in network):
            yield skipped("roles", "not examined: the broker cannot be reached as it should")
            return
        yield from examine_strangers(first)
        yield examine_protocol(first)
        yield from self._certificate_port(first)
        unwell = set()
        for role, settings in self._settings.items():
            for report in examine_role(role, settings, self._observer(settings)):
                if report.state is State.ILL:
                    unwell.add(role)
                yield report
        yield self._queueing(unwell)

    def _directories(self) -> Iterator[Report]:
        if not self._home.is_dir():
            yield ill(
                "home", f"{self._home} does not exist", "jobwire broker up creates it", ExitCode.NOT_FOUND
            )
            return
        for folder in (self._home, self._home / "jobs", self._home / "passwords", self._home / "certs"):
            if folder.is_dir():
                yield _directory(folder)

    def _load(self) -> Iterator[Report]:
        # A wrong line of the file or the environment is met by every role, and said once.
        unusable: dict[Report, list[str]] = {}
        for role in ROLES:
            try:
                settings = load_settings(
                    home=self._home, role=role, command_line={}, record={}, environ=self._environ
                )
                if settings.username or settings.certfile:
                    # Where the environment names one user it is that user for every role: examined once.
                    self._settings.setdefault(self._identity(settings) or role, settings)
            except JobwireError as error:
                report = ill("settings", error.message, error.hint, error.exit_code)
                unusable.setdefault(report, []).append(role)
        for report, roles in unusable.items():
            yield report._replace(subject=f"settings of {', '.join(roles)}")
        if self._settings:
            yield well("settings", f"roles: {', '.join(self._settings)}")
        elif not unusable:
            yield ill("settings", "no role is configured", "add [roles.*] to jobwire.toml, or MQTT_USERNAME")

    def _identity(self, settings: BrokerSettings) -> str | None:
        """Return whom the broker will see: the name in a certificate counts before the user name."""
        if settings.certfile is None:
            return settings.username
        return CertificateAuthority(self._home / "certs").inspect(Path(settings.certfile)).name

    def _observer(self, examined: BrokerSettings) -> BrokerSettings | None:
        observer = self._settings.get(Role.REGISTRY) or self._settings.get(Role.HERMES)
        # A certificate has one session: as its own observer it would end itself.
        return None if observer is examined and examined.certfile else observer

    def _certificate_port(self, settings: BrokerSettings) -> Iterator[Report]:
        # The environment may name another broker than the file does.
        elsewhere = self._environ.get("MQTT_BROKER") or self._environ.get("MQTT_PORT")
        port = None if elsewhere or not settings.tls else mtls_port(self._home)
        if port is not None and port != settings.port:
            yield examine_certificate_port(settings, port)

    def _clock_skew(self) -> Report:
        ahead = max(_newest(self._home) - self._clock.now(), 0.0)
        if ahead > _SKEW_SECONDS:
            return warning(
                "clock",
                f"files here are {ahead:.0f} s from the future: this clock was set back, or another is ahead",
                "timedatectl status, on both hosts",
            )
        return well("clock", "no file here is from the future")

    def _queueing(self, unwell: Collection[str]) -> Report:
        # One that is ill has been said to be: its failure says nothing about queues.
        known = {role: EXPECTED[role] for role in self._settings if role in EXPECTED and role not in unwell}
        reader = next((role for role, expected in known.items() if expected.reads), None)
        writer = next((role for role, expected in known.items() if expected.writes_events), None)
        if reader is None or writer is None or self._settings[reader].certfile:
            return skipped("queueing", "needs a role that reads and one that writes, with passwords")
        return examine_queueing(self._settings[reader], self._settings[writer])


def _directory(folder: Path) -> Report:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        return ill(folder.name, f"{folder} is open to others (mode {mode:04o})", f"chmod 700 {folder}")
    try:
        probe = folder / ".doctor"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return ill(
            folder.name,
            f"{folder} is not writable: {error.strerror}",
            "check its owner and the disk",
            ExitCode.INTERNAL,
        )
    return well(folder.name, f"{folder} is private and writable")


def _newest(home: Path) -> float:
    places = (home, home / "jobs", home / "certs", home / "journal")
    times = [path.stat().st_mtime for place in places if place.is_dir() for path in place.iterdir()]
    return max(times, default=0.0)
