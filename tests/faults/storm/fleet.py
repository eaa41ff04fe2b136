"""The processes of a storm: started here, and only what was started here is ever killed."""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

STOP_SECONDS = 20.0


class Kind(StrEnum):
    """What a process is."""

    REGISTRY = "registry"
    SUBSCRIBER = "subscriber"
    PUBLISHER = "publisher"
    TALKER = "talker"


class Child(NamedTuple):
    """One process. `job_id` is empty for the registry process; `output` has stdout, `errors` stderr."""

    kind: Kind
    job_id: str
    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    @property
    def killed(self) -> bool:
        """Tell whether SIGKILL ended it; False while it runs."""
        return self.process.poll() == -signal.SIGKILL

    def error_text(self) -> str:
        """Return the end of what it said on stderr."""
        return self.errors.read_text(errors="replace")[-1000:].strip()


class FleetClosedError(Exception):
    """Nothing more is started: the storm was ended early."""


class Fleet:
    """All children. Methods may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._guard = threading.Lock()
        self._live: list[Child] = []
        self._count = 0
        self.closed = False
        # Nothing of the caller's own settings may reach the storm.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("JOBWIRE_", "MQTT_"))
        }

    def start(self, kind: Kind, command: Sequence[str], *, job_id: str = "", piped: bool = False) -> Child:
        """Start a process whose output goes into files of its own; stdout into a pipe if `piped`.

        Raises FleetClosedError after `kill_all`.
        """
        with self._guard:
            self._count += 1
            stem = self._directory / f"{self._count:05}-{kind}-{job_id or 'all'}"
        output, errors = stem.with_suffix(".out"), stem.with_suffix(".err")
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else out,
                stderr=err,
                env=self._environment,
            )
        child = Child(kind, job_id, process, output, errors)
        with self._guard:
            if not self.closed:
                self._live.append(child)
                return child
        process.kill()
        process.wait()
        raise FleetClosedError

    def kill_one(self, kind: Kind, choice: float) -> Child | None:
        """Kill the live process of this kind that `choice` (0 to 1) falls on; None where there is none."""
        with self._guard:
            self._live = [child for child in self._live if child.process.poll() is None]
            there = [child for child in self._live if child.kind is kind]
            if not there:
                return None
            child = there[int(choice * len(there))]
            # Popen looks whether the process has ended first: the id cannot be another's by now.
            child.process.send_signal(signal.SIGKILL)
        child.process.wait()
        return child if child.killed else None

    def stop(self, child: Child) -> int:
        """End a process with SIGTERM and return its exit code; SIGKILL after STOP_SECONDS."""
        if child.process.poll() is None:
            child.process.terminate()
        try:
            return child.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.process.kill()
            return child.process.wait()

    def kill_all(self) -> None:
        """End whatever still runs, for good."""
        with self._guard:
            self.closed = True
            left, self._live = self._live, []
        for child in left:
            if child.process.poll() is None:
                child.process.kill()
            child.process.wait()
