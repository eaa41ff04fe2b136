"""Reading jobs for the fleet: who is there at the start, and one job again after it changed. Reads only."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from jobwire.core.clock import epoch, utc_timestamp
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.dashboard.fleet import JobFacts, LastEvent, newer, percent_of, with_record
from jobwire.dashboard.index_reader import IndexView, current_index
from jobwire.dashboard.timeline import entry, text_of
from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore

# Finished jobs on the page: the newest ones. All others are found by their id.
RECENT = 1000
# Lines looked at for a job's newest event: behind it may stand refusals and changes of state.
_TAIL = 12

Warn = Callable[[str], None]


def warn_operator(text: str) -> None:
    """Tell the operator, on stderr."""
    print(f"jobwire dashboard: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a log line of a server


class RecordSource:
    """The jobs of one home directory. `warn` is told of records that cannot be read.

    `unread` names those that the operating system keeps from us.
    """

    def __init__(
        self, store: RecordStore, *, warn: Warn, failed_seconds: float, recent: int = RECENT
    ) -> None:
        self.store = store
        self._warn = warn
        self._failed_seconds = failed_seconds
        self._recent = recent
        self.unread: set[str] = set()

    def index_view(self) -> IndexView | None:
        """Return what the index says, as `current_index`."""
        since = utc_timestamp(self.store.clock.now() - self._failed_seconds)
        return current_index(self.store.home, failed_since=since, limit=self._recent, warn=self._warn)

    def job_ids(self) -> set[str]:
        """Return the jobs of the page: all that are open, the newest finished ones, recent failures."""
        found = self.index_view()
        if found is None:
            # No index: every record is read once, and the caller keeps what it wants.
            return set(self.store.job_ids())
        return set(found.open | found.failed | found.touched.keys() | frozenset(found.recent))

    def read_all(self, job_ids: Iterable[str]) -> dict[str, JobFacts]:
        """Return the facts of those jobs that can be read."""
        found = {}
        for job_id in job_ids:
            facts = self.read(job_id, None)
            if facts is not None:
                found[job_id] = facts
        return found

    def read(self, job_id: str, before: JobFacts | None) -> JobFacts | None:
        """Return the job's facts as the disk has them, or None where it is gone or unreadable."""
        self.unread.discard(job_id)
        try:
            record = self.store.get(job_id)
        except NotFoundError:
            return None
        except JobwireError as error:
            self._warn(str(error))
            if "errno" in error.facts:
                self.unread.add(job_id)
            return None
        if before is not None and before.last is not None and before.last.seq == record.last_seq:
            return with_record(before, record, before.last)
        last = self._last_event(job_id, before) if record.last_seq else None
        return with_record(before, record, last)

    def history(self, job_id: str, count: int) -> list[str]:
        """Return the last lines of a job's history as text, newest first. Raises StorageError."""
        record = self.store.get(job_id)
        lines = self.store.audit(job_id).tail(count)
        return [text_of(entry(line, record)) for line in reversed(lines)]

    def _last_event(self, job_id: str, before: JobFacts | None) -> LastEvent | None:
        known = before.last if before else None
        try:
            lines = self.store.audit(job_id).tail(_TAIL)
        except JobwireError as error:
            self._warn(str(error))
            return known
        for line in lines:
            event = _accepted(line)
            if event is not None:
                known = newer(known, event)
        return known


def _accepted(line: dict[str, Any]) -> LastEvent | None:
    """Return the accepted event of an audit line, or None where it is something else."""
    event = line.get("event")
    if line.get("verdict") != "accepted" or not isinstance(event, dict):
        return None
    seq, name, data = event.get("seq"), event.get("event"), event.get("data")
    if type(seq) is not int or not isinstance(name, str):
        return None
    try:
        at = epoch(str(line.get("at")))
    except ValueError:
        return None
    return LastEvent(seq, at, name, percent_of(data) if isinstance(data, dict) else None)


def is_finished(facts: JobFacts) -> bool:
    """Tell whether the job can change no more."""
    return facts.record.status not in {Status.PENDING, Status.RUNNING}
