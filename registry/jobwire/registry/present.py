"""Records as people read them. Pure: values in, text out."""

import datetime as dt
import json
import math
from collections.abc import Mapping
from typing import Any

from jobwire.core.terminal_text import one_line, safe
from jobwire.jobs.record import JobRecord
from jobwire.registry.deadlines import ready_at

# A job that asked for a permission (docs/glossary.md).
_WAITS = "waits for you"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


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
        one_line(record.agent_session or "-", 20),
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
        ("labels", ", ".join(f"{name}={value}" for name, value in record.labels.items())),
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
    lines = [safe(line) for line in value.splitlines()] or [""]
    return f"{name:<13}" + ("\n" + " " * 13).join(lines)


HISTORY_HEADER = ("AT", "TRY", "SEQ", "SOURCE", "WHAT")


def history_row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line of a job's history."""
    if line.get("kind") == "status":
        what = f"{line.get('before') or 'new'} -> {line.get('after')}: {line.get('cause')}"
    elif line.get("kind") == "request":
        what = f"request {line.get('request')}: {line.get('cause')}"
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
