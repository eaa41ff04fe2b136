"""Metric tables with known figures, written as the streaming query would leave them, without Spark."""

import sqlite3
from pathlib import Path

import numpy as np

from jobwire.metrics.buckets import buckets_of
from jobwire.metrics.fold import WIDTHS_SECONDS
from jobwire.metrics.statements import schema

_SECOND_US = 1_000_000
JOURNAL = "j1"
SESSION = "docs"
_JOB = "INSERT INTO job_totals VALUES (?, 'docs', ?, ?, ?, ?, 3, 1, ?, 1, ?, 3, '', ?, NULL)"


def write_tables(home: Path, start: int) -> None:
    """Write `metrics/metrics.db` below `home`: ten minutes of figures from the epoch second `start` on.

    20 progress events every 10 s; at the start 3 completed, 1 error, 30 refusals, one window of delays;
    three jobs that took 60 s (one failed; two waited, 30 and 10 s), and one that is open.
    """
    folder = home / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "metrics.db") as database:
        for statement in schema():
            database.execute(statement)
        windows = [(10, start + 10 * number, "progress", SESSION, 20) for number in range(60)]
        windows += [(10, start, "completed", SESSION, 3), (10, start, "error", SESSION, 1)]
        windows += [(10, 0, "progress", "", 9)]
        windows += [(60, start // 60 * 60 + 60 * number, "progress", SESSION, 120) for number in range(10)]
        database.executemany("INSERT INTO window_counts VALUES (?, ?, ?, ?, 0, ?)", windows)
        database.execute("INSERT INTO rejection_counts VALUES (10, ?, 'bad_signature', 0, 30)", (start,))
        for number, (outcome, waiting) in enumerate([("completed", 0), ("completed", 30), ("error", 10)]):
            begun = (start + number) * _SECOND_US
            ended, waited = begun + 60 * _SECOND_US, waiting * _SECOND_US
            values = (f"0000000{number}", begun, ended, 3, outcome, waited, begun, begun)
            database.execute(_JOB, values)
            _count(database, "duration", outcome, ended, 60 * _SECOND_US)
            _count(database, "queued", "", begun, 2 * _SECOND_US)
            _count(database, "begun", outcome, begun, 0)
            if waiting:
                _count(database, "waiting", outcome, ended, waited)
        moment = start * _SECOND_US
        database.execute(_JOB, ("0000000f", moment, None, None, "open", 0, moment, moment))
        for delay in (4, 4, 4, 9, 12):
            _count(database, "delay", "", moment, delay * 1000)
    database.close()


def _count(database: sqlite3.Connection, measure: str, outcome: str, moment: int, length: int) -> None:
    """Add one to a histogram, in all widths."""
    bucket = int(buckets_of(np.array([length], np.int64))[0])
    for width in WIDTHS_SECONDS:
        values = (width, measure, moment // _SECOND_US // width * width, outcome, bucket)
        database.execute(
            "INSERT INTO histograms VALUES (?, ?, '', ?, '', ?, ?, 0, 1)"
            " ON CONFLICT DO UPDATE SET events = events + 1",
            values,
        )


def speak(home: Path, *, updated_at: float, next_offset: int = 100) -> None:
    """Let the streaming query have finished a batch at the epoch second `updated_at`."""
    with sqlite3.connect(home / "metrics" / "metrics.db") as database:
        database.execute("DELETE FROM health")
        database.execute("DELETE FROM progress")
        database.execute(
            "INSERT INTO health VALUES ('r', 1, 10, 80, 0, ?, ?, '{}')", (updated_at, updated_at)
        )
        values = (JOURNAL, next_offset, updated_at)
        database.execute("INSERT INTO progress VALUES (?, 0, 0, ?, 0, ?)", values)
    database.close()
