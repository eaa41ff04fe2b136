"""The same figures for Prometheus. Label values come from fixed sets: no job, session or text is one."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobwire.core.override import override
from jobwire.dashboard.coordination.figures import StoreFigures
from jobwire.dashboard.fleet import Group, tally
from jobwire.dashboard.report import Live, MetricsReport
from jobwire.jobs.admission import ACCEPTED, Reason
from jobwire.jobs.event import EVENT_TYPES
from jobwire.jobs.fact import FactKind
from jobwire.jobs.lifecycle import Status
from jobwire.metrics.rates import WRONG_OUTCOMES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The metrics below that come from the tables speak of this range.
RANGE_SECONDS = 900
_STATES = ("none", "live", "behind", "idle", "stopped")
_VERDICTS = (ACCEPTED, *(str(reason) for reason in Reason))
_OUTCOMES = ("completed", "cancelled", *sorted(WRONG_OUTCOMES))
# Not the label "quantile": that belongs to summaries, whose counts never fall; these are of a range.
_PERCENTILES = {"p50": "50", "p95": "95", "p99": "99"}


class Figures(NamedTuple):
    """What one scrape is made of. The counters began when this process did."""

    live: Live
    counts: Mapping[str, int]
    verdicts: Mapping[str, int]
    events: Mapping[str, int]
    facts: Mapping[str, int]
    report: MetricsReport
    store: StoreFigures
    pages: int
    now: float


def exposition(collect: Callable[[], Figures]) -> bytes:
    """Return the text that Prometheus reads."""
    return generate_latest(_FleetCollector(collect))


class _FleetCollector(Collector):
    def __init__(self, collect: Callable[[], Figures]) -> None:
        self._collect = collect

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield every metric of one moment."""
        figures = self._collect()
        yield from _jobs(figures)
        yield from _store(figures.store)
        yield from _messages(figures)
        yield from _from_tables(figures.report, figures.now)


def _jobs(figures: Figures) -> Iterator[Metric]:
    rows = figures.live.rows.values()
    statuses = {str(status): figures.counts.get(str(status), 0) for status in Status}
    yield _gauge("jobs", "Jobs in the registry by status.", "status", statuses)
    needs = "Jobs of the fleet by what they need; failed: within the last day."
    yield _gauge("fleet_jobs", needs, "group", tally(rows))
    waiting = [row.last for row in rows if row.group == Group.WAITING and row.last]
    asked = [float(str(one["asked"])) for row in rows for one in row.asks]
    longest = figures.now - min(waiting, default=figures.now)
    oldest = max(0.0, figures.now - min(asked, default=figures.now))
    yield from _numbers(
        ("oldest_permission_wait_seconds", "How long the longest wait for a permission lasts.", longest),
        ("dashboard_pages", "Pages that are open.", figures.pages),
        ("open_requests", "Requests of jobs that nobody has answered.", len(asked)),
        ("oldest_request_seconds", "Age of the oldest open request.", oldest),
    )


def _store(found: StoreFigures) -> Iterator[Metric]:
    yield from _numbers(("store_readable", "0: the agents' store cannot be read.", found.readable))
    if not found.readable:
        return
    yield from _numbers(
        ("unread_messages", "Messages that a recipient has not read.", found.unread),
        ("oldest_unread_seconds", "Age of the oldest unread message.", found.oldest_unread),
        ("blocked_threads", "Conversations that are blocked.", found.blocked),
        ("blocked_seconds", "How long nothing was said in the oldest of them.", found.blocked_for),
        ("dead_deliveries", "Messages that were given up for a recipient.", found.dead),
        ("file_locks", "File locks that are held.", found.locks),
        ("lock_waiters", "Requests that wait for file locks.", found.waiters),
        ("longest_lock_wait_seconds", "How long the longest of them has waited.", found.longest_wait),
    )
    yield _gauge("agents", "Agents by state; gone: within a day.", "state", found.agents)


def _messages(figures: Figures) -> Iterator[Metric]:
    for name, text, label, values, counts in (
        ("messages", "Journaled messages by verdict", "verdict", _VERDICTS, figures.verdicts),
        ("events", "Accepted events by type", "event", sorted(EVENT_TYPES), figures.events),
        ("facts", "Decisions of the registry by kind", "kind", map(str, FactKind), figures.facts),
    ):
        counter = CounterMetricFamily(f"jobwire_{name}", f"{text} since this process began.", labels=[label])
        for value in values:
            counter.add_metric([value], counts.get(value, 0))
        yield counter
    end = figures.live.journal.offset
    yield from _numbers(("journal_offset", "The journal's end; -1 without a journal.", end))


def _from_tables(report: MetricsReport, now: float) -> Iterator[Metric]:
    fresh = report.freshness
    states = {state: float(state == fresh.state) for state in _STATES}
    yield _gauge("metrics_state", "1 for the state of the streaming query.", "state", states)
    age = None if fresh.updated_at is None else now - fresh.updated_at
    ended = sum(report.finished.values())
    wrong = sum(report.finished.get(outcome, 0) for outcome in WRONG_OUTCOMES)
    yield from _numbers(
        ("metrics_age_seconds", "Time since the metric tables changed.", age),
        ("metrics_backlog_messages", "Messages not counted yet.", fresh.backlog),
        (
            "job_error_ratio",
            "Share of the jobs ended in 15 min that ended in error, by a timeout or by the registry.",
            wrong / ended if ended else 0.0,
        ),
    )
    outcomes = {outcome: report.finished.get(outcome, 0) for outcome in _OUTCOMES}
    yield _gauge("jobs_ended", "Jobs that ended in 15 min by how they ended.", "outcome", outcomes)
    newest = {name: _last(values) for name, values in report.delay.items()}
    for name, text, found in (
        ("job_duration", "Duration of jobs that ended in 15 min.", report.durations_total),
        (
            "queue_wait",
            "From registration to the first claim, of jobs claimed in 15 min.",
            report.queued_total,
        ),
        ("permission_wait", "Waiting time of jobs that waited and ended in 15 min.", report.waiting_total),
        ("delivery_delay", "From worker to journal, newest window.", newest),
    ):
        known = {
            percentile: value
            for key, percentile in _PERCENTILES.items()
            if (value := found.get(key)) is not None
        }
        yield _gauge(f"{name}_seconds", text, "percentile", known)


def _numbers(*found: tuple[str, str, float | None]) -> Iterator[Metric]:
    """Yield the metrics of (name, help, value) without labels; one that is not known is left out."""
    for name, text, value in found:
        if value is not None:
            yield GaugeMetricFamily(f"jobwire_{name}", text, value)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    metric = GaugeMetricFamily(f"jobwire_{name}", text, labels=[label])
    for value, number in values.items():
        metric.add_metric([value], number)
    return metric


def _last(values: list[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)
