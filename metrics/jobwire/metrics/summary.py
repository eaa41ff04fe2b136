"""The tables in a few rows: for `once --json`, the demo, and whoever asks for no more."""

from pathlib import Path
from typing import Any

from jobwire.core.errors import NotFoundError
from jobwire.metrics.database import open_tables
from jobwire.metrics.errors import SinkError
from jobwire.metrics.settings import load_metrics_settings
from jobwire.metrics.statements import queries

_JOB_COLUMNS = [
    "job_id",
    "session",
    "started_at",
    "finished_at",
    "duration_s",
    "waiting_s",
    "events",
    "attempts",
    "outcome",
]


def summary(sink: str) -> dict[str, Any]:
    """Return totals by event type and reason, and the latest hundred jobs; raises as `open_tables`."""
    database, sql = open_tables(sink), queries()
    try:
        events = database.rows(sql["total_events"])
        rejected = database.rows(sql["total_rejections"])
        jobs = database.rows(sql["latest_jobs"])
        rows = database.rows(sql["total_rows"])
    finally:
        database.close()
    return {
        "rows": rows[0][0] or 0,
        "events": dict(events),
        "rejections": dict(rejected),
        "jobs": [dict(zip(_JOB_COLUMNS, job, strict=True)) for job in jobs],
    }


def summary_of(home: Path) -> dict[str, Any] | None:
    """Return the summary for a home directory, or None before Spark has made its tables."""
    try:
        return summary(load_metrics_settings(home, {}, {}).sink)
    except (NotFoundError, SinkError):
        return None
