"""What a command's output says about its progress: pure reading of lines, and how often that is told."""

import re
from collections import deque
from typing import NamedTuple

from jobwire.jobs.request_form import MAX_REQUESTS

# A line that speaks to us on purpose; the same idea as workflow commands of CI systems.
_SPOKEN = re.compile(r"\s*+::(progress|permission|question)\s++(\S.*)")
# 12%, 12.5 %, [ 12%]; not 120% of something, not a longer number's tail.
_PERCENT = re.compile(r"(?<![\w.])(100(?:\.0+)?|\d{1,2}(?:\.\d+)?) ?%")
# [12/60] as build tools print it, padded or not.
_BRACKETED = re.compile(r"\[ *([0-9]{1,9}) ?/ ?([0-9]{1,9}) *\]")
# 12/60; not in a date (12/06/2026, 06/12), a path (1/2/3), an address (10.0.0.0/24) or a unit (3/4-inch).
_COUNTED = re.compile(r"(?<![\w./:+-])(0|[1-9][0-9]{0,8})/([1-9][0-9]{0,8})(?![\w/+-]|[.:][\w])")
# Colours and cursor movements (ECMA-48 control sequences) and other control characters.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What every line that reports holds.
_CANDIDATE = re.compile(rb"%|::|[0-9] ?/ ?[0-9]")
_LINE_END = re.compile(rb"[\r\n]")
MAX_LINE = 16 * 1024
# For those who look at a fleet; each one costs two flushes of the disk.
_LIFE_SECONDS = 30.0


class Report(NamedTuple):
    """One thing worth an event: `kind` is progress or permission_required; `percent` where one was seen.

    `detail` is as long as the line was, up to MAX_LINE. `question`: it asks for a text, not for a yes.
    """

    kind: str
    detail: str
    percent: float | None = None
    question: bool = False


def read_line(line: str) -> Report | None:
    """Return what a line of output reports, or None."""
    text = _CONTROL.sub("", line[:MAX_LINE])
    spoken = _SPOKEN.match(text)
    if spoken:
        kind = "progress" if spoken[1] == "progress" else "permission_required"
        detail = spoken[2].rstrip()
        return Report(kind, detail, _percent(detail), question=spoken[1] == "question")
    percent = _percent(text)
    return None if percent is None else Report("progress", text.strip(), percent)


def _percent(text: str) -> float | None:
    found = _PERCENT.search(text)
    if found:
        return float(found[1])
    for pattern in (_BRACKETED, _COUNTED):
        for counted in pattern.finditer(text):
            done, total = int(counted[1]), int(counted[2])
            if 0 < total >= done:
                return round(100 * done / total, 1)
    return None


class ReportReader:
    """Reads reports from a byte stream; lines end at line feeds and at carriage returns (progress bars)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[Report]:
        """Return what the lines that `chunk` completes report; an endless line is cut at MAX_LINE bytes."""
        text = self._rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._rest = text[end:]
        if len(self._rest) > MAX_LINE:
            end, self._rest = len(text), b""
        # Most output says nothing of the kind, and a command may print millions of lines a second.
        if _CANDIDATE.search(text, 0, end) is None:
            return []
        lines = (line for line in _LINE_END.split(text[:end]) if _CANDIDATE.search(line))
        found = (read_line(line.decode(errors="replace")) for line in lines)
        return [report for report in found if report is not None]


class Throttle:
    """Lets one progress report through each `interval_seconds`, always the latest; what asks never waits."""

    def __init__(self, interval_seconds: float = 1.0) -> None:
        self._interval = interval_seconds
        self._next_time = float("-inf")
        self._waiting: Report | None = None
        self._asking: deque[Report] = deque(maxlen=MAX_REQUESTS)

    def offer(self, report: Report) -> None:
        """Keep `report` as the next one to go out; it replaces a progress report that still waits."""
        if report.kind != "progress":
            self._waiting = None
            self._asking.append(report)
        elif not self._asking:
            self._waiting = report

    def take(self, monotonic: float) -> Report | None:
        """Return what may go out now."""
        waiting = self._asking.popleft() if self._asking else self._waiting
        if waiting is None or (waiting.kind == "progress" and monotonic < self._next_time):
            return None
        self._waiting = None
        self._next_time = monotonic + self._interval
        return waiting

    def last_word(self) -> Report | None:
        """Return what was held back and never went out."""
        return self._asking[0] if self._asking else self._waiting


class SignsOfLife:
    """Output that reports nothing still shows that the command lives: told now and then.

    `interval_seconds` is how long nobody needs to hear of it; everything that is said starts it anew.
    """

    def __init__(self, interval_seconds: float, monotonic: float) -> None:
        self._interval = interval_seconds
        self._said_at = monotonic
        self._last = Report("progress", "")
        self._printed = 0
        self._told = 0

    def printed(self, size: int) -> None:
        """Take note that the command printed `size` bytes."""
        self._printed += size

    def said(self, report: Report, monotonic: float) -> None:
        """Take note of what was told."""
        self._said_at = monotonic
        self._told = self._printed
        if report.kind == "progress":
            self._last = report

    def due(self, monotonic: float) -> Report | None:
        """Return what to tell now: the last report again, because nothing else is known; or None."""
        if self._printed == self._told or monotonic < self._said_at + self._interval:
            return None
        return self._last if self._last.detail else Report("progress", f"printed {_size(self._printed)}")


def life_interval(idle_seconds: float | None) -> float:
    """Return how often output is told as a sign of life, for a job with this idle limit."""
    return _LIFE_SECONDS if idle_seconds is None else min(_LIFE_SECONDS, idle_seconds / 3)


def _size(count: int) -> str:
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
