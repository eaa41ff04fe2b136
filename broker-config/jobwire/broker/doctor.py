"""`jobwire doctor`: says in plain words what works and what does not, from the disk to each role's rights."""

import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from jobwire.broker.home import ROLES, BrokerPaths
from jobwire.broker.network_examination import examine_network
from jobwire.broker.reports import Report, State, ill, skipped, warning, well
from jobwire.broker.rights_examination import (
    EXPECTED,
    examine_protocol,
    examine_queueing,
    examine_role,
    examine_storage,
    examine_strangers,
)
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
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
        observer = self._settings.get("registry") or self._settings.get("hermes")
        for role, settings in self._settings.items():
            yield from examine_role(role, settings, observer)
        yield self._queueing()

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
        for role in ROLES:
            try:
                settings = load_settings(
                    home=self._home, role=role, command_line={}, record={}, environ=self._environ
                )
            except JobwireError as error:
                yield ill(f"settings of {role}", error.message, error.hint, error.exit_code)
                continue
            if settings.username or settings.certfile:
                # Where the environment names one user it is that user for every role: examined once.
                self._settings.setdefault(settings.username or role, settings)
        if self._settings:
            yield well("settings", f"roles configured: {', '.join(self._settings)}")
        else:
            yield ill("settings", "no role is configured", "add [roles.*] to jobwire.toml, or MQTT_USERNAME")

    def _clock_skew(self) -> Report:
        ahead = max(_newest(self._home) - self._clock.now(), 0.0)
        if ahead > _SKEW_SECONDS:
            return warning(
                "clock",
                f"files here are {ahead:.0f} s from the future: this clock was set back, or another is ahead",
                "timedatectl status, on both hosts",
            )
        return well("clock", "no file here is from the future")

    def _queueing(self) -> Report:
        reader = self._role(lambda role: EXPECTED[role].reads)
        writer = self._role(lambda role: EXPECTED[role].writes_events)
        if reader is None or writer is None:
            return skipped("queueing", "needs a role that reads and one that writes")
        return examine_queueing(reader, writer)

    def _role(self, wanted: Callable[[str], bool]) -> BrokerSettings | None:
        return next((value for role, value in self._settings.items() if wanted(role)), None)


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
