"""One command as a child process: started, stopped with everything it started, and reaped."""

import os
import signal
import subprocess
import threading
from typing import IO, NamedTuple, Protocol

from jobwire.core.clock import Clock
from jobwire.runner.answered_input import AnsweredInput
from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.process_session import living_groups, signal_groups

# Between SIGTERM and SIGKILL: long enough to write a checkpoint, short enough to wait for.
GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
# Who lives so long after SIGKILL hangs in the kernel or is somebody else's: no reason to wait.
_LAST_SECONDS = 2.0
STDOUT, STDERR = 1, 2


class Stream(NamedTuple):
    """One stream of the command's output: where it is read, and which descriptor of ours it goes to."""

    source: int
    sink: int


class Stdio(Protocol):
    """Where a command runs: with which streams, and in which session.

    `stop_signals` ask everything there to end.
    """

    stop_signals: tuple[signal.Signals, ...]

    def start(self, words: list[str]) -> tuple["subprocess.Popen[bytes]", list[Stream]]:
        """Start `words`; raises OSError where it cannot be executed."""
        ...

    def groups(self, pid: int) -> set[int]:
        """Return the living process groups of the command, which has not been waited for."""
        ...

    def interrupted(self) -> bool:
        """Tell whether a person has just interrupted the command from its keyboard."""
        ...

    def close(self) -> None:
        """Give back what it holds, but for the streams."""
        ...


class Pipes:
    """The standard streams of a command without a terminal: pipes for its output, a session of its own.

    Its input is ours, or what `answers` writes.
    """

    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)

    def __init__(self, answers: AnsweredInput | None = None) -> None:
        self._answers = answers

    def start(self, words: list[str]) -> tuple["subprocess.Popen[bytes]", list[Stream]]:
        """See `Stdio`."""
        source = self._answers.source if self._answers is not None else None
        process = subprocess.Popen(
            words, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        if self._answers is not None:
            self._answers.begun()
        return process, [
            Stream(detached(process.stdout), STDOUT),
            Stream(detached(process.stderr), STDERR),
        ]

    def groups(self, pid: int) -> set[int]:
        """See `Stdio`."""
        return living_groups(pid)

    def interrupted(self) -> bool:
        """See `Stdio`: there is no keyboard."""
        return False

    def close(self) -> None:
        """See `Stdio`."""
        if self._answers is not None:
            self._answers.close()


class Command:
    """A started command; `start` and `reap` from one thread, `stop` from any.

    The child is not waited for before `reap`: until then its number is nobody else's, so a signal meant
    for it cannot reach a stranger.
    """

    def __init__(
        self, words: list[str], *, stdio: Stdio, clock: Clock, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self._words = words
        self._stdio = stdio
        self._clock = clock
        self._grace = grace_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self.stopping = False
        # Readable when the command has ended (pidfd_open(2)).
        self.ended_descriptor = -1

    def start(self) -> list[Stream]:
        """Start it and return its output; raises OSError where it cannot be executed."""
        with self._guard:
            self._process, streams = self._stdio.start(self._words)
            self.ended_descriptor = os.pidfd_open(self._process.pid)
        return streams

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of its process group."""
        return self._started().pid

    def interrupted(self) -> bool:
        """Tell whether a person has just interrupted it from its keyboard."""
        return self._stdio.interrupted()

    def stop(self) -> None:
        """End it and all it started: SIGTERM, and SIGKILL to who lives after the grace time. Blocks."""
        with self._guard:
            if self.stopping:
                return
            self.stopping = True
        for number in self._stdio.stop_signals:
            self.signal(number)
        # Who was suspended could not take the signal.
        self.signal(signal.SIGCONT)
        kill_at = self._clock.monotonic() + self._grace
        while self._stdio.groups(self.pid) and self._clock.monotonic() < kill_at + _LAST_SECONDS:
            if self._clock.monotonic() >= kill_at:
                self.signal(signal.SIGKILL)
            self._clock.sleep(_POLL_SECONDS)

    def signal(self, number: int) -> None:
        """Send a signal to the command and all it started."""
        signal_groups(self._stdio.groups(self.pid), number)

    def signal_own_group(self, number: int) -> None:
        """Send a signal to the command's own group, as a key at a terminal does; nothing before the start."""
        with self._guard:
            if self._process is not None and self._process.returncode is None:
                signal_groups([self._process.pid], number)

    def stopped_by(self) -> int:
        """Return the signal that has suspended the command since this was asked last; 0 for none."""
        with self._guard:
            if self._process is None or self._process.returncode is not None:
                return 0
            try:
                found = os.waitid(os.P_PIDFD, self.ended_descriptor, os.WSTOPPED | os.WNOHANG)
            except ChildProcessError:  # it has ended: nothing can suspend it any more
                return 0
            return 0 if found is None else found.si_status

    def ending(self) -> ExitStatus:
        """Return how it ended; it has."""
        found = os.waitid(os.P_PIDFD, self.ended_descriptor, os.WEXITED | os.WNOWAIT)
        if found is None:
            raise RuntimeError("the command has not ended")
        if found.si_code == os.CLD_EXITED:
            return ExitStatus(exit_status=found.si_status)
        return ExitStatus(signal=found.si_status)

    def reap(self) -> ExitStatus:
        """Return how it ended; `stop` must have returned."""
        process = self._started()
        with self._guard:
            code = process.wait()
            os.close(self.ended_descriptor)
            self._stdio.close()
        return ExitStatus.of_returncode(code)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the command was not started")
        return self._process


def detached(pipe: IO[bytes] | None) -> int:
    """Return a descriptor of its own for a pipe of `subprocess`, whose object goes."""
    if pipe is None:
        raise RuntimeError("no pipe was asked for")
    with pipe:
        return os.dup(pipe.fileno())
