"""Metric tables with known figures, written as the streaming query would leave them, without Spark."""

import sqlite3
from importlib import resources
from pathlib import Path

JOURNAL = "j1"
SESSION = "docs"
_JOB = "INSERT INTO job_totals VALUES (?, 'docs', ?, ?, 3, ?, 3, 1, ?, NULL, '', ?, 3, 0, '[]')"


def write_tables(home: Path, start: int) -> None:
    """Write `metrics/metrics.db` below `home`: ten minutes of figures from the epoch second `start` on.

    20 progress events every 10 s; at the start 3 completed, 1 error, 30 refusals, one window of delays;
    three jobs that took 60 s (one failed; two waited, 30 and 10 s), and one that is open.
    """
    folder = home / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "metrics.db") as database:
        database.executescript(resources.files("jobwire.metrics").joinpath("schema.sql").read_text())
        windows = [(start + 10 * number, 10, "progress", SESSION, 20) for number in range(60)]
        windows += [(start, 10, "completed", SESSION, 3), (start, 10, "error", SESSION, 1)]
        windows += [(0, 10, "progress", "", 9)]
        wide = [(start // 60 * 60 + 60 * number, 60, "progress", SESSION, 120) for number in range(10)]
        database.executemany("INSERT INTO windows VALUES (?, ?, ?, ?, ?)", windows + wide)
        database.execute("INSERT INTO rejections VALUES (?, 10, 'bad_signature', 30)", (start,))
        database.execute("INSERT INTO delays VALUES (?, 10, 5, 0, 4.0, 9.0, 12.0, 15.0)", (start,))
        for number, (outcome, waiting) in enumerate([("completed", 0), ("completed", 30), ("error", 10)]):
            begun = (start + number) * 1_000_000
            waited = waiting * 1_000_000
            database.execute(_JOB, (f"0000000{number}", begun, begun + 60_000_000, outcome, waited, begun))
        database.execute(_JOB, ("0000000f", start * 1_000_000, None, "open", 0, start * 1_000_000))
    database.close()


def speak(home: Path, *, updated_at: float, next_offset: int = 100) -> None:
    """Let the streaming query have finished a batch at the epoch second `updated_at`."""
    with sqlite3.connect(home / "metrics" / "metrics.db") as database:
        database.execute("DELETE FROM health")
        database.execute("DELETE FROM progress")
        database.execute(
            "INSERT INTO health VALUES ('r', 1, 10, 80, 0, ?, ?, '{}')", (updated_at, updated_at)
        )
        values = (JOURNAL, next_offset, updated_at)
        database.execute("INSERT INTO progress VALUES (?, 0, ?, 0, ?)", values)
    database.close()
