"""One answer for the metrics view and for Prometheus, from the tables, the journal and the fleet."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.dashboard import figures
from jobwire.dashboard.figures import Freshness, JournalEnd, Steps, TimeRange
from jobwire.dashboard.fleet import Group, Row, tally
from jobwire.jobs.lifecycle import Status
from jobwire.metrics.buckets import DELAY, DURATION, QUEUED, WAITED
from jobwire.metrics.database import Database
from jobwire.metrics.rates import WRONG_OUTCOMES

_FOREVER = float("inf")


class Live(NamedTuple):
    """What this process knows itself: the fleet, waits folded from the journal, the journal's end."""

    rows: Mapping[str, Row]
    waits: list[tuple[float, float]]
    journal: JournalEnd
    query_runs: bool | None = None


class MetricsReport(NamedTuple):
    """The figures of one range. Series have one value a step; None where there is nothing to say.

    `durations`, `queued`, `waiting` and `error_rate` speak of jobs and have one value a `job_points`.
    `missing` names the jobs that are in no figure.
    """

    freshness: Freshness
    points: list[int]
    step: int
    job_step: int
    present: Mapping[str, int]
    job_points: Sequence[int] = ()
    events: Mapping[str, list[float]] = {}
    rejections: Mapping[str, list[float]] = {}
    jobs: Mapping[str, list[int]] = {}
    durations: Mapping[str, list[float | None]] = {}
    durations_total: Mapping[str, float | None] = figures.quantiles([])
    queued: Mapping[str, list[float | None]] = {}
    queued_total: Mapping[str, float | None] = figures.quantiles([])
    waiting: Mapping[str, list[float | None]] = {}
    waiting_total: Mapping[str, float | None] = figures.quantiles([])
    delay: Mapping[str, list[float | None]] = {}
    error_rate: Sequence[float | None] = ()
    finished: Mapping[str, int] = {}
    sessions: Sequence[Mapping[str, object]] = ()
    missing: str = ""


def report(database: Database, live: Live, *, seconds: int, now: float) -> MetricsReport:
    """Return the figures of the last `seconds`. Raises JobwireError where the tables cannot be read."""
    wanted = figures.span(seconds, now)
    by_job = wanted._replace(step=wanted.step * figures.JOB_STEPS)
    events = figures.event_rates(database, wanted)
    durations, queued, waiting = (
        figures.lengths(database, by_job, measure) for measure in (DURATION, QUEUED, WAITED)
    )
    still = _open_intervals(figures.open_since(database), live.rows)
    return MetricsReport(
        freshness=figures.freshness(database, now, live.journal, running=live.query_runs),
        points=wanted.points,
        step=wanted.step,
        job_points=by_job.points,
        job_step=by_job.step,
        events=events,
        rejections=figures.rejections(database, wanted),
        present=_present(live.rows),
        jobs={
            "running": figures.running_over_time(database, wanted, still),
            "waiting": figures.count_over_time(live.waits, wanted),
        },
        durations=figures.quantiles_over_time(durations, by_job),
        durations_total=figures.quantiles(figures.every(durations)),
        queued=figures.quantiles_over_time(queued, by_job),
        queued_total=figures.quantiles(figures.every(queued)),
        waiting=figures.quantiles_over_time(waiting, by_job),
        waiting_total=figures.quantiles(figures.every(waiting)),
        delay=figures.quantiles_over_time(figures.lengths(database, wanted, DELAY), wanted),
        error_rate=_error_rate(durations, by_job),
        finished=_outcomes(durations),
        sessions=figures.sessions(database, wanted),
    )


def safe_report(
    open_tables: Callable[[], Database], live: Live, *, seconds: int, now: float
) -> MetricsReport:
    """Return the figures, or empty ones that say why; never raises for the tables."""
    try:
        with contextlib.closing(open_tables()) as database:
            return report(database, live, seconds=seconds, now=now)
    except JobwireError as error:
        why = figures.NO_METRICS if isinstance(error, NotFoundError) else error.message
        wanted = figures.span(seconds, now)
        return MetricsReport(
            Freshness("none", why),
            wanted.points,
            wanted.step,
            job_step=wanted.step * figures.JOB_STEPS,
            present=_present(live.rows),
        )


def _open_intervals(since: Mapping[str, float], rows: Mapping[str, Row]) -> list[tuple[float, float]]:
    """Return when jobs ran that the tables call open: a cancelled job sent no event, the fleet knows it."""
    intervals = []
    for job_id, started in since.items():
        row = rows.get(job_id)
        if row is not None:
            intervals.append((started, row.finished or _FOREVER))
    return intervals


def _present(rows: Mapping[str, Row]) -> dict[str, int]:
    """Return how many jobs run and wait at this moment, as the fleet knows it."""
    running = sum(row.status == Status.RUNNING for row in rows.values())
    return {"running": running, "waiting": tally(rows.values())[Group.WAITING]}


def _error_rate(ended: Steps, wanted: TimeRange) -> list[float | None]:
    """Return the share of ended jobs that ended wrong at each step."""
    every, bad = [0] * len(wanted.points), [0] * len(wanted.points)
    for (place, outcome), number in figures.counts(ended).items():
        every[place] += number
        bad[place] += number * (outcome in WRONG_OUTCOMES)
    return [round(errors / count, 4) if count else None for errors, count in zip(bad, every, strict=True)]


def _outcomes(ended: Steps) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, outcome), number in figures.counts(ended).items():
        found[outcome] = found.get(outcome, 0) + number
    return {outcome: number for outcome, number in sorted(found.items()) if number}
