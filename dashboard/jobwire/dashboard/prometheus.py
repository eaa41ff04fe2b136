"""The same figures for Prometheus. Label values come from fixed sets: no job, session or text is one."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
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
    registry = CollectorRegistry()
    registry.register(_FleetCollector(collect))
    return generate_latest(registry)


class _FleetCollector(Collector):
    def __init__(self, collect: Callable[[], Figures]) -> None:
        self._collect = collect

    def describe(self) -> list[Metric]:
        """Promise nothing, so that registering collects nothing."""
        return []

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield every metric of one moment."""
        figures = self._collect()
        yield from _jobs(figures)
        yield from _requests(figures)
        yield from _store(figures.store)
        yield from _messages(figures)
        yield from _from_tables(figures.report, figures.now)


def _jobs(figures: Figures) -> Iterator[Metric]:
    yield _gauge(
        "jobwire_jobs",
        "Jobs in the registry by status.",
        "status",
        {str(status): figures.counts.get(str(status), 0) for status in Status},
    )
    groups = tally(figures.live.rows.values())
    yield _gauge(
        "jobwire_fleet_jobs",
        "Jobs of the fleet by what they need; failed: within the last day.",
        "group",
        {str(group): groups[group] for group in Group},
    )
    waiting = [row.last for row in figures.live.rows.values() if row.group == Group.WAITING and row.last]
    oldest = figures.now - min(waiting) if waiting else 0.0
    yield GaugeMetricFamily(
        "jobwire_oldest_permission_wait_seconds", "How long the longest wait for a permission lasts.", oldest
    )
    yield GaugeMetricFamily("jobwire_dashboard_pages", "Pages that are open.", figures.pages)


def _requests(figures: Figures) -> Iterator[Metric]:
    asked = [float(str(one["asked"])) for row in figures.live.rows.values() for one in row.asks]
    yield GaugeMetricFamily("jobwire_open_requests", "Requests of jobs that nobody has answered.", len(asked))
    oldest = max(0.0, figures.now - min(asked)) if asked else 0.0
    yield GaugeMetricFamily("jobwire_oldest_request_seconds", "Age of the oldest open request.", oldest)


def _store(found: StoreFigures) -> Iterator[Metric]:
    yield GaugeMetricFamily("jobwire_store_readable", "0: the agents' store cannot be read.", found.readable)
    if not found.readable:
        return
    for name, text, value in (
        ("unread_messages", "Messages that a recipient has not read.", found.unread),
        ("oldest_unread_seconds", "Age of the oldest unread message.", found.oldest_unread),
        ("blocked_threads", "Conversations that are blocked.", found.blocked),
        ("blocked_seconds", "How long nothing was said in the oldest of them.", found.blocked_for),
        ("dead_deliveries", "Messages that were given up for a recipient.", found.dead),
        ("file_locks", "File locks that are held.", found.locks),
        ("lock_waiters", "Requests that wait for file locks.", found.waiters),
        ("longest_lock_wait_seconds", "How long the longest of them has waited.", found.longest_wait),
    ):
        yield GaugeMetricFamily(f"jobwire_{name}", text, value)
    yield _gauge("jobwire_agents", "Agents by state; gone: within a day.", "state", found.agents)


def _messages(figures: Figures) -> Iterator[Metric]:
    verdicts = CounterMetricFamily(
        "jobwire_messages", "Journaled messages by verdict since this process began.", labels=["verdict"]
    )
    for verdict in _VERDICTS:
        verdicts.add_metric([verdict], figures.verdicts.get(verdict, 0))
    yield verdicts
    events = CounterMetricFamily(
        "jobwire_events", "Accepted events by type since this process began.", labels=["event"]
    )
    for event in sorted(EVENT_TYPES):
        events.add_metric([event], figures.events.get(event, 0))
    yield events
    facts = CounterMetricFamily(
        "jobwire_facts", "Decisions of the registry by kind since this process began.", labels=["kind"]
    )
    for kind in FactKind:
        facts.add_metric([str(kind)], figures.facts.get(str(kind), 0))
    yield facts
    yield GaugeMetricFamily(
        "jobwire_journal_offset", "The journal's end; -1 without a journal.", figures.live.journal.offset
    )


def _from_tables(report: MetricsReport, now: float) -> Iterator[Metric]:
    fresh = report.freshness
    states = {state: float(state == fresh.state) for state in _STATES}
    yield _gauge("jobwire_metrics_state", "1 for the state of the streaming query.", "state", states)
    if fresh.updated_at is not None:
        yield GaugeMetricFamily(
            "jobwire_metrics_age_seconds", "Time since the metric tables changed.", now - fresh.updated_at
        )
    if fresh.backlog is not None:
        yield GaugeMetricFamily(
            "jobwire_metrics_backlog_messages", "Messages not counted yet.", fresh.backlog
        )
    yield _percentiles(
        "jobwire_job_duration_seconds", "Duration of jobs that ended in 15 min.", report.durations_total
    )
    yield _percentiles(
        "jobwire_queue_wait_seconds",
        "From registration to the first claim, of jobs claimed in 15 min.",
        report.queued_total,
    )
    yield _percentiles(
        "jobwire_permission_wait_seconds",
        "Waiting time of jobs that waited and ended in 15 min.",
        report.waiting_total,
    )
    newest = {name: _last(values) for name, values in report.delay.items()}
    yield _percentiles("jobwire_delivery_delay_seconds", "From worker to journal, newest window.", newest)
    ended = sum(report.finished.values())
    yield _gauge(
        "jobwire_jobs_ended",
        "Jobs that ended in 15 min by how they ended.",
        "outcome",
        {outcome: report.finished.get(outcome, 0) for outcome in _OUTCOMES},
    )
    yield GaugeMetricFamily(
        "jobwire_job_error_ratio",
        "Share of the jobs ended in 15 min that ended in error, by a timeout or by the registry.",
        sum(report.finished.get(outcome, 0) for outcome in WRONG_OUTCOMES) / ended if ended else 0.0,
    )


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    metric = GaugeMetricFamily(name, text, labels=[label])
    for value, number in values.items():
        metric.add_metric([value], number)
    return metric


def _percentiles(name: str, text: str, values: Mapping[str, float | None]) -> Metric:
    metric = GaugeMetricFamily(name, text, labels=["percentile"])
    for key, percentile in _PERCENTILES.items():
        value = values.get(key)
        if value is not None:
            metric.add_metric([percentile], value)
    return metric


def _last(values: list[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)
