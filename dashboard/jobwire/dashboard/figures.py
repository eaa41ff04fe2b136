"""The figures of the metrics view: questions to the metric tables, answers ready to draw.

The tables are written by `jobwire metrics run` (metrics/jobwire/metrics/schema.sql). Everything asks for
a bounded range over an index, so a year of history does not slow a page that shows an hour.
"""

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from jobwire.core.errors import StorageError

# Range in seconds -> (width of the windows read, seconds of one point on the chart).
STEPS: dict[int, tuple[int, int]] = {
    900: (10, 10),
    3600: (10, 30),
    21_600: (60, 180),
    86_400: (60, 600),
    604_800: (60, 3600),
}
_MAX_JOBS = 50_000
_TOTAL_SESSIONS = 12
# A query that said nothing for so long while rows wait for it does not run any more: its slowest
# batch takes seconds.
STOPPED_SECONDS = 30.0


class Database(Protocol):
    """Asks the metric tables; `?` marks a value. Raises StorageError where they cannot be read."""

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows."""
        ...


class SqliteTables:
    """The tables in a SQLite file, opened anew for each page of figures and never written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows; waits up to two seconds for a writer."""
        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=2.0)) as link:
                return link.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"cannot read the metric tables {self._path.name}: {error}") from error


class Span(NamedTuple):
    """A range of time in epoch seconds, cut into steps."""

    start: int
    end: int
    width: int
    step: int

    @property
    def points(self) -> list[int]:
        """Return the start of each step."""
        return list(range(self.start, self.end, self.step))


def span(seconds: int, now: float) -> Span:
    """Return the range that ends with the step of `now`; an unknown length becomes an hour."""
    length = seconds if seconds in STEPS else 3600
    width, step = STEPS[length]
    end = (int(now) // step + 1) * step
    return Span(end - length, end, width, step)


class Freshness(NamedTuple):
    """How old the figures are. `state` is live, idle, behind, stopped or none."""

    state: str
    why: str
    updated_at: float | None = None
    backlog: int | None = None
    batch_ms: int | None = None
    watermark_at: float | None = None


def freshness(database: Database, now: float, journal_end: int) -> Freshness:
    """Say whether the streaming query follows; `journal_end` is -1 where there is no journal here."""
    health = database.ask(
        "SELECT updated_at, backlog, duration_ms, watermark_at FROM health ORDER BY updated_at DESC LIMIT 1"
    )
    progress = database.ask("SELECT MAX(next_offset), MAX(updated_at) FROM progress")
    folded, folded_at = progress[0] if progress else (None, None)
    if folded is None and not health:
        return Freshness("none", "no metrics yet: jobwire metrics run")
    updated, backlog, batch_ms, watermark = health[0] if health else (folded_at, None, None, None)
    updated = max(updated, folded_at or 0.0)
    waiting = max(0, journal_end - (folded or 0)) if journal_end >= 0 else backlog or 0
    age = now - updated
    if age > STOPPED_SECONDS and waiting > 0:
        state = "stopped"
        why = f"the streaming query has stopped: {waiting} messages wait for it; jobwire metrics run"
    elif age > STOPPED_SECONDS:
        state, why = "idle", "nothing new has arrived"
    elif waiting > 0 and age > STOPPED_SECONDS / 3:
        state, why = "behind", f"{waiting} messages are not counted yet"
    else:
        state, why = "live", ""
    return Freshness(state, why, updated, waiting, batch_ms, watermark)


def event_rates(database: Database, wanted: Span) -> dict[str, list[float]]:
    """Return events a second of each type at each step."""
    rows = database.ask(
        "SELECT window_start, event_type, SUM(events) FROM windows "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? "
        "GROUP BY window_start, event_type",
        wanted.width,
        wanted.start,
        wanted.end,
    )
    return _rates(rows, wanted)


def rejections(database: Database, wanted: Span) -> dict[str, list[float]]:
    """Return refused messages a second by reason at each step."""
    rows = database.ask(
        "SELECT window_start, reason, SUM(events) FROM rejections "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? GROUP BY window_start, reason",
        wanted.width,
        wanted.start,
        wanted.end,
    )
    return _rates(rows, wanted)


def sessions(database: Database, wanted: Span) -> list[dict[str, object]]:
    """Return the sessions with the most events in the range."""
    rows = database.ask(
        "SELECT session, SUM(events) AS total FROM windows "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? "
        "GROUP BY session ORDER BY total DESC LIMIT ?",
        wanted.width,
        wanted.start,
        wanted.end,
        _TOTAL_SESSIONS,
    )
    return [{"session": session, "events": int(total)} for session, total in rows]


def delays(database: Database, wanted: Span) -> dict[str, list[float | None]]:
    """Return the worker-to-journal delay in seconds: the worst window of each step."""
    rows = database.ask(
        "SELECT window_start, p50_ms, p95_ms, p99_ms FROM delays "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ?",
        wanted.width,
        wanted.start,
        wanted.end,
    )
    series: dict[str, list[float | None]] = {name: [None] * len(wanted.points) for name in _QUANTILES}
    for start, *values in rows:
        place = (start - wanted.start) // wanted.step
        for name, value in zip(_QUANTILES, values, strict=True):
            series[name][place] = max(series[name][place] or 0.0, value / 1000)
    return series


class FinishedJob(NamedTuple):
    """A job that ended in the range; times in epoch seconds, lengths in seconds."""

    started: float
    finished: float
    waiting: float
    outcome: str


def finished_jobs(database: Database, wanted: Span) -> list[FinishedJob]:
    """Return the jobs that ended in the range, the newest 50,000."""
    rows = database.ask(
        "SELECT started_us, finished_us, waiting_us, outcome FROM job_totals "
        "WHERE finished_us >= ? AND finished_us < ? ORDER BY finished_us DESC LIMIT ?",
        wanted.start * 1_000_000,
        wanted.end * 1_000_000,
        _MAX_JOBS,
    )
    return [FinishedJob(row[0] / 1e6, row[1] / 1e6, row[2] / 1e6, row[3]) for row in rows]


def open_since(database: Database) -> dict[str, float]:
    """Return when each job that the tables call open started; cancelled ones are among them."""
    rows = database.ask("SELECT job_id, started_us FROM job_totals WHERE outcome = 'open' LIMIT ?", _MAX_JOBS)
    return {str(job_id): started / 1e6 for job_id, started in rows}


def count_over_time(intervals: Iterable[tuple[float, float]], wanted: Span) -> list[int]:
    """Return how many of the intervals [since, until) hold the end of each step."""
    points = wanted.points
    change = [0] * (len(points) + 1)
    for since, until in intervals:
        first = _first_point_at(since, wanted)
        last = len(points) if until == float("inf") else _first_point_at(until, wanted)
        if first < last:
            change[max(first, 0)] += 1
            change[min(last, len(points))] -= 1
    counts, now = [], 0
    for delta in change[:-1]:
        now += delta
        counts.append(now)
    return counts


def _first_point_at(moment: float, wanted: Span) -> int:
    """Return the first step whose end is at `moment` or later, within 0..number of steps."""
    place = math.ceil((moment - wanted.start) / wanted.step) - 1
    return min(max(place, 0), len(wanted.points))


_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def quantiles(values: Sequence[float]) -> dict[str, float | None]:
    """Return p50, p95 and p99 by the nearest-rank method, None where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(_QUANTILES)
    return {name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] for name, share in _QUANTILES.items()}


def quantiles_over_time(pairs: Iterable[tuple[float, float]], wanted: Span) -> dict[str, list[float | None]]:
    """Return the quantiles of (moment, value) pairs in each step."""
    steps: defaultdict[int, list[float]] = defaultdict(list)
    for moment, value in pairs:
        steps[int((moment - wanted.start) // wanted.step)].append(value)
    found = {place: quantiles(values) for place, values in steps.items()}
    empty: dict[str, float | None] = dict.fromkeys(_QUANTILES)
    return {
        name: [found.get(place, empty)[name] for place in range(len(wanted.points))] for name in _QUANTILES
    }


def _rates(rows: Iterable[tuple[Any, ...]], wanted: Span) -> dict[str, list[float]]:
    series: dict[str, list[float]] = {}
    for start, name, events in rows:
        values = series.setdefault(str(name), [0.0] * len(wanted.points))
        values[(int(start) - wanted.start) // wanted.step] += float(events) / wanted.step
    return {name: [round(value, 4) for value in series[name]] for name in sorted(series)}
