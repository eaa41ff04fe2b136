"""A child process: started, awaited by a fact, asked to end and in the end made to, and always reaped."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from pathlib import Path
from typing import IO, Self, TypeVar

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import StorageError, error_of
from jobwire.storage.files import DIRECTORY_MODE, FILE_MODE

T = TypeVar("T")
GRACE_SECONDS = 15.0
_POLL_SECONDS = 0.02
_MAX_READ = 1 << 20
_QUOTED_LINES = 5
# Asks the kernel to send SIGTERM when the parent is gone (PR_SET_PDEATHSIG, prctl(2)), and becomes the
# program. Not a preexec_fn: that runs Python between fork and exec, which may hang in a program with threads.
# The interpreter ignores two signals, which the program would inherit.
_LAUNCHER = """\
import ctypes, os, sys
from signal import SIG_DFL, SIGPIPE, SIGTERM, SIGXFSZ, signal
parent, *words = sys.argv[1:]
for number in SIGPIPE, SIGXFSZ:
    signal(number, SIG_DFL)
ctypes.CDLL(None).prctl(1, SIGTERM)
if os.getppid() != int(parent):
    sys.exit("the process that started this one is gone")
try:
    os.execvp(words[0], words)
except OSError as error:
    sys.exit(f"{words[0]}: {error.strerror}")
"""


class Lifeline(Enum):
    """How a child learns that we are gone, however that happened."""

    SIGNAL = "the kernel sends it SIGTERM"
    INPUT = "it reads its standard input, which ends with us"
    NONE = "not at all: it goes on"


class ManagedProcess:
    """One child, once, in a session of its own: Ctrl-C at a terminal reaches its parent alone.

    Its output goes to `log`: a file (0600, continued), a descriptor, or what ours goes to; with `piped` its
    standard output is `lines` instead. `keep` are descriptors that it holds as long as it lives. A context
    manager: entering starts it, leaving ends it. `end` may come from any thread, also before the start.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        log: Path | int | None = None,
        piped: bool = False,
        lifeline: Lifeline = Lifeline.SIGNAL,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        keep: Sequence[int] = (),
        grace_seconds: float = GRACE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.words = [str(word) for word in words]
        self.log = log
        self._piped = piped
        self._lifeline = lifeline
        self._environ = environ
        self._folder = folder
        self._keep = keep
        self._grace = grace_seconds
        self._clock = clock or SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._log_start = 0
        self.ending = False

    def start(self) -> Self:
        """Start it, unless its end was asked for already. Raises OSError."""
        with self._guard:
            if not self.ending:
                self._process = _in_a_thread_that_stays(self._spawn)
        return self

    def _spawn(self) -> "subprocess.Popen[bytes]":
        words = self.words
        if self._lifeline is Lifeline.SIGNAL:
            words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *words]
        with self._output() as output:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE if self._lifeline is Lifeline.INPUT else subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._piped else output,
                stderr=output,
                cwd=self._folder,
                env=None if self._environ is None else dict(self._environ),
                pass_fds=self._keep,
                start_new_session=True,
            )

    @contextmanager
    def _output(self) -> Iterator[int | None]:
        if not isinstance(self.log, Path):
            yield self.log
            return
        self.log.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fchmod(descriptor, FILE_MODE)
            self._log_start = os.fstat(descriptor).st_size
            yield descriptor
        finally:
            os.close(descriptor)

    @property
    def pid(self) -> int:
        """Return its process id; raises RuntimeError before the start."""
        return self._started().pid

    @property
    def lines(self) -> IO[bytes]:
        """Return its standard output, where it is `piped`."""
        stdout = self._started().stdout
        if stdout is None:
            raise RuntimeError("its output is not piped")
        return stdout

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError(f"{self.words[0]} was not started")
        return self._process

    def alive(self) -> bool:
        """Tell whether it runs."""
        return self._process is not None and self._process.poll() is None

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for its end; return its exit code, or minus the signal; None while it runs."""
        if self._process is None:
            return None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, by its input where it reads that; one that is not started never will be."""
        with self._guard:
            self.ending = True
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                return
        self.tell(number)
        # Who is suspended could not take the signal.
        self.tell(signal.SIGCONT)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> bool:
        """End and reap it: asked, and with SIGKILL after the grace time; tell whether asking was enough."""
        self.end(number)
        process = self._process
        if process is None:
            return True
        obeyed = self.wait(self._grace) is not None
        if not obeyed:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return obeyed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until(self, fact: Callable[[], T], deadline_seconds: float) -> T | None:
        """Return what `fact` returns once that is true; None where it ends, is ended or takes too long."""
        until = self._clock.monotonic() + deadline_seconds
        while True:
            # Asked first: the fact may be the last thing that it did.
            goes_on = self.alive() and not self.ending and self._clock.monotonic() < until
            if found := fact():
                return found
            if not goes_on:
                return None
            self._clock.sleep(_POLL_SECONDS)

    def said(self) -> str:
        """Return what it wrote into its log file so far, the last of it where that is much."""
        if not isinstance(self.log, Path) or self._process is None:
            return ""
        # Somebody may have removed the file.
        with suppress(OSError), self.log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(min(self._log_start, end), end - _MAX_READ))
            return file.read(_MAX_READ).decode(errors="replace")
        return ""

    def tail(self, lines: int = _QUOTED_LINES) -> str:
        """Return the last lines that it wrote into its log file."""
        return "\n".join(self.said().splitlines()[-lines:]) or "it said nothing"

    def how_it_ended(self) -> str:
        """Say how it ended, for a message: "ended with exit code 3"."""
        code = self.wait(0)
        if code is None:
            return "still runs" if self.alive() else "was not started"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def reported(self) -> dict[str, object]:
        """Return the JSON line of a jobwire command that says it is ready; empty while there is none.

        Raises the JobwireError that it reports instead (core.commands.report).
        """
        for line in self.said().splitlines():
            with suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict) and (value.get("ready") or value.get("kind") == "ready"):
                    return value
                if isinstance(value, dict) and "error" in value:
                    raise error_of(value)
        return {}

    def ready_line(self, deadline_seconds: float) -> dict[str, object]:
        """Wait until a jobwire command with --json says that it is ready, and return that line.

        Raises the JobwireError that it reports instead, or StorageError with its last lines.
        """
        line = self.wait_until(self.reported, deadline_seconds)
        if line is None:
            how = "said nothing of being ready" if self.alive() else self.how_it_ended()
            raise StorageError(f"`{' '.join(self.words)}` {how}: {self.tail()}")
        return line


def _in_a_thread_that_stays(spawn: Callable[[], T]) -> T:
    """Return `spawn()`. To the kernel the parent is the thread that made the child: its end would be ours."""
    if threading.current_thread() is threading.main_thread():
        return spawn()
    return _starter().submit(spawn).result()


@cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="starter")
