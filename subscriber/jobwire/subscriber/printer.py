"""Lines to streams: events and verdicts to one; notes, and refusals (a flood summed up), to another."""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.terminal_text import safe
from jobwire.subscriber.formats import LineFormat, Style, json_line
from jobwire.subscriber.outcome import EventLine, Line, Note, Refusal, Verdict

PROG = "job_subscriber"


class LinePrinter:
    """Prints lines as they come; `log` gets what is not data. Call `finish` at the end.

    One write and one flush a batch: a reader on the other end of a pipe sees each batch at once.
    """

    def __init__(
        self, stream: TextIO, *, as_json: bool, log: TextIO | None = None, clock: Clock | None = None
    ) -> None:
        self._stream = stream
        self._log = log or sys.stderr
        self._clock = clock or SystemClock()
        self._format = json_line if as_json else LineFormat(style=self._style, clock_text=self._clock_text)
        self._refusals = RefusalLog(write=self._warn, clock=self._clock)

    def __call__(self, line: Line) -> None:
        """Print one line."""
        self.batch((line,))

    def batch(self, lines: Iterable[Line]) -> None:
        """Print lines together."""
        texts: list[str] = []
        for line in lines:
            if isinstance(line, (EventLine, Verdict)):
                texts.append(self._format(line))
                texts.append("\n")
            else:
                self._aside(line)
        if texts:
            self._stream.write("".join(texts))
            self._stream.flush()

    def finish(self) -> None:
        """Name what was summed up of a flood."""
        self._refusals.flush()

    def _aside(self, line: Note | Refusal) -> None:
        if isinstance(line, Refusal):
            self._refusals.add(line)
        else:
            self._warn(f"job {line.job_id}: {line.text}" if line.job_id else line.text)

    def _warn(self, text: str) -> None:
        self._log.write(f"{PROG}: {safe(text)}\n")
        self._log.flush()

    def _style(self) -> Style:
        return style_of(self._stream, os.environ)

    def _clock_text(self) -> str:
        return time.strftime("%H:%M:%S", time.localtime(self._clock.now()))


def style_of(stream: TextIO, environ: Mapping[str, str]) -> Style:
    """Return what `stream` can show: colours and a width on a terminal only (NO_COLOR, TERM=dumb)."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    if not stream.isatty():
        return Style(colour=False, columns=None, unicode=encoding == "utf8")
    colour = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Style(colour=colour, columns=_columns(stream), unicode=encoding == "utf8")


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


# Named one by one up to this many in a window; the rest of the window becomes one line.
BURST = 10
WINDOW_SECONDS = 5.0


class RefusalLog:
    """Writes through `write`, one line a call. The windows are on the monotonic clock."""

    def __init__(self, *, write: Callable[[str], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._window_began = float("-inf")
        self._named = 0
        self._unnamed: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def add(self, refusal: Refusal) -> None:
        """Count a refusal, and name it where the window has room."""
        self.counts[refusal.reason] += 1
        self.roll()
        if self._named < BURST:
            self._named += 1
            self._write(f"job {refusal.job_id or '?'}: message refused: {refusal.reason}: {refusal.why}")
        else:
            self._unnamed[refusal.reason] += 1

    def roll(self) -> None:
        """Begin a new window where the old one is over, with one line for what it did not name."""
        now = self._clock.monotonic()
        if now >= self._window_began + WINDOW_SECONDS:
            self.flush()
            self._window_began = now
            self._named = 0

    def flush(self) -> None:
        """Write what is summed up and not yet written; call it at the end."""
        if self._unnamed:
            parts = ", ".join(f"{count} {reason}" for reason, count in self._unnamed.most_common())
            self._write(f"{self._unnamed.total()} more messages refused: {parts}")
            self._unnamed.clear()
