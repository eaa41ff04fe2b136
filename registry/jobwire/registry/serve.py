"""The registry process: records the wire, folds it into the records, publishes states, keeps order.

Each thread has one duty: the recorder (wire to journal), the folder (journal to records), senders
(states to the broker), and one for each thing that is done by the clock. The main thread writes the
health file, in which each duty says what it is doing, and ends all of them when one ends.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import JobwireError, StorageError
from jobwire.delivery.handover import DELIVER, MENTION
from jobwire.journal.writer import JournalWriter
from jobwire.registry import health
from jobwire.registry.assembly import Assembly
from jobwire.registry.call_service import Callee, CallService
from jobwire.registry.duties import Duty
from jobwire.registry.layout import SERVE_LOCK
from jobwire.registry.states import StateQueue
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock

_SENDERS = 4
_HEALTH_SECONDS = 1.0
_STARTING_SECONDS = 0.05
_IDLE_SECONDS = 0.25
_DRAIN_SECONDS = 10.0
# Longer than a connect takes, and than draining.
_END_SECONDS = 25.0
_log = logging.getLogger("jobwire.registry")


class _StuckError(StorageError):
    """A thread did not end. Facts: duties."""


class Companion(Protocol):
    """What another component does in this process, in a thread of its own."""

    @property
    def name(self) -> str:
        """Return what `registry health` calls it."""
        ...

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Work until `stop` is set, and tell `duty`."""
        ...

    def facts(self) -> dict[str, object]:
        """Return its figures for the health file."""
        ...


class RegistryProcess:
    """Looks after one home until told to stop. One at a time on each home."""

    def __init__(
        self,
        *,
        store: RecordStore,
        assemble: Callable[[JournalWriter], Assembly],
        on_ready: Callable[[], None] = lambda: None,
        companions: Callable[[JournalWriter], Sequence[Companion]] = lambda _: (),
        callees: Mapping[str, Callee] = MappingProxyType({}),
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._assemble = assemble
        self._on_ready = on_ready
        self._new_companions = companions
        self._callees = callees
        self._companions: Sequence[Companion] = ()
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._since = utc_timestamp(store.clock.now())
        self._reported_at = float("-inf")

    def stop(self) -> None:
        """Ask it to drain and end; from another thread, never from a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Work until `stop`; then record what has arrived, fold it, send its states, and return.

        Raises AlreadyRunningError where another registry process works on the home, RefusedError where the
        broker refuses us, StorageError, also for a thread that does not end, and whatever else ended one.
        """
        self._store.make_layout()
        path, what = self._store.lock_path(SERVE_LOCK), f"is the registry process of {self._store.home}"
        lock = file_lock.acquire_sole(path, clock=self._clock, what=what)
        with ExitStack() as closing:
            closing.callback(file_lock.release, lock)
            writer = closing.enter_context(JournalWriter(self._store.journal, clock=self._clock))
            assembly = self._assemble(writer)
            closing.callback(assembly.close)
            handed = dict.fromkeys((DELIVER, MENTION), assembly.handover)
            calls = CallService(Path(self._store.home), {**self._callees, **handed}, anywhere=handed)
            self._companions = [calls, *self._new_companions(writer)]
            try:
                self._prepare(assembly)
                assembly.handover.begin()
                calls.open()
                self._work(assembly)
            except _StuckError:
                # Its files stay open under the thread that uses them; the end of the process closes them.
                closing.pop_all()
                raise
            finally:
                self._report(assembly, "stopped" if self._failure is None else "failed")
        if self._failure is not None:
            raise self._failure

    def _prepare(self, assembly: Assembly) -> None:
        """Bring records up to the journal, and the journal up to the records, before anything new comes."""
        self._store.sweep_all()
        # What the fold finds done it does not do again, and commits as done.
        self._store.flush_names()
        assembly.folder.on_step = lambda: self._report_start(assembly)
        while not self._stop.is_set() and not assembly.folder.caught_up():
            assembly.folder.step(hurry=True)
        assembly.announcements.open()
        assembly.announcements.wanted.set()

    def _report_start(self, assembly: Assembly) -> None:
        now = self._clock.monotonic()
        if now - self._reported_at >= _HEALTH_SECONDS:
            self._report(assembly, "starting")

    def _work(self, assembly: Assembly) -> None:
        recorder = self._thread(
            assembly,
            "recorder",
            lambda duty: assembly.recorder.run(duty.asking(self._stop.is_set, "recording")),
        )
        others = [self._thread(assembly, "folder", lambda duty: self._fold(assembly, duty))]
        others += [
            self._thread(assembly, f"sender-{number}", lambda duty: self._send(assembly.states, duty))
            for number in range(_SENDERS)
        ]
        clocked = [(one.name, one.run) for one in assembly.upkeep()]
        clocked += [(one.name, one.run) for one in self._companions]
        others += [self._thread(assembly, name, partial(run, stop=self._stop)) for name, run in clocked]
        try:
            self._watch(assembly)
        finally:
            self._stop.set()
            # Whoever waits now sends by itself.
            assembly.handover.close()
            give_up = self._clock.monotonic() + _END_SECONDS
            recorder.join(_END_SECONDS)
            self._drain(assembly)
            self._ended.set()
            assembly.journaled.set()
            # Senders may wait for a PUBACK that does not come.
            assembly.sender.close()
            for thread in others:
                thread.join(max(0.0, give_up - self._clock.monotonic()))
            self._check_ended(assembly, [recorder, *others])

    def _check_ended(self, assembly: Assembly, threads: Sequence[threading.Thread]) -> None:
        left = [thread.name for thread in threads if thread.is_alive()]
        if not left:
            return
        doing = assembly.duties.reports()[left[0]].doing or "resting"
        stuck = _StuckError(
            f"the {left[0]} did not end within {_END_SECONDS:g} s (it is {doing})",
            hint="what was acknowledged is on the disk; start the registry process again",
            duties=left,
        )
        self._failure = self._failure or stuck
        raise stuck

    def _watch(self, assembly: Assembly) -> None:
        """Write the health file every second until the end; tell once that the broker has us."""
        ready = False
        while not self._stop.is_set():
            connected = assembly.recorder.progress().connected
            self._report(assembly, "running")
            if connected and not ready:
                # The file says so by now: whoever is told may read it.
                ready = True
                self._on_ready()
            self._stop.wait(_HEALTH_SECONDS if ready else _STARTING_SECONDS)

    def _drain(self, assembly: Assembly) -> None:
        """Let folder and senders finish what is journaled, within limits."""
        until = self._clock.monotonic() + _DRAIN_SECONDS
        while self._failure is None and self._clock.monotonic() < until:
            assembly.journaled.set()
            sendable = assembly.states.urgent_waiting() if assembly.recorder.progress().connected else 0
            if assembly.folder.caught_up() and not sendable:
                return
            self._ended.wait(0.02)

    def _fold(self, assembly: Assembly, duty: Duty) -> None:
        assembly.folder.on_step = partial(duty.work, "folding")
        while not self._ended.is_set():
            duty.work("folding")
            assembly.journaled.clear()
            try:
                worked = assembly.folder.step(hurry=self._stop.is_set())
                duty.done()
            except OSError as error:
                # No descriptors left, for instance: nothing was taken from the journal, so nothing is lost.
                if duty.failed(str(error)):
                    _log.error("cannot read the journal: %s; tried again", error)
                worked = False
            if not worked:
                duty.rest()
                assembly.journaled.wait(_IDLE_SECONDS)

    def _send(self, states: StateQueue, duty: Duty) -> None:
        while not self._ended.is_set():
            duty.work("sending states")
            states.send_next()

    def _thread(self, assembly: Assembly, name: str, body: Callable[[Duty], None]) -> threading.Thread:
        duty = assembly.duties.begin(name)

        def supervised() -> None:
            try:
                body(duty)
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

    def _report(self, assembly: Assembly, state: str) -> None:
        self._reported_at = self._clock.monotonic()
        facts = {one.name: one.facts() for one in self._companions}
        try:
            health.write(self._store, {"state": state, "since": self._since, **assembly.facts(), **facts})
        except StorageError as error:
            _log.error("%s", error)
