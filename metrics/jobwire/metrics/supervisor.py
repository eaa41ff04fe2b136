"""Keeps the driver process running: starts it, reads its reports, starts it again after a failure.

The supervisor holds no Spark. A JVM that dies, a driver that is killed, a source runner that fails
more than a few times: each ends the driver process, and a new one continues from the offsets in the
tables. Failures that no repetition heals (rows gone from the journal, wrong settings) end the run.
"""

import contextlib
import json
import os
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jobwire.core.backoff import retry_delay
from jobwire.core.errors import JobwireError
from jobwire.core.exit_codes import ExitCode
from jobwire.metrics.errors import QueryError
from jobwire.metrics.settings import SINK_VARIABLE, MetricsSettings
from jobwire.storage.process import Lifeline, ManagedProcess

_LONGEST_DELAY_SECONDS = 60.0
# Starting a JVM takes some 6 s; trying faster than that would only heat the machine.
_FIRST_DELAY_SECONDS = 1.0
# After SIGTERM: the batch in hand, the history, and the JVM's own end.
_STOP_SECONDS = 90.0
_LARGEST_LOG_BYTES = 10 << 20

Report = dict[str, Any]


class DriverExit(NamedTuple):
    """How a driver process ended."""

    exit_code: int
    last: Report


class Supervisor:
    """Runs one mode of the job; `on_report` sees every report of every driver process."""

    def __init__(
        self,
        *,
        settings: MetricsSettings,
        on_report: Callable[[Report], None],
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._on_report = on_report
        self._stop = stop
        self._batches = 0

    def run(self, mode: str, *, tries: int | None = None) -> Report:
        """Return the last report of a run that ended well. Blocks for as long as it takes.

        A failure that may pass is tried again, `tries` times in a row at most (for ever when None).
        Raises JobwireError with the driver's own words otherwise.
        """
        failures = 0
        while True:
            before = self._batches
            ended = self._one(mode)
            if ended.exit_code == 0 or self._stop.is_set():
                return ended.last
            failures = 1 if self._batches > before else failures + 1
            error = _error_of(ended)
            if not ended.last.get("retry", True) or (tries is not None and failures >= tries):
                raise error
            self._before_next(error, failures)
            if self._stop.is_set():
                return ended.last

    def _before_next(self, error: JobwireError, failures: int) -> None:
        delay = retry_delay(
            failures,
            random.random(),  # noqa: S311 - jitter, no secret
            base=_FIRST_DELAY_SECONDS,
            cap=_LONGEST_DELAY_SECONDS,
        )
        remedy = f" ({error.hint})" if error.facts.get("disk_full") else ""
        self._note(f"{error.message}{remedy}; starting again in {delay:.0f} s")
        self._stop.wait(delay)

    def _note(self, text: str) -> None:
        self._on_report({"kind": "note", "text": text})

    def _one(self, mode: str) -> DriverExit:
        last: Report = {}
        with self._process(mode) as process:
            watcher = threading.Thread(target=self._forward_stop, args=(process,), daemon=True)
            watcher.start()
            for line in process.lines:
                report = _decoded(line)
                if report.get("kind") == "end":
                    last |= report | {"kind": last.get("kind", "end")}
                elif report:
                    self._batches += report.get("kind") == "batch"
                    if report.get("kind") == "rebuilt":
                        last = report
                    self._on_report(report)
            code = process.wait()
        return DriverExit(code or 0, last)

    def _process(self, mode: str) -> ManagedProcess:
        _make_room(self._settings.driver_log)
        return ManagedProcess(
            [sys.executable, "-m", "jobwire.metrics.job", mode, "--settings", self._settings.to_json()],
            log=self._settings.driver_log,
            piped=True,
            lifeline=Lifeline.INPUT,
            environ=os.environ | {SINK_VARIABLE: self._settings.sink},
            grace_seconds=_STOP_SECONDS,
        )

    def _forward_stop(self, process: ManagedProcess) -> None:
        while process.alive():
            if self._stop.wait(0.2):
                return process.end()
        return None


def _make_room(log: Path) -> None:
    """Start a new log when the old one is large; one old one is kept."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LARGEST_LOG_BYTES:
        log.replace(log.with_name(log.name + ".1"))


def _decoded(line: bytes) -> Report:
    try:
        report = json.loads(line)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _error_of(ended: DriverExit) -> JobwireError:
    if not ended.last.get("error"):
        how = f"signal {-ended.exit_code}" if ended.exit_code < 0 else f"exit code {ended.exit_code}"
        return QueryError(
            f"the Spark driver ended with {how}", hint="details stand in the log", cause="killed", retry=True
        )
    error = QueryError(
        str(ended.last["error"]),
        hint=str(ended.last.get("hint", "")),
        cause=str(ended.last.get("class", "")),
        retry=bool(ended.last.get("retry")),
        disk_full=bool(ended.last.get("disk_full")),
    )
    # The driver's own exit code: 30 for settings, 40 for a missing journal, 50 for the rest.
    with contextlib.suppress(ValueError):
        error.exit_code = ExitCode(ended.exit_code)
    return error
