"""The registry process: records the wire, folds it into the records, publishes states, keeps order.

Four kinds of threads, each with one duty: the recorder (wire to journal), the folder (journal to
records), senders (states to the broker), and upkeep (by the clock). The main thread writes the health
file and ends all of them when one ends.
"""

import logging
import threading
from collections.abc import Callable

from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.errors import ConflictError, JobwireError, StorageError
from jobwire.journal import JournalWriter
from jobwire.registry import health, locks
from jobwire.registry.backfill import backfill
from jobwire.registry.folding import Folder
from jobwire.registry.parts import Connections, Parts, journal_path
from jobwire.registry.purge import Rules
from jobwire.registry.states import StateQueue
from jobwire.registry.store import RecordStore
from jobwire.registry.upkeep import Upkeep

_SENDERS = 4
_HEALTH_SECONDS = 1.0
_STARTING_SECONDS = 0.05
_IDLE_SECONDS = 0.25
_DRAIN_SECONDS = 10.0
_log = logging.getLogger("jobwire.registry")


class RegistryProcess:
    """Looks after one home until told to stop. One at a time on each home."""

    def __init__(
        self,
        *,
        store: RecordStore,
        connections: Connections,
        clock: Clock,
        rules: Rules,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._connections = connections
        self._clock = clock
        self._rules = rules
        self._on_ready = on_ready
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._since = utc_timestamp(clock.now())

    def stop(self) -> None:
        """Ask it to drain and end; from another thread, never from a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Work until `stop`; then record what has arrived, fold it, send its states, and return.

        Raises ConflictError where another registry process works on the home, RefusedError where the
        broker refuses us, StorageError, and whatever else ended a thread.
        """
        self._store.make_layout()
        lock = self._take_lock()
        try:
            with JournalWriter(journal_path(self._store), clock=self._clock) as writer:
                parts = Parts(
                    store=self._store,
                    connections=self._connections,
                    clock=self._clock,
                    rules=self._rules,
                    writer=writer,
                    stop=self._stop.is_set,
                    warn=_log.warning,
                )
                try:
                    self._prepare(parts)
                    self._work(parts)
                finally:
                    parts.close()
                    self._report(parts, "stopped" if self._failure is None else "failed")
        finally:
            locks.release(lock)
        if self._failure is not None:
            raise self._failure

    def _take_lock(self) -> int:
        path = self._store.lock_path(health.SERVE_LOCK)
        lock = locks.try_acquire(path)
        if lock is None:
            pid = locks.holder_pid(path)
            raise ConflictError(
                f"a registry process (pid {pid}) works on {self._store.home} already",
                hint="stop that one first, or use another --home",
                pid=pid,
            )
        return lock

    def _prepare(self, parts: Parts) -> None:
        """Bring records up to the journal, and the journal up to the records, before anything new comes."""
        self._store.sweep_all()
        # What the fold finds done it does not do again, and commits as done.
        self._store.flush_names()
        while not self._stop.is_set() and not parts.folder.caught_up():
            parts.folder.step(hurry=True)
        parts.announcements.open()
        backfill(parts.queue, parts.views, parts.repair)
        parts.announcements.wanted.set()

    def _work(self, parts: Parts) -> None:
        recorder = self._thread("recorder", lambda: parts.recorder.run(self._stop.is_set))
        others = [
            self._thread("folder", lambda: self._fold(parts.folder, parts.journaled)),
            self._thread("upkeep", lambda: self._keep_up(parts.upkeep)),
            *(
                self._thread(f"sender-{number}", lambda: self._send(parts.states))
                for number in range(_SENDERS)
            ),
        ]
        try:
            self._watch(parts)
        finally:
            self._stop.set()
            recorder.join()
            self._drain(parts)
            self._ended.set()
            parts.journaled.set()
            # Senders may wait for a PUBACK that does not come.
            parts.sender.close()
            for thread in others:
                thread.join()

    def _watch(self, parts: Parts) -> None:
        """Write the health file every second until the end; tell once that the broker has us."""
        ready = False
        while not self._stop.is_set():
            connected = parts.recorder.progress().connected
            self._report(parts, "running")
            if connected and not ready:
                # The file says so by now: whoever is told may read it.
                ready = True
                self._on_ready()
            self._stop.wait(_HEALTH_SECONDS if ready else _STARTING_SECONDS)

    def _drain(self, parts: Parts) -> None:
        """Let folder and senders finish what is journaled, within limits."""
        until = self._clock.monotonic() + _DRAIN_SECONDS
        while self._failure is None and self._clock.monotonic() < until:
            parts.journaled.set()
            sendable = parts.states.urgent_waiting() if parts.recorder.progress().connected else 0
            if parts.folder.caught_up() and not sendable:
                return
            self._ended.wait(0.02)

    def _fold(self, folder: Folder, journaled: threading.Event) -> None:
        while not self._ended.is_set():
            journaled.clear()
            if not folder.step(hurry=self._stop.is_set()):
                journaled.wait(_IDLE_SECONDS)

    def _send(self, states: StateQueue) -> None:
        while not self._ended.is_set():
            states.send_next()

    def _keep_up(self, upkeep: Upkeep) -> None:
        while not self._stop.is_set():
            self._stop.wait(upkeep.step())

    def _thread(self, name: str, body: Callable[[], None]) -> threading.Thread:
        def supervised() -> None:
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - supervision: it ends the process, loudly
                if not isinstance(error, JobwireError):
                    _log.exception("the %s failed", name)
                if self._failure is None:
                    self._failure = error
            finally:
                self._stop.set()

        thread = threading.Thread(target=supervised, name=name, daemon=True)
        thread.start()
        return thread

    def _report(self, parts: Parts, state: str) -> None:
        try:
            health.write(self._store, {"state": state, "since": self._since, **parts.facts()})
        except StorageError as error:
            _log.error("%s", error)
