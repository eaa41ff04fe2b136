"""Records as people read them. Pure: values in, text out."""

import datetime as dt
import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobwire.jobs.record import JobRecord
from jobwire.registry.deadlines import ready_at

_GAP = "  "
# A job that asked for a permission (docs/glossary.md).
_WAITS = "waits for you"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def printable(text: str) -> str:
    """Return `text` on one line and without anything that a terminal obeys.

    Texts come from workers: escape sequences and invisible direction marks must not reach a screen.
    """
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def display_width(text: str) -> int:
    """Return how many terminal columns `text` takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def shorten(text: str, width: int) -> str:
    """Return `text` cut to `width` columns, with an ellipsis where something was cut."""
    if display_width(text) <= width:
        return text
    kept, used = "", 1
    for char in text:
        used += display_width(char)
        if used > width:
            break
        kept += char
    return kept + "…"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """Return aligned columns within `width`; the last column gets what is left."""
    cells = [tuple(header), *(tuple(printable(cell) for cell in row) for row in rows)]
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(header) - 1)]
    left = max(width - sum(widths) - len(_GAP) * len(widths), 10)
    return "\n".join(_line(row, widths, left) for row in cells)


def _line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    padded = (cell + " " * (size - display_width(cell)) for cell, size in zip(row, widths, strict=False))
    return (_GAP.join(padded) + _GAP + shorten(row[-1], left)).rstrip()


def age(stamp: str | None, now: float) -> str:
    """Return how long ago an ISO 8601 time was, in its two largest units."""
    if stamp is None:
        return "-"
    try:
        seconds = int(max(now - dt.datetime.fromisoformat(stamp).timestamp(), 0))
    except ValueError:
        return "?"
    return _two_units(seconds)


def _rest(record: JobRecord, now: float) -> str:
    """Return how long a pending job still rests; empty where it may be picked."""
    left = (ready_at(record) or now) - now
    return _two_units(math.ceil(left)) if left > 0 else ""


def _two_units(seconds: int) -> str:
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE:02d}s"
    if seconds < _DAY:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02d}m"
    return f"{seconds // _DAY}d{seconds % _DAY // _HOUR:02d}h"


LIST_HEADER = ("JOB", "STATUS", "TRY", "PRIORITY", "SESSION", "SEQ", "AGE", "TITLE / LAST WORD")


def list_row(record: JobRecord, now: float) -> tuple[str, ...]:
    """Return one line of `list`."""
    rest = _rest(record, now)
    words = " · ".join(part for part in (record.title, record.detail) if part)
    return (
        record.job_id,
        _WAITS if record.attention else f"{record.status}{f', in {rest}' if rest else ''}",
        str(record.attempt),
        str(record.priority),
        shorten(record.agent_session or "-", 20),
        str(record.last_seq),
        age(record.created_at, now),
        words,
    )


def facts(record: JobRecord, now: float) -> str:
    """Return the record as lines of `name  value`, without its secrets and without what is not set."""
    limits = ", ".join(
        f"{name.removesuffix('_seconds')} {value:g} s"
        for name, value in record.timeouts._asdict().items()
        if value
    )
    rest = _rest(record, now)
    attempts = f"{record.attempt}" + (f" of {record.max_attempts}" if record.max_attempts else "")
    data = record.result.get("data") if record.result else None
    pairs = [
        ("job", record.job_id),
        ("title", record.title),
        ("status", f"{record.status}{f', {_WAITS}' if record.attention else ''}"),
        ("attempt", attempts),
        ("detail", record.detail),
        ("session", record.agent_session or ""),
        ("priority", str(record.priority)),
        ("lease", _lease(record)),
        ("not before", f"{record.not_before} (in {rest})" if rest else ""),
        ("timeouts", limits),
        ("seq", f"{record.last_seq} (journaled up to {record.confirmed_seq})"),
        ("created", f"{record.created_at} ({age(record.created_at, now)} ago)"),
        ("started", record.started_at or ""),
        ("finished", record.finished_at or ""),
        ("key", record.idempotency_key or ""),
        ("result", json.dumps(data, ensure_ascii=False) if data else ""),
        ("instructions", record.instructions.strip()),
    ]
    shown = [(name, value) for name, value in pairs if value]
    return "\n".join(_fact(name, value) for name, value in shown)


def _lease(record: JobRecord) -> str:
    if record.lease is None:
        return ""
    return f"{record.lease.owner} until {record.lease.expires_at}, {record.lease.seconds:g} s at a time"


def _fact(name: str, value: str) -> str:
    lines = [printable(line) for line in value.splitlines()] or [""]
    return f"{name:<13}" + ("\n" + " " * 13).join(lines)


HISTORY_HEADER = ("AT", "TRY", "SEQ", "SOURCE", "WHAT")


def history_row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line of a job's history."""
    if line.get("kind") == "status":
        what = f"{line.get('before') or 'new'} -> {line.get('after')}: {line.get('cause')}"
    elif line.get("kind") == "event":
        what = _event_words(line)
    else:
        what = f"damaged line: {line.get('text', '')}"
    return (
        str(line.get("at", "?")),
        str(line.get("attempt", "-")),
        str(line.get("seq") or "-"),
        str(line.get("source", "-")),
        what,
    )


def _event_words(line: Mapping[str, Any]) -> str:
    event = line.get("event")
    body = event if isinstance(event, dict) else {}
    said = f"{body.get('event', 'message')} {body.get('detail', '')}".strip()
    if line.get("verdict") == "accepted":
        return said
    return f"refused ({line.get('verdict')}: {line.get('why', '')}): {said}"
