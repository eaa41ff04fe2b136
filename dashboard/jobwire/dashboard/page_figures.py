"""The figures of the metrics view and of a scrape, kept while they are fresh. May block on the disk."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from jobwire.core.clock import Clock
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination.figures import store_figures
from jobwire.dashboard.figures import STEPS
from jobwire.dashboard.fleet import Group
from jobwire.dashboard.index_reader import counts_now
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.prometheus import RANGE_SECONDS, Figures
from jobwire.dashboard.report import Live, MetricsReport, safe_report
from jobwire.dashboard.tables import TablesLocator
from jobwire.dashboard.waiting import WaitingHistory

_FRESH_SECONDS = 1.0
_COUNTS_SECONDS = 5.0
# Looking for jobs without figures reads records, thousands where there are many.
_MISSING_SECONDS = 15.0
# Pieces of the journal folded before one answer: some 100,000 rows, half a second.
_PIECES = 20
_Value = TypeVar("_Value")


class _Kept(Generic[_Value]):
    """A value that is made anew once it is older than `seconds`."""

    def __init__(self, make: Callable[[], _Value], *, seconds: float, clock: Clock) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._made: tuple[float, _Value] | None = None

    def get(self) -> _Value:
        """Return the value."""
        if self._made is None or self._clock.monotonic() - self._made[0] > self._seconds:
            value = self._make()
            self._made = (self._clock.monotonic(), value)
        return self._made[1]


class PageFigures:
    """The figures of one home. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        model: FleetModel,
        broadcaster: Broadcaster,
        waits: WaitingHistory,
        tables: TablesLocator,
        clock: Clock,
    ) -> None:
        self._source = model.source
        self._journal = model.journal
        self._broadcaster = broadcaster
        self._waits = waits
        self._tables = tables
        self._clock = clock
        self._guard = threading.Lock()
        self._reports = {
            seconds: _Kept(partial(self._report, seconds), seconds=_FRESH_SECONDS, clock=clock)
            for seconds in STEPS
        }
        self._counts = _Kept(self._status_counts, seconds=_COUNTS_SECONDS, clock=clock)
        self._missing = _Kept(tables.missing_jobs, seconds=_MISSING_SECONDS, clock=clock)

    def report(self, seconds: int) -> MetricsReport:
        """Return the figures of a range; asked again within a second, the same ones."""
        with self._guard:
            return self._reports[seconds if seconds in STEPS else 3600].get()

    def scrape(self, pages: int) -> Figures:
        """Return what one scrape needs."""
        report = self.report(RANGE_SECONDS)
        with self._guard:
            return Figures(
                live=self._live(),
                counts=self._counts.get(),
                verdicts=dict(self._journal.verdicts),
                events=dict(self._journal.events),
                facts=dict(self._journal.facts),
                report=report,
                store=store_figures(Path(self._source.store.home), self._clock),
                pages=pages,
                now=self._clock.now(),
            )

    def _report(self, seconds: int) -> MetricsReport:
        found = safe_report(self._tables.open, self._live(), seconds=seconds, now=self._clock.now())
        return found._replace(missing=self._missing.get())

    def _live(self) -> Live:
        now = self._clock.now()
        for _ in range(_PIECES):
            self._waits.advance(now)
            if self._waits.complete:
                break
        # Copied in one step: the event loop's thread goes on changing it.
        rows = dict(self._broadcaster.rows)
        waiting = {job_id for job_id, row in rows.items() if row.group == Group.WAITING}
        return Live(rows, self._waits.intervals(waiting, now), self._journal.end, self._tables.query_runs())

    def _status_counts(self) -> dict[str, int]:
        found = self._source.index_view()
        return counts_now(self._source.store.home, found) if found else {}
