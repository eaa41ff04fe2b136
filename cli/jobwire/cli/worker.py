"""The worker of `jobwire run`: runs one command and says what happens to it.

A process of its own, so that the job outlives its watcher: `jobwire run` killed hard leaves a job
that goes on, is recorded, and can be watched again with `job_subscriber`.

    output of the command ──► our output and logs/<id>/output.log
                          └─► read_line ──► Throttle ──► Reporter thread ──► Publisher
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from jobwire.cli.lifeline import Lifeline
from jobwire.cli.progress import LineSplitter, Report, Throttle, read_line
from jobwire.core.clock import Clock
from jobwire.core.errors import ConflictError, JobwireError, StoppedError, TransportError
from jobwire.core.event import MAX_DETAIL
from jobwire.core.redaction import Redactor

# Between SIGTERM and SIGKILL: long enough to write a checkpoint, short enough to wait for.
GRACE_SECONDS = 5.0
_GUARD_SECONDS = 0.2
_CHUNK = 64 * 1024
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


class Outcome(NamedTuple):
    """How a command ended: its exit status as a shell gives it (128 + signal), and a sentence."""

    status: int
    detail: str

    @property
    def good(self) -> bool:
        """Tell whether the command succeeded."""
        return self.status == 0


class Voice(Protocol):
    """How the worker says things: the part of `jobwire.publisher.Publisher` that it needs."""

    def started(self, detail: str = "", **data: object) -> object:
        """Say that the attempt began."""
        ...

    def progress(self, detail: str = "", **data: object) -> object:
        """Say how far it is."""
        ...

    def permission_required(self, detail: str = "", **data: object) -> object:
        """Say that a person must decide."""
        ...

    def completed(self, detail: str = "", **data: object) -> object:
        """Say that it is done."""
        ...

    def error(self, detail: str = "", **data: object) -> object:
        """Say that it failed."""
        ...


class Command:
    """A child process in its own session, so that a signal reaches everything that it started."""

    def __init__(self, words: list[str], *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._words = words
        self._grace = grace_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the command; raises OSError where it cannot be executed."""
        # In a session of its own the terminal is not the child's: reading from it would fail halfway.
        stdin = subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None
        self._process = subprocess.Popen(
            self._words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the command's output and error output."""
        if self._process is None or self._process.stdout is None or self._process.stderr is None:
            raise RuntimeError("the command was not started")
        return self._process.stdout, self._process.stderr

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of its process group."""
        return self._process.pid if self._process else 0

    @property
    def stopping(self) -> bool:
        """Tell whether somebody asked it to stop."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Ask the whole group to end (SIGTERM), and end it after the grace time (SIGKILL)."""
        if self._stopping.is_set() or self._process is None:
            return
        self._stopping.set()
        self._signal(signal.SIGTERM)
        killer = threading.Timer(self._grace, self._signal, [signal.SIGKILL])
        killer.daemon = True
        killer.start()

    def wait(self) -> int:
        """Wait for the end and return the exit status as a shell gives it."""
        if self._process is None:
            raise RuntimeError("the command was not started")
        code = self._process.wait()
        if self.stopping:
            self._signal(signal.SIGKILL)  # what it left behind in its group
        return code if code >= 0 else 128 - code

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return  # it ended by itself, which is what we want


class Reporter:
    """Says things on a thread of its own: a slow broker never blocks the command's output."""

    def __init__(
        self, voice: Voice, *, clock: Clock, on_stopped: threading.Event, environ: Mapping[str, str]
    ) -> None:
        self._voice = voice
        self._clock = clock
        self._stopped = on_stopped
        self._over = False
        self._redactor = Redactor(environ)
        self._throttle = Throttle()
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="reporter", daemon=True)

    def start(self, detail: str) -> None:
        """Say `started` and begin to listen for reports."""
        self.say("started", detail)
        self._thread.start()

    def offer(self, report: Report) -> None:
        """Take a report from the output; cheap, and never blocks."""
        with self._wake:
            self._throttle.offer(report)
            self._wake.notify()

    def finish(self, outcome: Outcome, seconds: float) -> None:
        """Say the terminal event, after everything that is still waiting; nothing where the job is over."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        if self._over:
            return
        kind = "completed" if outcome.good else "error"
        # A report that the throttle held back gives the last word its figure.
        data = _figures(self._throttle.last_word())
        self.say(kind, outcome.detail, **data, exit_status=outcome.status, duration_seconds=round(seconds, 3))

    def say(self, kind: str, detail: str, **data: object) -> None:
        """Say one thing; an undelivered event waits in the outbox, a stopped job stops the command."""
        # Cut last: half a secret would not be found.
        text = _shortened(self._redactor.redact(detail))
        try:
            getattr(self._voice, kind)(text, **data)
        except (StoppedError, ConflictError) as error:
            self._over = True
            if not self._stopped.is_set():
                self._complain(error)
            self._stopped.set()
        except TransportError as error:
            self._complain(error)

    def _loop(self) -> None:
        while True:
            with self._wake:
                report = self._throttle.take(self._clock.monotonic())
                if report is None:
                    if self._closing:
                        return
                    self._wake.wait(timeout=1.0)
                    continue
            self.say(report.kind, report.detail, **_figures(report))

    @staticmethod
    def _complain(error: JobwireError) -> None:
        print(f"jobwire: {error}", file=sys.stderr)


class Worker:
    """One command as one attempt of a job."""

    def __init__(
        self, *, command: Command, reporter: Reporter, lifeline: Lifeline, output: Path, clock: Clock
    ) -> None:
        self._command = command
        self._reporter = reporter
        self._lifeline = lifeline
        self._output = output
        self._clock = clock

    def work(self, title: str, stopped: threading.Event) -> Outcome:
        """Run the command to its end, reporting; return how it ended.

        `stopped` is set by whoever wants the command ended: a signal, or the job's cancellation.
        """
        begun = self._clock.monotonic()
        self._reporter.start(title)
        outcome = self._run(stopped)
        self._reporter.finish(outcome, self._clock.monotonic() - begun)
        return outcome

    def _run(self, stopped: threading.Event) -> Outcome:
        if stopped.is_set():
            return Outcome(128 + signal.SIGTERM, "stopped before it began")
        try:
            self._command.start()
        except FileNotFoundError as error:
            return Outcome(_NOT_FOUND, f"command not found: {Path(str(error.filename)).name}")
        except OSError as error:
            return Outcome(_NOT_EXECUTABLE, f"the command cannot be executed: {error.strerror}")
        done = threading.Event()
        guard = threading.Thread(target=self._guard, args=(stopped, done), daemon=True)
        guard.start()
        with self._output.open("ab") as log:
            self._output.chmod(0o600)
            status = self._follow(log)
        done.set()
        guard.join()
        return Outcome(status, _sentence(status, stopping=self._command.stopping))

    def _follow(self, log: IO[bytes]) -> int:
        lock = threading.Lock()
        sinks = (sys.stdout.buffer, sys.stderr.buffer)
        copies = [
            threading.Thread(target=self._copy, args=(pipe, sink, log, lock))
            for pipe, sink in zip(self._command.pipes, sinks, strict=True)
        ]
        for copy in copies:
            copy.start()
        status = self._command.wait()
        for copy in copies:
            copy.join()
        return status

    def _copy(self, pipe: IO[bytes], sink: IO[bytes], log: IO[bytes], lock: threading.Lock) -> None:
        """Pass output through, keep it, and read progress from it."""
        lines = LineSplitter()
        open_sink = True
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                with lock:
                    log.write(chunk)
                    log.flush()
                if open_sink:
                    open_sink = _pass_on(sink, chunk)
                for line in lines.feed(chunk):
                    report = read_line(line)
                    if report is not None:
                        self._reporter.offer(report)

    def _guard(self, stopped: threading.Event, done: threading.Event) -> None:
        while not done.wait(timeout=_GUARD_SECONDS):
            if not self._lifeline.holds():
                stopped.set()
            if stopped.is_set():
                self._command.stop()
                return


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


def _figures(report: Report | None) -> dict[str, float]:
    return {} if report is None or report.percent is None else {"percent": report.percent}


def _pass_on(sink: IO[bytes], chunk: bytes) -> bool:
    """Write to our own output; False when its reader went away: the job goes on without it."""
    try:
        sink.write(chunk)
        sink.flush()
    except (BrokenPipeError, ValueError):
        return False
    return True


def _sentence(status: int, *, stopping: bool) -> str:
    if status == 0:
        return "finished"
    if stopping:
        return "stopped on request"
    if status > 128:  # noqa: PLR2004  the shells' convention for signals
        return f"killed by {signal.Signals(status - 128).name}"
    return f"exit status {status}"
