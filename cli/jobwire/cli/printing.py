"""Printing a watch's lines beside a command's output."""

import shutil
import sys
import time
from typing import TextIO

from jobwire.core.clock import Clock
from jobwire.subscriber import (
    EventLine,
    Line,
    LineFormat,
    Note,
    Refusal,
    RefusalLog,
    Style,
    Verdict,
    json_line,
)


class LinePrinter:
    """Writes events and verdicts to `stream`, notes and refusals to stderr."""

    def __init__(self, stream: TextIO, *, as_json: bool, clock: Clock) -> None:
        self._stream = stream
        self._format = json_line if as_json else LineFormat(style=_style(stream), clock_text=_clock_text)
        self._refusals = RefusalLog(write=self._tell, clock=clock)

    def __call__(self, line: Line) -> None:
        """Print one line."""
        if isinstance(line, EventLine | Verdict):
            print(self._format(line), file=self._stream, flush=True)
        elif isinstance(line, Refusal):
            self._refusals.add(line)
        elif isinstance(line, Note):
            self._tell(f"job {line.job_id}: {line.text}")

    @staticmethod
    def _tell(text: str) -> None:
        print(f"jobwire: {text}", file=sys.stderr, flush=True)


def _style(stream: TextIO) -> Style:
    if not stream.isatty():
        return Style()
    return Style(colour=True, columns=shutil.get_terminal_size().columns)


def _clock_text() -> str:
    return time.strftime("%H:%M:%S")
