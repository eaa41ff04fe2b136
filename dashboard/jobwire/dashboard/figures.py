"""The figures of the metrics view: questions to the metric tables, answers ready to draw.

The tables are written by `jobwire metrics run` (metrics/jobwire/metrics/schema.sql). Everything asks for
a bounded range over an index, so a year of history does not slow a page that shows an hour.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from jobwire.metrics.buckets import BEGUN, DURATION, percentiles
from jobwire.metrics.database import Database

# Range in seconds -> (width of the windows read, seconds of one point on the chart).
STEPS: dict[int, tuple[int, int]] = {
    900: (10, 10),
    3600: (10, 30),
    21_600: (60, 180),
    86_400: (60, 600),
    604_800: (3600, 3600),
}
# Open jobs of which a page looks whether they run.
_MAX_JOBS = 50_000
_TOTAL_SESSIONS = 12
# A query that said nothing for so long while rows wait for it no longer runs: its slowest
# batch takes seconds.
STOPPED_SECONDS = 30.0
BEHIND_SECONDS = 10.0
NO_METRICS = "No metrics yet: `jobwire metrics run` computes them."


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

    @property
    def windows(self) -> tuple[int, int, int]:
        """Return what the queries ask by: the windows' width, the first one's start, and the end."""
        return (self.width, self.start, self.end)


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


def freshness(database: Database, now: float, journal: JournalEnd, *, running: bool | None) -> Freshness:
    """Say whether the streaming query follows the journal; `running` None where only its traces tell."""
    health = database.rows(
        "SELECT updated_at, backlog, duration_ms, watermark_at FROM health ORDER BY updated_at DESC LIMIT 1"
    )
    # What every shard has of it.
    places = database.rows("SELECT journal, MIN(next_offset), MAX(updated_at) FROM progress GROUP BY journal")
    progress = {row[0]: row[1:] for row in places}
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


def event_rates(database: Database, wanted: TimeRange) -> dict[str, list[float]]:
    """Return events a second of each type at each step."""
    rows = database.rows(
        # The counts themselves: the view would sum them a first time.
        "SELECT window_start, event_type, SUM(events) FROM window_counts "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? "
        "GROUP BY window_start, event_type",
        wanted.windows,
    )
    return _rates(rows, wanted)


def rejections(database: Database, wanted: TimeRange) -> dict[str, list[float]]:
    """Return refused messages a second by reason at each step."""
    rows = database.rows(
        "SELECT window_start, reason, SUM(events) FROM rejection_counts "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? GROUP BY window_start, reason",
        wanted.windows,
    )
    return _rates(rows, wanted)


def sessions(database: Database, wanted: TimeRange) -> list[dict[str, object]]:
    """Return the sessions with the most events in the range."""
    rows = database.rows(
        "SELECT session, SUM(events) AS total FROM window_counts "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? "
        "GROUP BY session ORDER BY total DESC LIMIT ?",
        (*wanted.windows, _TOTAL_SESSIONS),
    )
    return [{"session": session, "events": int(total)} for session, total in rows]


Counts = list[tuple[int, int]]
Steps = dict[tuple[int, str], Counts]


def lengths(database: Database, wanted: TimeRange, measure: str) -> Steps:
    """Return the buckets (buckets.py) of a measure by the number of the step and the jobs' outcome."""
    rows = database.rows(
        "SELECT (window_start - ?) / ?, outcome, bucket, SUM(events) FROM histograms "
        "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? "
        "AND measure = ? AND dimension = '' GROUP BY 1, 2, 3",
        (wanted.start, wanted.step, *wanted.windows, measure),
    )
    found: Steps = {}
    for place, outcome, bucket, events in rows:
        found.setdefault((int(place), str(outcome)), []).append((bucket, int(events)))
    return found


def counts(found: Steps) -> dict[tuple[int, str], int]:
    """Return how many there are of each step and outcome."""
    return {key: sum(number for _, number in buckets) for key, buckets in found.items()}


def running_over_time(
    database: Database, wanted: TimeRange, still: Iterable[tuple[float, float]]
) -> list[int]:
    """Return how many jobs ran at the end of each step; `still` are intervals of those that have no end."""
    running = count_over_time(still, wanted)
    change = dict.fromkeys(range(len(running)), 0)
    for measure, sign in ((DURATION, 1), (BEGUN, -1)):
        # How long they took is not asked for: that would be many rows of each step.
        rows = database.rows(
            "SELECT (window_start - ?) / ?, SUM(events) FROM histograms "
            "WHERE width_seconds = ? AND window_start >= ? AND window_start < ? "
            "AND measure = ? AND dimension = '' GROUP BY 1",
            (wanted.start, wanted.step, *wanted.windows, measure),
        )
        for place, number in rows:
            change[int(place)] += sign * int(number)
    # Whoever ended after a step, and did not begin after it, ran then: counted from the range's end.
    after = 0
    for place in reversed(range(len(running))):
        running[place] += after
        after += change[place]
    return running


def open_since(database: Database) -> dict[str, float]:
    """Return when each job that the tables call open started."""
    rows = database.rows(
        "SELECT job_id, started_us FROM job_totals AS t WHERE outcome = 'open' AND NOT EXISTS "
        "(SELECT 1 FROM job_facts AS f WHERE f.job_id = t.job_id AND f.outcome IS NOT NULL) LIMIT ?",
        (_MAX_JOBS,),
    )
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


_QUANTILES = ("p50", "p95", "p99")


def quantiles(buckets: Iterable[tuple[int, int]]) -> dict[str, float | None]:
    """Return p50, p95 and p99 in seconds by the nearest-rank method, None where nothing was counted."""
    found = percentiles(buckets)
    return {name: getattr(found, f"{name}_ms") / 1000 if found else None for name in _QUANTILES}


def quantiles_over_time(found: Steps, wanted: TimeRange) -> dict[str, list[float | None]]:
    """Return the quantiles of each step, whatever the outcome."""
    steps: list[Counts] = [[] for _ in wanted.points]
    for (place, _), buckets in found.items():
        steps[place] += buckets
    values = [quantiles(buckets) for buckets in steps]
    return {name: [value[name] for value in values] for name in _QUANTILES}


def every(found: Steps) -> Counts:
    """Return all buckets of the range."""
    return [pair for buckets in found.values() for pair in buckets]


def _rates(rows: Iterable[tuple[Any, ...]], wanted: TimeRange) -> dict[str, list[float]]:
    series: dict[str, list[float]] = {}
    for start, name, events in rows:
        values = series.setdefault(str(name), [0.0] * len(wanted.points))
        values[(int(start) - wanted.start) // wanted.step] += float(events) / wanted.step
    return {name: [round(value, 6) for value in series[name]] for name in sorted(series)}
