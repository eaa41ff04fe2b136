"""Acceptance lines as commands: words without a shell, each with a time limit, in a session of its own."""

import shlex
import signal
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.last_words import last_words
from jobwire.runner.process_session import living_groups, signal_groups
from jobwire.storage.process import Lifeline, ManagedProcess

DEFAULT_SECONDS = 600.0
_LOOK_SECONDS = 0.1
_SHOWN = 2000
_NO_FILE = Path("/dev/null")


class LineResult(NamedTuple):
    """What one line came to."""

    line: str
    good: bool
    ending: str
    seconds: float
    output: str

    def to_json(self) -> dict[str, object]:
        """Return it for a receipt's payload."""
        return {"line": self.line, "ok": self.good, "ending": self.ending, "seconds": self.seconds}


def runnable(lines: Iterable[str], trusted: Iterable[str], allowed: Sequence[str]) -> list[str]:
    """Return the lines that may be run: those of the plan, and what the user's own list allows."""
    from_plan = set(trusted)
    return [
        line
        for line in lines
        if line in from_plan or (any(fnmatchcase(line, pattern) for pattern in allowed) and _words(line))
    ]


class Accepting:
    """Runs acceptance lines, one after the other, their output into the job's log."""

    def __init__(self, lines: Sequence[str], *, log: Path, seconds: float, clock: Clock) -> None:
        self._lines = lines
        self._log = log
        self._seconds = seconds
        self._clock = clock
        self.found: list[LineResult] = []

    def run(self, stop: Callable[[], bool]) -> bool:
        """Run the lines up to the first that fails; tell whether all were good."""
        return all(self._one(line, stop) for line in self._lines)

    def _one(self, line: str, stop: Callable[[], bool]) -> bool:
        begun = self._clock.monotonic()
        begin = self._log.stat().st_size if self._log.exists() else 0
        good, ending = self._ended(line, begun, stop)
        output = last_words(_NO_FILE, self._log, begin=begin).text[-_SHOWN:]
        self.found.append(LineResult(line, good, ending, round(self._clock.monotonic() - begun, 3), output))
        return good

    def _ended(self, line: str, begun: float, stop: Callable[[], bool]) -> tuple[bool, str]:
        words = _words(line)
        if not words:
            return False, "it is no command line"
        try:
            process = ManagedProcess(words, log=self._log, lifeline=Lifeline.NONE, clock=self._clock).start()
        except (OSError, ValueError) as error:
            return False, f"it cannot be executed: {error}"
        why = ""
        while not why and process.wait(_LOOK_SECONDS) is None:
            if stop():
                why = "stopped"
            elif self._clock.monotonic() - begun > self._seconds:
                why = f"not finished within {self._seconds:g} s"
        # Before it is waited for, or just after: what it started has no time of its own.
        signal_groups(living_groups(process.pid), signal.SIGKILL)
        if why:
            process.stop(signal.SIGKILL)
            return False, why
        status = ExitStatus.of_returncode(process.wait() or 0)
        return status.good, status.sentence


def report_of(found: Sequence[LineResult]) -> str:
    """Return the results as a part of a receipt; output is indented, so that none of it is a directive."""
    if not found:
        return ""
    parts = ["Verified:"]
    for one in found:
        parts.append(f"- {'ok' if one.good else one.ending}: `{one.line}` ({one.seconds:g} s)")
        if not one.good and one.output:
            parts.append("\n".join(f"      {line}" for line in one.output.splitlines()))
    return "\n".join(parts)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []
