"""Watches one job with `job_subscriber`; a watcher that was killed is followed by a new one."""

import json
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from tests.faults.storm.fleet import Child, Fleet, FleetClosedError, Kind

_COMMAND = Path(sys.executable).parent / "job_subscriber"


class Watched(NamedTuple):
    """What one watcher that lived to its end said and returned. `first`: from the beginning."""

    job_id: str
    seqs: tuple[int, ...]
    verdicts: tuple[str, ...]
    verdict_codes: tuple[int, ...]
    exit_code: int
    first: bool
    errors: str


class Watcher:
    """Starts a subscriber at once and keeps one alive until there is a verdict."""

    def __init__(self, job_id: str, *, home: Path, fleet: Fleet, limit_seconds: float) -> None:
        self._job_id = job_id
        self._fleet = fleet
        self._command = [
            str(_COMMAND), "--home", str(home), "--job", job_id, "--json",
            "--idle-timeout", "none", "--wall-timeout", str(limit_seconds),
        ]  # fmt: skip
        self._watched: Watched | None = None
        self._abandoned = threading.Event()
        self._child: Child | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {job_id}")
        self._thread.start()

    def result(self) -> Watched | None:
        """Wait for the verdict and return it; None where it was abandoned."""
        self._thread.join()
        return self._watched

    def abandon(self) -> None:
        """Give the job up: there will be no verdict."""
        self._abandoned.set()
        if self._child is not None:
            self._fleet.stop(self._child)

    def _run(self) -> None:
        first = True
        while not self._abandoned.is_set():
            try:
                child = self._child = self._fleet.start(Kind.SUBSCRIBER, self._command, job_id=self._job_id)
            except FleetClosedError:
                return
            child.process.wait()
            if not child.killed and not self._abandoned.is_set():
                self._watched = read_watch(child, first=first)
                return
            first = False


def read_watch(child: Child, *, first: bool) -> Watched:
    """Return what a watcher printed."""
    lines = [json.loads(line) for line in child.output.read_text().splitlines()]
    verdicts = [line for line in lines if "verdict" in line]
    return Watched(
        job_id=child.job_id,
        seqs=tuple(line["seq"] for line in lines if "seq" in line),
        verdicts=tuple(line["verdict"] for line in verdicts),
        verdict_codes=tuple(line["exit_code"] for line in verdicts),
        exit_code=child.process.returncode,
        first=first,
        errors=child.error_text(),
    )
