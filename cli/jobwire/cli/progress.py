"""What a command's output says about its progress: pure reading of lines, at most one report a second."""

import re
from typing import NamedTuple

# A line that speaks to us on purpose; the same idea as workflow commands of CI systems.
_SPOKEN = re.compile(r"\s*+::(progress|permission)\s++(\S.*)")
# 12%, 12.5 %, [ 12%]; not 120% of something, not a longer number's tail.
_PERCENT = re.compile(r"(?<![\w.])(100(?:\.0+)?|\d{1,2}(?:\.\d+)?) ?%")
# Colours and cursor movements (ECMA-48 control sequences) and other control characters.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MAX_LINE = 16 * 1024


class Report(NamedTuple):
    """One thing worth an event: `kind` is progress or permission_required; `percent` where one was seen.

    `detail` is as long as the line was, up to MAX_LINE.
    """

    kind: str
    detail: str
    percent: float | None = None


def read_line(line: str) -> Report | None:
    """Return what a line of output reports, or None."""
    text = _CONTROL.sub("", line[:MAX_LINE])
    spoken = _SPOKEN.match(text)
    if spoken:
        kind = "progress" if spoken[1] == "progress" else "permission_required"
        detail = spoken[2].rstrip()
        return Report(kind, detail, _percent(detail))
    percent = _percent(text)
    return None if percent is None else Report("progress", text.strip(), percent)


def _percent(text: str) -> float | None:
    found = _PERCENT.search(text)
    return float(found[1]) if found else None


class LineSplitter:
    """Cuts a byte stream into lines at line feeds and at carriage returns (progress bars use them)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that `chunk` completes; an endless line is cut at MAX_LINE bytes."""
        *lines, rest = re.split(rb"[\r\n]", self._rest + chunk)
        if len(rest) > MAX_LINE:
            lines.append(rest)
            rest = b""
        self._rest = rest
        return [line.decode(errors="replace") for line in lines if line]


class Throttle:
    """Lets at most one progress report a second through, always the latest; permission never waits."""

    def __init__(self, interval_seconds: float = 1.0) -> None:
        self._interval = interval_seconds
        self._next_time = float("-inf")
        self._waiting: Report | None = None

    def offer(self, report: Report) -> None:
        """Keep `report` as the next one to go out; it replaces a progress report that still waits."""
        if self._waiting is None or self._waiting.kind == "progress":
            self._waiting = report

    def take(self, monotonic: float) -> Report | None:
        """Return what may go out now."""
        waiting = self._waiting
        if waiting is None or (waiting.kind == "progress" and monotonic < self._next_time):
            return None
        self._waiting = None
        self._next_time = monotonic + self._interval
        return waiting

    def last_word(self) -> Report | None:
        """Return what was held back and never went out."""
        return self._waiting
