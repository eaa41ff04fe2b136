"""The figures of the metrics view: questions to the metric tables, answers ready to draw.

The tables are written by `jobwire metrics run` (metrics/jobwire/metrics/schema.sql). Everything asks for
a bounded range over an index, so a year of history does not slow a page that shows an hour.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

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
# A query that said nothing for so long while rows wait for it no longer runs: its slowest
# batch takes seconds.
STOPPED_SECONDS = 30.0
BEHIND_SECONDS = 10.0
NO_METRICS = "No metrics yet: `jobwire metrics run` computes them."


class MetricTables(Protocol):
    """Asks the metric tables; `?` marks a value. Raises JobwireError where they cannot be read."""

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows."""
        ...


class TimeRange(NamedTuple):
    """A range of time in epoch seconds, cut into steps."""

    start: int
    end: int
    width: int
    step: int

    @property
    def points(self) -> list[int]:
        """Return the start of each step."""
        return list(range(self.start, self.end, self.step))


# Jobs are rarer than events: their quantiles and shares are taken over this many steps at a time.
JOB_STEPS = 6


def span(seconds: int, now: float) -> TimeRange:
    """Return the range that ends with the step of `now`; an unknown length becomes an hour."""
    length = seconds if seconds in STEPS else 3600
    width, step = STEPS[length]
    end = (int(now) // step + 1) * step
    return TimeRange(end - length, end, width, step)


class Freshness(NamedTuple):
    """How old the figures are. `state` is live, idle, behind, stopped or none."""

    state: str
    why: str
    updated_at: float | None = None
    backlog: int | None = None
    batch_ms: int | None = None
    watermark_at: float | None = None


class JournalEnd(NamedTuple):
    """The journal of this host: its identity and end; "" and -1 where there is none."""

    identity: str = ""
    offset: int = -1


def freshness(database: MetricTables, now: float, journal: JournalEnd, *, running: bool | None) -> Freshness:
    """Say whether the streaming query follows the journal; `running` None where only its traces tell."""
    health = database.ask(
        "SELECT updated_at, backlog, duration_ms, watermark_at FROM health ORDER BY updated_at DESC LIMIT 1"
    )
    progress = {
        row[0]: row[1:] for row in database.ask("SELECT journal, next_offset, updated_at FROM progress")
    }
    if not progress and not health:
        return Freshness("none", NO_METRICS)
    folded_at = max((row[1] for row in progress.values()), default=0.0)
    updated, backlog, batch_ms, watermark = health[0] if health else (folded_at, None, None, None)
    updated = max(updated, folded_at)
    waiting = backlog or 0
    if journal.offset >= 0:
        waiting = max(
            0, journal.offset - (progress[journal.identity][0] if journal.identity in progress else 0)
        )
    state, why = _state(now - updated, waiting, running)
    return Freshness(state, why, updated, waiting, batch_ms, watermark)


def _state(age: float, waiting: int, running: bool | None) -> tuple[str, str]:
    some = "1 message is" if waiting == 1 else f"{waiting:,} messages are"
    left = f"{some} not counted" if waiting else "every message so far is counted"
    if running is False:
        return "stopped", f"the streaming query does not run, {left}: jobwire metrics run"
    if age > STOPPED_SECONDS and waiting > 0:
        return "stopped", f"the streaming query says nothing, {left}: jobwire metrics status"
    if age > STOPPED_SECONDS:
        return "idle", left
    if age > BEHIND_SECONDS and waiting > 0:
        return "behind", left
    return "live", ""


def event_rates(database: MetricTables, wanted: TimeRange) -> dict[str, list[float]]:
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


def rejections(database: MetricTables, wanted: TimeRange) -> dict[str, list[float]]:
    """Return refused messages a second by reason at each step."""
    rows = database.ask(
        "SELECT window_start, reason, SUM(events) FROM rejections "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? GROUP BY window_start, reason",
        wanted.width,
        wanted.start,
        wanted.end,
    )
    return _rates(rows, wanted)


def sessions(database: MetricTables, wanted: TimeRange) -> list[dict[str, object]]:
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


def delays(database: MetricTables, wanted: TimeRange) -> dict[str, list[float | None]]:
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


def finished_jobs(database: MetricTables, wanted: TimeRange) -> list[FinishedJob]:
    """Return the jobs that ended in the range, the newest 50,000."""
    rows = database.ask(
        "SELECT started_us, finished_us, waiting_us, outcome FROM job_totals "
        "WHERE finished_us >= ? AND finished_us < ? ORDER BY finished_us DESC LIMIT ?",
        wanted.start * 1_000_000,
        wanted.end * 1_000_000,
        _MAX_JOBS,
    )
    # Clocks that were set back make no length of time negative.
    return [
        FinishedJob(min(row[0], row[1]) / 1e6, row[1] / 1e6, max(0, row[2]) / 1e6, row[3]) for row in rows
    ]


def open_since(database: MetricTables) -> dict[str, float]:
    """Return when each job that the tables call open started; cancelled ones are among them."""
    rows = database.ask("SELECT job_id, started_us FROM job_totals WHERE outcome = 'open' LIMIT ?", _MAX_JOBS)
    return {str(job_id): started / 1e6 for job_id, started in rows}


def count_over_time(intervals: Iterable[tuple[float, float]], wanted: TimeRange) -> list[int]:
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


def _first_point_at(moment: float, wanted: TimeRange) -> int:
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


def quantiles_over_time(
    pairs: Iterable[tuple[float, float]], wanted: TimeRange
) -> dict[str, list[float | None]]:
    """Return the quantiles of (moment, value) pairs in each step."""
    steps: defaultdict[int, list[float]] = defaultdict(list)
    for moment, value in pairs:
        steps[int((moment - wanted.start) // wanted.step)].append(value)
    found = {place: quantiles(values) for place, values in steps.items()}
    empty: dict[str, float | None] = dict.fromkeys(_QUANTILES)
    return {
        name: [found.get(place, empty)[name] for place in range(len(wanted.points))] for name in _QUANTILES
    }


def _rates(rows: Iterable[tuple[Any, ...]], wanted: TimeRange) -> dict[str, list[float]]:
    series: dict[str, list[float]] = {}
    for start, name, events in rows:
        values = series.setdefault(str(name), [0.0] * len(wanted.points))
        values[(int(start) - wanted.start) // wanted.step] += float(events) / wanted.step
    return {name: [round(value, 6) for value in series[name]] for name in sorted(series)}
