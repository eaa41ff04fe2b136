"""The fleet in memory: rebuilt from the records at the start, then kept up with every change."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.dashboard.fleet import Group, JobFacts, Row, Thresholds, judge, row_of, with_event
from jobwire.dashboard.inotify import DirectoryWatch, WatchLostError
from jobwire.dashboard.journal_tail import Arrival, JournalTail
from jobwire.dashboard.records import RecordSource, is_finished

# How often the records are looked through where the system cannot tell what changed.
POLL_SECONDS = 1.0
_SUFFIX = ".json"
_ID_LENGTH = 8
# Finished rows above the limit before the oldest go: not one by one at each end of a job.
_SLACK = 50


class Changes(NamedTuple):
    """What one look brought: rows that are new or different, and jobs that left the fleet."""

    rows: tuple[Row, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.gone)


class FleetModel:
    """All rows of one home directory. Used by one thread; nothing here writes.

    `watch` opens a directory watch or raises OSError; then the records are polled instead.
    """

    def __init__(
        self,
        *,
        source: RecordSource,
        journal: JournalTail,
        clock: Clock,
        limits: Thresholds,
        watch: Callable[[Path], DirectoryWatch] | None,
        keep_finished: int = 1000,
    ) -> None:
        self.limits = limits
        self.journal = journal
        self.rows: dict[str, Row] = {}
        self.source = source
        self._clock = clock
        self._open_watch = watch
        self._keep_finished = keep_finished
        self._watch: DirectoryWatch | None = None
        self._facts: dict[str, JobFacts] = {}
        self._until: dict[str, float] = {}
        self._next_poll = 0.0

    def start(self) -> None:
        """Read everything. The watch and the journal's end come first, so that nothing falls between."""
        self.journal.open()
        self._begin_watch()
        self._facts = self.source.read_all(self.source.job_ids())
        self._next_poll = self._clock.monotonic() + POLL_SECONDS
        now = self._clock.now()
        for job_id in self._facts:
            self._judge(job_id, now)
        self._trim()

    def wait(self, seconds: float) -> bool:
        """Return once a record changed, or after so long; False where the system cannot tell, at once."""
        if self._watch is None:
            return False
        self._watch.wait(seconds)
        return True

    def refresh(self) -> Changes:
        """Take in what changed since the last call; never waits."""
        now = self._clock.now()
        before = self.rows.copy()
        self._reread(self._changed_jobs())
        for arrival in self.journal.poll():
            self._take_event(arrival)
        for job_id in [job_id for job_id, until in self._until.items() if until <= now]:
            self._judge(job_id, now)
        self._trim()
        return _difference(before, self.rows)

    def facts(self, job_id: str) -> JobFacts | None:
        """Return what is known of a job of the fleet."""
        return self._facts.get(job_id)

    def close(self) -> None:
        """Close watch and journal."""
        self.journal.close()
        self._end_watch()

    def _take_event(self, arrival: Arrival) -> None:
        job_id = arrival.event.job_id
        facts = self._facts.get(job_id)
        if facts is None:
            self._reread([job_id])
            return
        after = with_event(facts, arrival.event, arrival.at)
        if after is not facts:
            self._facts[job_id] = after
            self._judge(job_id, self._clock.now())

    def _reread(self, job_ids: Iterable[str]) -> None:
        now = self._clock.now()
        for job_id in job_ids:
            facts = self.source.read(job_id, self._facts.get(job_id))
            if facts is None:
                self._forget(job_id)
            else:
                self._facts[job_id] = facts
                self._judge(job_id, now)

    def _judge(self, job_id: str, now: float) -> None:
        facts = self._facts[job_id]
        judgement = judge(facts, now, self.limits)
        self._until[job_id] = judgement.until
        row = row_of(facts, judgement, self.limits)
        if row != self.rows.get(job_id):
            self.rows[job_id] = row

    def _forget(self, job_id: str) -> None:
        self._facts.pop(job_id, None)
        self._until.pop(job_id, None)
        self.rows.pop(job_id, None)

    def _changed_jobs(self) -> set[str]:
        if self._watch is None:
            # The directory may have come into being meanwhile.
            return self._everything() if self._begin_watch() else self._poll()
        try:
            return _job_ids(self._watch.changed())
        except WatchLostError:
            self._end_watch()
            self._begin_watch()
            return self._everything()

    def _poll(self) -> set[str]:
        if self._clock.monotonic() < self._next_poll:
            return set()
        self._next_poll = self._clock.monotonic() + POLL_SECONDS
        return self._everything()

    def _everything(self) -> set[str]:
        still_open = {job_id for job_id, facts in self._facts.items() if not is_finished(facts)}
        return still_open | (self.source.job_ids() - self._facts.keys())

    def _begin_watch(self) -> bool:
        if self._open_watch is not None:
            with contextlib.suppress(OSError):
                self._watch = self._open_watch(Path(self.source.store.jobs_path()))
                return True
        return False

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    def _trim(self) -> None:
        """Keep the newest finished jobs, and every recent failure."""
        done = [row for row in self.rows.values() if row.group == Group.DONE]
        if len(done) <= self._keep_finished + _SLACK:
            return
        done.sort(key=lambda row: row.order)
        for row in done[self._keep_finished :]:
            self._forget(row.id)


def _job_ids(names: Iterable[str]) -> set[str]:
    """Return the jobs whose records are among file names; temporary files begin with a dot."""
    ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return {job_id for job_id in ids if len(job_id) == _ID_LENGTH and not job_id.startswith(".")}


def _difference(before: dict[str, Row], after: dict[str, Row]) -> Changes:
    rows = tuple(row for job_id, row in after.items() if before.get(job_id) is not row)
    gone = tuple(job_id for job_id in before if job_id not in after)
    return Changes(rows, gone)
