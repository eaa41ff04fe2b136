"""Background processes of a foreground command: started, waited for, and always ended."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import JobwireError, StorageError
from jobwire.core.exit_codes import ExitCode

STOP_SECONDS = 15.0
_POLL_SECONDS = 0.05


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


class BackgroundProcess:
    """One `jobwire ...` command in a session of its own, its output in a log file.

    A session of its own, because Ctrl-C must reach the foreground command alone: it ends the others
    in order. Use as a context manager; leaving it ends the process.
    """

    def __init__(
        self, words: list[str], *, log: Path, environ: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self._words = words
        self._log = log
        self._environ = environ
        self._clock = clock or SystemClock()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        # The page's ready line names its token.
        with open(self._log, "wb", opener=_private) as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jobwire.cli.main", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._environ),
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ready_line(self, deadline_seconds: float) -> dict[str, object]:
        """Wait for the JSON line in its output that says `ready`, and return it.

        Raises the JobwireError that it reports instead, or StorageError with the tail of the log when the
        process ends or says nothing in time.
        """
        until = self._clock.monotonic() + deadline_seconds
        while self._clock.monotonic() < until:
            alive = self.alive()
            for value in self._objects():
                if value.get("ready"):
                    return value
                if "error" in value:
                    raise _error_of(value)
            if not alive:
                break
            self._clock.sleep(_POLL_SECONDS)
        raise StorageError(f"`jobwire {' '.join(self._words)}` did not start: {self.tail()}")

    def _objects(self) -> Iterator[dict[str, object]]:
        for line in self._log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value

    def alive(self) -> bool:
        """Tell whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def tail(self, lines: int = 5) -> str:
        """Return the end of its output."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def wait(self, deadline_seconds: float) -> int | None:
        """Wait for its end; return its exit code, or None while it still runs."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout=deadline_seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL where that does not help in time. Idempotent."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        if self.wait(STOP_SECONDS) is None:
            self._process.kill()
            self._process.wait()


def _error_of(said: dict[str, object]) -> JobwireError:
    """Return the error that a command with --json reports (core.commands.report)."""
    error = JobwireError(str(said["error"]), hint=str(said.get("hint", "")))
    with contextlib.suppress(ValueError):
        error.exit_code = ExitCode(said.get("exit_code"))  # type: ignore[arg-type]  # any other is a ValueError
    return error
