"""What the coordination does in the registry process.

It notices the dead, brings threads up to their jobs, collects blobs, and serves agents elsewhere.
"""

from __future__ import annotations

import hashlib
import logging
import os
from typing import TYPE_CHECKING

from jobwire.coordination import agents, liveness
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.marks import behind
from jobwire.coordination.notices import tell_due
from jobwire.coordination.projection import bring_up
from jobwire.coordination.remote_keys import AgentKeys
from jobwire.coordination.remote_service import Crossing, RemoteService
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tables import FILE
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConfigError, JobwireError
from jobwire.core.topics import Topics
from jobwire.journal.entry import AGENT_VERDICT, Entry
from jobwire.registry.upkeep import Periodic
from jobwire.storage.home_paths import HomePaths
from jobwire.transport import PahoTransport

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from jobwire.core.settings import BrokerSettings
    from jobwire.journal.writer import JournalWriter
    from jobwire.registry.duties import Duty
    from jobwire.registry.serve import Companion

_LOOK_SECONDS = 1.0
_THERE_SECONDS = 1.0
_COLLECT_SECONDS = 3600.0
_TELL_SECONDS = 60.0
_BOARDS = 1000
_MICROSECONDS = 1_000_000
_ONE_SESSION = (
    "the registry process logs in with a certificate, which is one session; let it log in with a password"
)
_log = logging.getLogger("jobwire.agents")


class DeathWatch:
    """Looks once a second at all agents and locks; acts on a death that it has watched for as long itself."""

    name = "death-watch"

    def __init__(self, home: str, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._vigil = liveness.begin(clock.now(), clock.monotonic())
        self._store = CoordinationStore(home, clock=clock)
        self._locks = Locks(self._store)
        self.buried = 0

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        periodic = Periodic(
            self.name,
            lambda _: self.look(),
            doing="looking at agents",
            seconds=_LOOK_SECONDS,
            clock=self._clock,
        )
        periodic.run(duty, stop)
        self._store.close()

    def look(self) -> None:
        """Look once. Raises StorageError."""
        self._vigil = liveness.look(self._vigil, self._clock.now(), self._clock.monotonic())
        if not os.path.exists(os.path.join(self._home, FILE)):
            return
        now = self._clock.now()
        for view in agents.present(self._store):
            if liveness.may_bury(self._vigil, view.age_seconds(now), view.interval_seconds):
                with self._store.changing() as change:
                    self.buried += agents.bury(change, view.agent_id)
        self._locks.clear()

    def facts(self) -> dict[str, object]:
        """Return how many agents were found dead."""
        return {"buried": self.buried}


class Housekeeping:
    """Brings threads to their jobs and boards to their time once a second; left blobs go once an hour."""

    name = "threads"

    def __init__(self, home: str, clock: Clock) -> None:
        self._clock = clock
        self._store = CoordinationStore(home, clock=clock)
        self._collected_at = float("-inf")
        self._told_at = float("-inf")
        self.collected = 0

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Keep house until `stop` is set."""
        periodic = Periodic(
            self.name, self.step, doing="keeping threads", seconds=_LOOK_SECONDS, clock=self._clock
        )
        periodic.run(duty, stop)
        self._store.close()

    def step(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Do what there is to do. Raises StorageError."""
        if not os.path.exists(self._store.path):
            return
        if behind(self._store):
            bring_up(self._store, self._tell, stop)
        tell_due(self._store)
        # A phase whose time is over ends here, and the members are asked what comes next.
        if self._store.rows("boards", {"open": 1, "agent": None, "limit": 1}):
            Boards(self._store).views(only_open=True, limit=_BOARDS)
        now = self._clock.monotonic()
        if now - self._collected_at >= _COLLECT_SECONDS:
            self.collected += BlobFolder(self._store.home).collect(self._store, stop=stop)
            self._collected_at = now

    def facts(self) -> dict[str, object]:
        """Return how many blobs nothing referred to."""
        return {"blobs_removed": self.collected}

    def _tell(self, text: str) -> None:
        now = self._clock.monotonic()
        if now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            _log.warning("%s", text)


class Unserved:
    """Says that agents on other hosts are not served, where there are any with a key."""

    name = "agents"

    def __init__(self, home: str, why: str) -> None:
        self._folder = _key_folder(home)
        self._warning = f"agents on other hosts are not served: {why}"

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Tell it once there is such an agent."""
        if _wait_for_keys(self._folder, duty, stop):
            _log.warning("%s", self._warning)
        duty.rest()
        stop.wait()

    def facts(self) -> dict[str, object]:
        """Return the warning for the health file."""
        return {"warning": self._warning} if os.path.isdir(self._folder) else {}


class _Beside:
    """One thread of the service; it waits until there is an agent with a key."""

    def __init__(
        self, name: str, home: str, serve: Callable[[Callable[[], bool]], None], facts: object
    ) -> None:
        self.name = name
        self._folder = _key_folder(home)
        self._serve = serve
        self._facts = facts

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        _wait_for_keys(self._folder, duty, stop)
        while not stop.is_set():
            try:
                self._serve(duty.asking(stop.is_set, "serving agents"))
            except JobwireError as error:
                if isinstance(error, ConfigError):
                    raise
                duty.failed(str(error))
                stop.wait(_THERE_SECONDS)
            else:
                duty.done()

    def facts(self) -> dict[str, object]:
        """Return the figures of the service."""
        return self._facts.facts() if isinstance(self._facts, RemoteService) else {}


def _key_folder(home: str) -> str:
    return os.path.dirname(HomePaths(home).agent_key_path("a"))


def _wait_for_keys(folder: str, duty: Duty, stop: threading.Event) -> bool:
    """Wait until an agent has a key; False where `stop` came first."""
    duty.rest()
    while not os.path.isdir(folder):
        if stop.wait(_THERE_SECONDS):
            return False
    return True


def companions(home: Path, settings: BrokerSettings, writer: JournalWriter) -> list[Companion]:
    """Return what is done beside the registry's own duties."""
    clock = SystemClock()
    place = os.fspath(home)
    here: list[Companion] = [DeathWatch(place, clock), Housekeeping(place, clock)]
    if settings.certfile is not None:
        # A certificate is one session at a time (docs/adr/0103): a second connection would end the first.
        return [*here, Unserved(place, _ONE_SESSION)]
    name = hashlib.sha256(os.path.realpath(place).encode()).hexdigest()[:8]

    def journal(crossings: list[Crossing]) -> object:
        now = int(clock.now() * _MICROSECONDS)
        return writer.append([Entry(now, one.topic, one.payload, False, AGENT_VERDICT) for one in crossings])

    service = RemoteService(
        store=CoordinationStore(place, clock=clock),
        keys=AgentKeys(place),
        topics=Topics(settings.topic_root),
        connect=lambda: PahoTransport(
            settings, client_id=f"registry-agents-{name}", clean_session=False, clock=clock
        ),
        journal=journal,
    )
    return [
        *here,
        _Beside("agents", place, service.serve, service),
        _Beside("doorbell", place, service.ring, None),
    ]
