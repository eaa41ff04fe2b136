"""The worker of `jobwire run`: runs one command and says what happens to it.

A process of its own, so that the job outlives its watcher: `jobwire run` killed hard leaves a job
that goes on, is recorded, and can be watched again with `job_subscriber`.

    output of the command ──► our output and logs/<id>/output.log
                          └─► read_line ──► Reporter ──► outbox, record ──► broker
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.errors import StorageError
from jobwire.runner.command import Command, Stream
from jobwire.runner.exit_status import NOT_EXECUTABLE, NOT_FOUND, ExitStatus
from jobwire.runner.lease_keeper import LeaseKeeper
from jobwire.runner.output_log import OUTPUT_FILE
from jobwire.runner.progress import ReportReader
from jobwire.runner.pump import Pump, keep_recording
from jobwire.runner.reporter import Reporter, complain
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles

ENDING_FILE = "ending.json"
_GUARD_SECONDS = 0.2


class CommandResult(NamedTuple):
    """How a command ended, and a sentence about it; `refused`: it succeeded, and its work is not accepted."""

    ending: ExitStatus
    detail: str
    refused: bool = False


class Worker:
    """One command as one attempt of a job. `folder` is where the job's output is kept.

    `check` may take back a success: it is called with what tells it to stop, while the lease is kept.
    """

    def __init__(
        self,
        *,
        command: Command,
        reporter: Reporter,
        lease: LeaseKeeper,
        folder: Path,
        clock: Clock,
        check: Callable[[Callable[[], bool]], CommandResult | None] | None = None,
    ) -> None:
        self._command = command
        self._reporter = reporter
        self._lease = lease
        self._folder = folder
        self._clock = clock
        self._check = check
        # Set where no retry makes the command run.
        self.never_began = False
        self._readers: dict[Stream, ReportReader] = {}

    def work(self, title: str, stop: threading.Event) -> CommandResult:
        """Run the command to its end, reporting; return how it ended. Raises StorageError.

        `stop` is set by whoever wants the command ended.
        """
        begun = self._clock.monotonic()
        self._reporter.start(title)
        result = self._run(stop)
        if result.ending.good and self._check is not None:
            result = self._check(lambda: stop.is_set() or not self._lease.holds()) or result
        write_ending(self._folder, result.ending)
        seconds = round(self._clock.monotonic() - begun, 3)
        event = "completed" if result.ending.good and not result.refused else "error"
        self._reporter.finish(event, result.detail, {**result.ending.figures, "duration_seconds": seconds})
        return result

    def _run(self, stop: threading.Event) -> CommandResult:
        if stop.is_set():
            return CommandResult(ExitStatus(signal=signal.SIGTERM), "stopped before it began")
        try:
            streams = self._command.start()
        except FileNotFoundError as error:
            self.never_began = True
            name = Path(os.fsdecode(error.filename or "")).name
            return CommandResult(ExitStatus(exit_status=NOT_FOUND), f"command not found: {name}")
        except OSError as error:
            self.never_began = True
            words = f"the command cannot be executed: {error.strerror}"
            return CommandResult(ExitStatus(exit_status=NOT_EXECUTABLE), words)
        done = threading.Event()
        guard = threading.Thread(target=self._guard, args=(stop, done), name="guard", daemon=True)
        guard.start()
        self._follow(streams, guard)
        done.set()
        guard.join()
        stopped = self._command.stopping
        if not stopped and self._command.interrupted() and not self._command.ending().good:
            self._lease.give_up("interrupted by Ctrl-C")
            self._command.stop()
        ending = self._command.reap()
        return CommandResult(ending, "stopped on request" if stopped and not ending.good else ending.sentence)

    def _follow(self, streams: list[Stream], guard: threading.Thread) -> None:
        log = os.open(
            self._folder / OUTPUT_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            pump = Pump(streams, log=log, on_output=self._read, complain=complain, clock=self._clock)
            pump.run(
                self._command.ended_descriptor, lambda: not self._command.stopping or not guard.is_alive()
            )
            keep_recording(pump.still_open, log)
        finally:
            os.close(log)

    def _read(self, stream: Stream, chunk: bytes) -> None:
        """Read progress from the command's output."""
        self._reporter.printed(len(chunk))
        for report in self._readers.setdefault(stream, ReportReader()).feed(chunk):
            self._reporter.offer(report)

    def _guard(self, stop: threading.Event, done: threading.Event) -> None:
        while not done.wait(timeout=_GUARD_SECONDS):
            if stop.is_set() or not self._lease.holds():
                self._command.stop()
                return


def write_ending(folder: Path, ending: ExitStatus) -> None:
    """Keep how the command ended, for `jobwire run`: the job's last word need not be the worker's."""
    try:
        replace_durably(folder / ENDING_FILE, ending.to_json(), files=SystemFiles())
    except StorageError as error:
        complain(error.message)  # the last word says it too


def read_ending(folder: Path) -> ExitStatus | None:
    """Return how the command ended; None where nobody kept it."""
    try:
        return ExitStatus.of_json((folder / ENDING_FILE).read_bytes())
    except FileNotFoundError:
        return None
