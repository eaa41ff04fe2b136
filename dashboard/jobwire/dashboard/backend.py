"""What the server answers, apart from HTTP: one job, the metrics, an action. May block on the disk."""

import shlex
import threading
from collections import OrderedDict
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.core.errors import NotFoundError
from jobwire.dashboard.broadcast import Broadcaster
from jobwire.dashboard.coordination.figures import store_figures
from jobwire.dashboard.figures import STEPS
from jobwire.dashboard.fleet import Group, is_failure, judge, row_of
from jobwire.dashboard.index_reader import counts_now
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.prometheus import RANGE_SECONDS, Figures
from jobwire.dashboard.report import Live, MetricsReport, safe_report
from jobwire.dashboard.tables import TablesLocator
from jobwire.dashboard.timeline import shown_record
from jobwire.dashboard.waiting import WaitingHistory
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer

_FRESH_SECONDS = 1.0
# Looking for jobs without figures reads records, thousands where there are many.
_MISSING_SECONDS = 15.0
# Pieces of the journal folded before one answer: some 100,000 rows, half a second.
_PIECES = 20
_OUTPUT = "output.log"


class Backend:
    """What the pages ask for. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        model: FleetModel,
        queue: JobQueue,
        broadcaster: Broadcaster,
        waits: WaitingHistory,
        tables: TablesLocator,
        clock: Clock,
    ) -> None:
        self._source = model.source
        self._queue = queue
        self._broadcaster = broadcaster
        self._journal = model.journal
        self._waits = waits
        self._tables = tables
        self._clock = clock
        self._limits = model.limits
        self._guard = threading.Lock()
        self._reports: OrderedDict[int, tuple[float, MetricsReport]] = OrderedDict()
        self._counts: tuple[float, dict[str, int]] = (0.0, {})
        self._missing = (float("-inf"), "")

    def record(self, job_id: str) -> JobRecord:
        """Return the record; raises what RecordStore.get raises."""
        return self._source.store.get(job_id)

    def history_path(self, job_id: str) -> str:
        """Return the file of the job's history."""
        return self._source.store.audit(job_id).events_path

    def row(self, job_id: str) -> dict[str, object]:
        """Return the job's row, also of one that left the fleet. Raises NotFoundError."""
        known = self._broadcaster.rows.get(job_id)
        if known is None:
            facts = self._source.read(job_id, None)
            if facts is None:
                raise NotFoundError(f"no job {job_id}", job_id=job_id)
            known = row_of(facts, judge(facts, self._clock.now(), self._limits), self._limits)
        return known._asdict()

    def job(self, job_id: str) -> dict[str, object]:
        """Return everything the job view begins with, but for its history."""
        record = self.record(job_id)
        log = Path(self._source.store.log_dir(job_id)).absolute()
        output = log / _OUTPUT
        return {
            "record": shown_record(record),
            "row": self.row(job_id),
            "paths": {
                "history": str(log / "events.ndjson"),
                "output": str(output) if output.exists() else "",
            },
            "commands": self._commands(record, output),
        }

    def cancel(self, job_id: str, cause: str, *, by: str) -> dict[str, object]:
        """Cancel the job, durably, for a `cause` that names its author.

        Raises NotFoundError, ConflictError, StorageError.
        """
        record, done = self._queue.cancel(job_id, reason=cause, by=by)
        return {"job_id": record.job_id, "status": str(record.status), "cancelled": done}

    def answer(self, job_id: str, request_id: str, given: Answer) -> dict[str, object]:
        """Answer a request of the job, durably. Raises as `give_answer`."""
        asked = give_answer(self._queue, job_id, given, request_id=request_id)
        return {"job_id": job_id, "request": request_id, "state": str(asked.request.state)}

    def report(self, seconds: int) -> MetricsReport:
        """Return the figures of a range; asked again within a second, the same ones."""
        wanted = seconds if seconds in STEPS else 3600
        with self._guard:
            at, kept = self._reports.get(wanted, (float("-inf"), None))
            if kept is None or self._clock.monotonic() - at > _FRESH_SECONDS:
                found = safe_report(self._tables, self._live(), seconds=wanted, now=self._clock.now())
                kept = found._replace(missing=self._missing_jobs())
                self._reports[wanted] = (self._clock.monotonic(), kept)
            return kept

    def figures(self, pages: int) -> Figures:
        """Return what one scrape needs."""
        report = self.report(RANGE_SECONDS)
        with self._guard:
            return Figures(
                live=self._live(),
                counts=self._status_counts(),
                verdicts=dict(self._journal.verdicts),
                events=dict(self._journal.events),
                facts=dict(self._journal.facts),
                report=report,
                store=store_figures(Path(self._source.store.home), self._clock),
                pages=pages,
                now=self._clock.now(),
            )

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

    def _missing_jobs(self) -> str:
        at, sentence = self._missing
        if self._clock.monotonic() - at > _MISSING_SECONDS:
            sentence = self._tables.missing_jobs()
            self._missing = (self._clock.monotonic(), sentence)
        return sentence

    def _status_counts(self) -> dict[str, int]:
        at, counts = self._counts
        if self._clock.monotonic() - at > 5 * _FRESH_SECONDS or not counts:
            found = self._source.index_view()
            counts = counts_now(self._source.store.home, found) if found else {}
            self._counts = (self._clock.monotonic(), counts)
        return counts

    def _commands(self, record: JobRecord, output: Path) -> list[dict[str, str]]:
        job_id = record.job_id
        option = f" --home {shlex.quote(str(Path(self._source.store.home).absolute()))}"
        commands = [
            ("watch it", f"job_subscriber --job {job_id}{option}"),
            ("its record", f"jobwire registry show {job_id}{option}"),
        ]
        if output.exists():
            commands.append(("its output", f"tail -f {shlex.quote(str(output))}"))
        if is_failure(record):
            commands.append(("take it out of the failures", f"jobwire dismiss {job_id}{option}"))
        if not record.terminal:
            commands.append(("cancel it", f"jobwire registry cancel {job_id}{option}"))
        return [{"what": what, "command": command} for what, command in commands]
