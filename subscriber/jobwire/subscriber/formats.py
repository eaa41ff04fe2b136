"""How lines look: JSON for programs, readable lines with a progress bar for people.

Pure: everything about the terminal (its width, colours, encoding) comes in as a `Style`.
"""

import json
import math
from collections.abc import Callable
from typing import NamedTuple

from jobwire.core.terminal_text import fit, safe, table, width
from jobwire.jobs.event import Event
from jobwire.subscriber.outcome import EventLine, Outcome, Verdict, Verdicts

_BAR_CELLS = 10
_EVENT_COLUMNS = 10
_MAX_TITLE = 24
_SECONDS_A_MINUTE = 60
_SECONDS_AN_HOUR = 3600
_FULL = 100.0
_WORDS = {"permission_required": "permission"}
_RED, _GREEN, _YELLOW, _CYAN, _DIM, _BOLD = "31", "32", "33", "36", "2", "1"
_EVENT_COLOURS = {
    "started": _CYAN,
    "progress": "",
    "permission_required": _YELLOW,
    "completed": _GREEN,
    "error": _RED,
}
_OUTCOME_COLOURS = {Outcome.COMPLETED: _GREEN, Outcome.ERROR: _RED}


class Style(NamedTuple):
    """The terminal: `columns` None means that lines are not cut (a file, a pipe)."""

    colour: bool = False
    columns: int | None = None
    unicode: bool = True


def json_line(line: EventLine | Verdict) -> str:
    """Return one JSON object without its line break.

    An event has its fields of SPEC section 2 without version and signature, and `"late": true` or
    `"recovered": true` where that holds; a verdict has `verdict`, `exit_code`, `reason`, `seconds`, `events`.
    """
    if isinstance(line, EventLine):
        seq, job_id, kind, timestamp, detail, data = line.event
        body: dict[str, object] = {
            "job_id": job_id,
            "seq": seq,
            "event": kind,
            "timestamp": timestamp,
            "detail": detail,
            "data": data,
        }
        if line.late:
            body["late"] = True
        if line.recovered:
            body["recovered"] = True
        return _encode(body)
    return _encode(
        {
            "job_id": line.job_id,
            "verdict": str(line.outcome),
            "exit_code": int(line.exit_code),
            "reason": line.reason,
            "seconds": round(line.seconds, 3),
            "events": line.events,
        }
    )


# ASCII only: control characters, separators and odd encodings of the reader's end are no question.
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class LineFormat:
    """Readable lines; `style` is asked for every line, `clock_text` gives the local time as HH:MM:SS."""

    def __init__(self, *, style: Callable[[], Style], clock_text: Callable[[], str]) -> None:
        self._look = style
        self._style = Style()
        self._clock_text = clock_text

    def __call__(self, line: EventLine | Verdict) -> str:
        """Return one line without its line break."""
        self._style = self._look()  # a terminal changes its width while we watch
        if isinstance(line, EventLine):
            return self._event(line)
        return self._verdict(line)

    def _event(self, line: EventLine) -> str:
        event = line.event
        word = _WORDS.get(event.event, event.event)
        head = f"{self._clock_text()} {event.job_id} {word:<{_EVENT_COLUMNS}}"
        bar = self._bar(event)
        marks = (" (late)" if line.late else "") + (" (from the record)" if line.recovered else "")
        taken = width(head) + (width(bar) + 1 if bar else 0) + len(marks) + 1
        detail = self._cut(safe(event.detail), taken)
        text = " ".join(
            part for part in (self._paint(head, _EVENT_COLOURS[event.event]), bar, detail) if part
        )
        return (text + self._paint(marks, _DIM)).rstrip()

    def _bar(self, event: Event) -> str:
        percent = percent_of(event)
        if percent is None:
            return ""
        full = int(percent / _FULL * _BAR_CELLS)
        cells = ("█", "░") if self._style.unicode else ("#", ".")
        return f"{cells[0] * full}{cells[1] * (_BAR_CELLS - full)} {percent:3.0f}%"

    def _verdict(self, verdict: Verdict) -> str:
        head = f"{self._clock_text()} {verdict.job_id} => {verdict.words} after {duration(verdict.seconds)}"
        reason = safe(verdict.cause)
        colour = _OUTCOME_COLOURS.get(verdict.outcome, _YELLOW)
        return self._paint(head, f"{_BOLD};{colour}") + (
            f": {self._cut(reason, width(head) + 2)}" if reason else ""
        )

    def _cut(self, text: str, taken: int) -> str:
        columns = self._style.columns
        return text if columns is None else fit(text, max(0, columns - taken))

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._style.colour and colour and text else text


def summary(verdicts: Verdicts, titles: dict[str, str], style: Style) -> list[str]:
    """Return a table of several jobs' ends, cut to the terminal."""
    titled = any(titles.values())
    header = ("job", *(["title"] if titled else []), "result", "exit", "events", "time", "reason")
    rows = [header]
    for job_id, verdict in verdicts.by_job.items():
        rows.append(
            (
                job_id,
                *([fit(safe(titles.get(job_id, "")), _MAX_TITLE)] if titled else []),
                verdict.words,
                str(int(verdict.exit_code)),
                str(verdict.events),
                duration(verdict.seconds),
                verdict.reason,
            )
        )
    for job_id in verdicts.undecided:
        title = [fit(safe(titles.get(job_id, "")), _MAX_TITLE)] if titled else []
        rows.append((job_id, *title, "still open", "-", "-", "-", ""))
    head, *lines = table(rows, style.columns)
    return [f"\x1b[{_BOLD}m{head}\x1b[0m" if style.colour else head, *lines]


def percent_of(event: Event) -> float | None:
    """Return `data.percent` where it is a number from 0 to 100."""
    value = event.data.get("percent")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value <= _FULL else None


def duration(seconds: float) -> str:
    """Return a span for people: 0.4 s, 12.3 s, 4 min 05 s, 2 h 07 min."""
    if seconds < _SECONDS_A_MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _SECONDS_AN_HOUR:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // _SECONDS_AN_HOUR)} h {int(seconds % _SECONDS_AN_HOUR // 60):02d} min"
