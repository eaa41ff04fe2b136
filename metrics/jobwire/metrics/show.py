"""The tables of the last minutes, for people (rich tables) and programs (JSON)."""

from pathlib import Path
from typing import Any

from jobwire.core.clock import utc_timestamp
from jobwire.core.terminal_text import safe
from jobwire.jobs.record import RecordFormatError, decode_record
from jobwire.metrics.buckets import AHEAD, DELAY, percentiles
from jobwire.metrics.database import Database, Row, open_tables
from jobwire.metrics.rates import rates, spreads, usage
from jobwire.metrics.statements import queries
from jobwire.metrics.unjournaled import missing_sentence, unjournaled_jobs
from jobwire.storage.home_paths import HomePaths

_UNKNOWN = "-"
_DELAY_MINUTES = 10
_DELAY_COUNTS = {"events": DELAY, "ahead": AHEAD}


def tables(sink: str, *, now: float, minutes: float, home: Path) -> dict[str, Any]:
    """Return the latest figures as plain values; `now` is epoch seconds. Raises NotFoundError, SinkError."""
    database = open_tables(sink)
    try:
        since = int(now - minutes * 60)
        return {
            "since": since,
            "minutes": minutes,
            "windows": _select(database, "windows", since),
            "sessions": _select(database, "sessions", since),
            "rejections": _select(database, "rejections", since),
            "delays": _delays(database.rows(queries()["show_delays"], (since,))),
            "outcomes": _select(database, "outcomes", since),
            "slowest": _select(database, "slowest", since),
            "rates": rates(database, since, minutes * 60),
            **spreads(database, since),
            "usage": usage(database, since),
            "open_jobs": [
                row | {"silent_s": _length(now - row["last_event_at"])}
                for row in _select(database, "open_jobs")
            ],
            "unjournaled_jobs": unjournaled_jobs(home, database.rows),
        }
    finally:
        database.close()


def _select(database: Database, name: str, *values: object) -> list[dict[str, Any]]:
    columns = _COLUMNS[name].split()
    found = database.rows(queries()[f"show_{name}"], values)
    return [
        {column: _length(value) if column.endswith("_s") else value for column, value in pairs}
        for pairs in (zip(columns, row, strict=True) for row in found)
    ]


def _delays(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the percentiles of each of the last ten minutes, the newest first."""
    minutes: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for start, measure, bucket, events in rows:
        minutes.setdefault(start, {DELAY: [], AHEAD: []})[measure].append((bucket, events))
    found = []
    for start in sorted(minutes, reverse=True):
        counts = minutes[start]
        if (delays := percentiles(counts[DELAY])) is not None:
            numbers = {name: sum(n for _, n in counts[key]) for name, key in _DELAY_COUNTS.items()}
            found.append({"window_start": start} | numbers | delays._asdict())
    return found[:_DELAY_MINUTES]


def _length(seconds: float | None) -> float | None:
    """Return a length of time: clocks that differ, or that were set back, make none negative."""
    return None if seconds is None else max(0.0, seconds)


# The columns of each query of queries.sql, in its order.
_COLUMNS = {
    "windows": "event_type events",
    "sessions": "session events errors",
    "rejections": "reason events",
    "outcomes": "outcome jobs duration_s waiting_s attempts",
    "slowest": "job_id session duration_s waiting_s events attempts outcome",
    "open_jobs": "job_id session worker last_event last_event_at waiting_since_at events attempts",
}

# As people see them: title, key, and the columns where not all are shown.
_TABLES = (
    ("Jobs (shares are of those that ended; of requeued, of those claimed)", "rates", ""),
    ("How long, in seconds", "lengths", ""),
    ("Run time, in seconds (by worker, label and attempt: whole hours)", "run_by", ""),
    ("Waiting for permission, in seconds", "wait_by", ""),
    ("Used, by day (UTC)", "usage", ""),
    ("Events", "windows", "event_type events"),
    ("Sessions", "sessions", "session events errors"),
    ("Refused messages", "rejections", "reason events"),
    ("Jobs by outcome (means)", "outcomes", "outcome jobs duration_s waiting_s attempts"),
    ("Delay to the recorder, by minute", "delays", "window_start events p50_ms p95_ms p99_ms"),
    ("Longest finished jobs", "slowest", "job_id session duration_s waiting_s attempts outcome"),
    ("Open jobs, the most silent first", "open_jobs", "job_id session worker last_event silent_s registry"),
)


def print_tables(found: dict[str, Any], *, home: Path) -> None:
    """Print the figures as tables, the longest silent job first."""
    from rich.console import Console  # noqa: PLC0415 - programs ask for JSON

    console = Console()
    console.print(f"since {utc_timestamp(found['since'])[:19]}Z")
    if found["unjournaled_jobs"]:
        console.print(missing_sentence(found["unjournaled_jobs"]), highlight=False)
    for row in found["open_jobs"]:
        row["registry"] = _registry_says(home, row["job_id"])
    for title, name, columns in _TABLES:
        _table(console, title, found[name], columns)


def _table(console: Any, title: str, rows: list[dict[str, Any]], columns: str) -> None:
    from rich import box  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above

    if not rows:
        return
    names = columns.split() or list(rows[0])
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in names:
        is_number = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(_text(name, row[name]) for name in names))
    console.print(table)


def _text(name: str, value: object) -> str:
    if name == "window_start" and isinstance(value, int):
        return utc_timestamp(value)[11:16]
    if name == "day_start" and isinstance(value, int):
        return utc_timestamp(value)[:10]
    if name == "share" and isinstance(value, float):
        return f"{value:.1%}"
    if name == "cost_usd" and isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    # Names come from records and topics: no markup, and nothing that moves the cursor.
    return safe(str(value or _UNKNOWN)).replace("[", "\\[")


def _registry_says(home: Path, job_id: str) -> str:
    """Return the record's status: a cancelled job says nothing on its topic, so the tables call it open."""
    try:
        return str(decode_record(Path(HomePaths(home).record_path(job_id)).read_bytes()).status)
    except (OSError, RecordFormatError):
        return _UNKNOWN
