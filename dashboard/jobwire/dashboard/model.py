"""The fleet in memory: rebuilt from the records at the start, then kept up with every change.

A record is replaced by renaming over it, so inotify(7) names each changed record once (IN_MOVED_TO), at a
cost that does not depend on how many finished jobs lie in the directory. A poll would have to stat them all.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from inotify_simple import Event, INotify, flags

from jobwire.dashboard.fleet import Group, JobFacts, Row, Thresholds, judge, row_of, with_event
from jobwire.dashboard.journal_tail import Arrival, JournalTail
from jobwire.dashboard.records import RecordSource, is_finished, warn_operator
from jobwire.registry.store import RecordStore
from jobwire.storage.home_paths import HomePaths

# How often the records are looked through where the system cannot tell what changed.
POLL_SECONDS = 1.0
_WATCHED = flags.MOVED_TO | flags.DELETE | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
# Changes were lost, or the directory went away.
_LOST = flags.Q_OVERFLOW | flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED
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
    """All rows of the home directory of `store`. Used by one thread at a time; nothing here writes.

    inotify sees changes by processes of this host only: `poll` looks through the records instead, as is done
    where the directory is missing or the system has no watches left. `warn` is told what cannot be read.
    """

    def __init__(
        self,
        store: RecordStore,
        *,
        limits: Thresholds,
        poll: bool = False,
        warn: Callable[[str], None] = warn_operator,
        keep_finished: int = 1000,
    ) -> None:
        self.limits = limits
        self.rows: dict[str, Row] = {}
        self.source = RecordSource(store, warn=warn, failed_seconds=limits.failed_seconds)
        self.journal = JournalTail(HomePaths(store.home).journal, warn=warn)
        self._clock = store.clock
        self._poll = poll
        self._keep_finished = keep_finished
        self._watch: INotify | None = None
        self._waiting: list[Event] = []
        self._facts: dict[str, JobFacts] = {}
        self._until: dict[str, float] = {}
        self._next_poll = 0.0

    def start(self) -> None:
        """Read everything. The watch and the journal's end come first, so that nothing falls between."""
        self.journal.open()
        self._open_watch()
        self._facts = self.source.read_all(self.source.job_ids())
        self._next_poll = self._clock.monotonic() + POLL_SECONDS
        now = self._clock.now()
        for job_id in self._facts:
            self._judge(job_id, now)
        self._trim()

    def wait(self, seconds: float) -> None:
        """Return once a record changed, or after so long."""
        if self._watch is None:
            self._clock.sleep(seconds)
        elif not self._waiting:
            self._waiting += self._watch.read(timeout=max(1, round(seconds * 1000)))

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
        self._close_watch()

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
            return self._everything() if self._open_watch() or self._poll_is_due() else set()
        events = (*self._waiting, *self._watch.read(timeout=0))
        self._waiting.clear()
        if any(event.mask & _LOST for event in events):
            self._close_watch()
            self._open_watch()
            return self._everything()
        return _job_ids(event.name for event in events)

    def _poll_is_due(self) -> bool:
        now = self._clock.monotonic()
        due = now >= self._next_poll
        if due:
            self._next_poll = now + POLL_SECONDS
        return due

    def _everything(self) -> set[str]:
        still_open = {job_id for job_id, facts in self._facts.items() if not is_finished(facts)}
        return still_open | (self.source.job_ids() - self._facts.keys())

    def _open_watch(self) -> bool:
        if self._poll:
            return False
        try:
            watch = INotify(nonblocking=True)
        except OSError:
            return False
        try:
            watch.add_watch(self.source.store.jobs_path(), _WATCHED)
        except OSError:
            watch.close()
            return False
        self._watch = watch
        return True

    def _close_watch(self) -> None:
        self._waiting.clear()
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
