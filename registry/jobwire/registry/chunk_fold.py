"""Folds the entries of some jobs into their records, under their locks and with one flush for all of them."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jobwire.core.errors import NotFoundError, StorageError
from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED, Reason
from jobwire.journal.admission import UNDECIDED
from jobwire.journal.entry import Entry
from jobwire.registry.audit import AuditLog, Line, identity_of
from jobwire.registry.backlog import Share
from jobwire.registry.journaled import Journaled, fold_journaled
from jobwire.registry.revision import Revision
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views, admission_fields, load
from jobwire.registry.wire import decide
from jobwire.storage import file_lock

# Jobs whose locks are held and whose records are flushed together.
CHUNK = 64
# Of the journal's verdicts, those that make an entry an event.
EVENTS = frozenset({ACCEPTED, str(Reason.LATE)})
_MICROSECONDS = 1_000_000
_log = logging.getLogger("jobwire.registry")

Chunk = Sequence[Share]


class FoldResult(NamedTuple):
    """Jobs that are folded, those whose lock is taken, those that failed and why, and what was written."""

    done: list[str]
    busy: list[str]
    failed: dict[str, str]
    revisions: list[Revision]
    disk_full: bool = False


class ChunkFold:
    """Called with a chunk, it folds it; in any thread, each job in one at a time.

    `read_until` is the offset up to which the journal was read. `begun_at`: up to there a line may be in the
    history and its record not, because the process died in between. `journal` takes the entries whose verdict
    was found here.
    """

    def __init__(
        self,
        *,
        store: RecordStore,
        views: Views,
        topics: Topics,
        journal: Callable[[Sequence[Entry]], object],
        read_until: Callable[[], int],
        begun_at: int,
    ) -> None:
        self._store = store
        self._views = views
        self._topics = topics
        self._journal = journal
        self._read_until = read_until
        self._careful_below = begun_at

    def __call__(self, chunk: Chunk) -> FoldResult:
        """Fold these jobs' entries under their locks; in any thread, each job in one."""
        try:
            return self._fold_together(chunk)
        except StorageError as error:
            jobs = [job_id for job_id, _ in chunk]
            # Lines may have been written already, and records: then folding again will change nothing.
            self._careful_below = max(self._careful_below, self._read_until())
            if error.facts.get("disk_full"):
                _log.error("%s; the journal keeps the events until there is room", error.message)
                return FoldResult([], jobs, {}, [], disk_full=True)
            if len(jobs) == 1:
                return FoldResult([], [], {jobs[0]: str(error)}, [])
        # One of them cannot be written: which one shows when each is alone.
        alone = [self([share]) for share in chunk]
        return FoldResult(
            [job_id for one in alone for job_id in one.done],
            [job_id for one in alone for job_id in one.busy],
            {job_id: why for one in alone for job_id, why in one.failed.items()},
            [revision for one in alone for revision in one.revisions],
            any(one.disk_full for one in alone),
        )

    def _fold_together(self, chunk: Chunk) -> FoldResult:
        outcome = FoldResult([], [], {}, [])
        found: list[Entry] = []
        with contextlib.ExitStack() as held:
            for job_id, entries in chunk:
                try:
                    self._store.require(job_id)
                    descriptor = file_lock.try_acquire(self._store.lock_path(job_id))
                    if descriptor is None:
                        # The others need not wait for whoever holds it.
                        outcome.busy.append(job_id)
                        continue
                    held.callback(file_lock.release, descriptor)
                    self._revise(job_id, entries, outcome.revisions, found)
                    outcome.done.append(job_id)
                except NotFoundError:
                    # Purged, or a stranger's message for a job that never was.
                    outcome.done.append(job_id)
                except StorageError as error:
                    if error.facts.get("disk_full"):
                        raise
                    outcome.failed[job_id] = str(error)
            self._store.write(outcome.revisions, announce=False)
            for one in outcome.revisions:
                self._views.folded(one.after)
        if found:
            self._journal_found(found)
        return outcome

    def _revise(
        self, job_id: str, entries: Sequence[Journaled], revisions: list[Revision], found: list[Entry]
    ) -> None:
        """Add what becomes of the record, and the entries whose verdict was found. Raises StorageError."""
        record = self._store.read_locked(job_id)
        log = self._store.audit(job_id)
        if any(entry.verdict == UNDECIDED for entry in entries):
            decided = decide(entries, load(log, admission_fields(record), local=set()))
            found += self._found(job_id, entries, decided)
            entries = decided
        folded = fold_journaled(record, entries, held=lambda: _held(log))
        lines = folded.lines
        if lines and entries[0].offset < self._careful_below:
            lines = _without_known(lines, log)
        if folded.record != record or lines:
            revisions.append(Revision(record, folded.record, [line for line, _ in lines]))

    def _found(
        self, job_id: str, entries: Sequence[Journaled], decided: Sequence[Journaled]
    ) -> Iterator[Entry]:
        """Yield the events among what was undecided as they go into the journal, for its other readers."""
        now_us = int(self._store.clock.now() * _MICROSECONDS)
        for before, after in zip(entries, decided, strict=True):
            if before.verdict == UNDECIDED and after.verdict in EVENTS:
                yield Entry(now_us, self._topics.events(job_id), after.payload, after.retained, after.verdict)

    def _journal_found(self, entries: Sequence[Entry]) -> None:
        try:
            self._journal(entries)
        except StorageError as error:
            # The records have them, and the journal as undecided; figures made from it lack them.
            _log.error("%d late verdicts are not journaled: %s", len(entries), error)


def _held(log: AuditLog) -> frozenset[int]:
    """Return the seqs of the accepted events in the history."""
    held = (line.get("seq") for line in log.lines() if line.get("verdict") == ACCEPTED)
    return frozenset(seq for seq in held if type(seq) is int)


def _without_known(lines: Sequence[tuple[bytes, Line]], log: AuditLog) -> list[tuple[bytes, Line]]:
    """Empty the lines that an interrupted batch has written already: nothing is added, and flushed."""
    known = [identity_of(line) for line in log.tail(2 * len(lines) + CHUNK)]
    return [(b"", identity) if identity in known else (line, identity) for line, identity in lines]
