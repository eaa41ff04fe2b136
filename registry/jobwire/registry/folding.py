"""Folds the journal into the records, in batches, and commits how far it came.

Several entries of a job become one write of its record, several records share the flush of their
directory. A kill at any moment repeats a batch, which changes nothing (`journaled`).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from jobwire.core.admission import ACCEPTED, Parsed, Reason, parse
from jobwire.core.clock import Clock
from jobwire.core.errors import NotFoundError, StorageError
from jobwire.core.event import TERMINAL_EVENTS
from jobwire.core.record import JobRecord
from jobwire.core.topics import Topics
from jobwire.journal import JournalReader, Stored
from jobwire.journal.consumers import Consumers
from jobwire.registry import locks
from jobwire.registry.audit import AuditLog, Line, identity_of
from jobwire.registry.backlog import Backlog, Share, Turn
from jobwire.registry.journaled import Journaled, fold_journaled
from jobwire.registry.quarantine import QuarantinedRecordError
from jobwire.registry.store import RecordStore, Revision
from jobwire.registry.views import Views

CONSUMER = "registry"
# Rows read at once; jobs whose locks are held and whose records are flushed together.
_ROWS = 4000
_CHUNK = 64
_RETRY_SECONDS = 0.1
_ROOM_SECONDS = 1.0
_WORKERS = 3
_COMMIT_SECONDS = 0.5
_MICROSECONDS = 1_000_000
_FOLDED = frozenset({ACCEPTED, str(Reason.LATE)})
_log = logging.getLogger("jobwire.registry")

OnFolded = Callable[[str, JobRecord | None, bool], None]
_Chunk = Sequence[Share]


class _Outcome(NamedTuple):
    """Jobs that are folded, jobs that must wait, and what was written."""

    done: list[str]
    put_off: list[str]
    revisions: list[Revision]
    disk_full: bool = False


class Folder:
    """Follows the journal from the committed offset on; used from one thread (it has helpers of its own).

    `on_folded(job_id, record, urgent)` is told of each record that changed; urgent where more than its
    progress did, with None where it may have changed and is to be read. Raises StorageError other than
    a full disk, which it waits out.
    """

    def __init__(
        self,
        *,
        store: RecordStore,
        views: Views,
        topics: Topics,
        reader: JournalReader,
        durable_offset: Callable[[], int],
        consumers: Consumers,
        clock: Clock,
        on_folded: OnFolded,
    ) -> None:
        self._store = store
        self._views = views
        self._topics = topics
        self._reader = reader
        self._durable_offset = durable_offset
        self._consumers = consumers
        self._clock = clock
        self._on_folded = on_folded
        self._backlog = Backlog(clock.monotonic())
        self._next = self._committed = consumers.register(CONSUMER)
        self._read_until = float("-inf")
        # Everything below the offset is in the records, and all that was received until then (epoch seconds).
        self.offset = self._next
        self._complete_until = float("-inf")
        # Up to here a line may be in the history and its record not: the process died in between.
        self._careful_below = durable_offset()
        self._commit_at = 0.0
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="fold")
        self.folded = 0
        # Called at each step of a long round, so that it can be told from standing still.
        self.on_step: Callable[[], None] = lambda: None
        self._full = False

    @property
    def stalled(self) -> bool:
        """Tell whether it waits for room on the disk; from any thread."""
        return self._full

    def caught_up(self) -> bool:
        """Tell whether all that is journaled is folded; from any thread."""
        return self.offset >= self._durable_offset()

    def complete_until(self) -> float:
        """Return the epoch second up to which all that was received is in the records; from any thread."""
        now = self._clock.now()
        return now if self.caught_up() else min(now, self._complete_until)

    def step(self, *, hurry: bool = False) -> bool:
        """Read, and fold what is due; `hurry` folds what could wait. Tell whether there was anything."""
        now = self._clock.monotonic()
        rows = self._read(now)
        due = self._backlog.take(now, everything=hurry)
        chunks = [due[first : first + _CHUNK] for first in range(0, len(due), _CHUNK)]
        # The disk works for several chunks at once; most of the time is spent waiting for it.
        fold_all = self._workers.map if len(chunks) > 1 else map
        for outcome in fold_all(self._fold, chunks):
            self._settle(outcome)
            self.on_step()
        first = self._backlog.first()
        self._complete_until = first.received_at if first is not None else self._read_until
        self.offset = first.offset if first is not None else self._next
        self.commit(now)
        return bool(rows or due)

    def commit(self, now: float | None = None) -> None:
        """Commit the offset; with `now` (monotonic) only if the last time is long enough ago."""
        offset = self.offset
        if offset == self._committed or (now is not None and now < self._commit_at):
            return
        try:
            self._consumers.commit(CONSUMER, offset)
        except StorageError as error:
            if not error.facts.get("disk_full"):
                raise
            # What is not committed is only read once more at the next start.
            _log.error("%s; the place is committed when there is room", error.message)
            self._commit_at = self._clock.monotonic() + _ROOM_SECONDS
        else:
            self._committed = offset
            self._commit_at = self._clock.monotonic() + _COMMIT_SECONDS

    def close(self) -> None:
        """Commit, and end the threads."""
        self._workers.shutdown()
        self.commit()

    def _read(self, now: float) -> int:
        """Read what is journaled, as far as there is room in the backlog; return the number of rows."""
        count = 0
        while not self._backlog.full:
            rows = self._reader.read(self._next, max_rows=_ROWS)
            if not rows:
                break
            for row in rows:
                self._take(row, now)
            self.on_step()
            count += len(rows)
            self._next = rows[-1].offset + 1
            self._read_until = rows[-1].received_at_us / _MICROSECONDS
        return count

    def _take(self, row: Stored, now: float) -> None:
        address = self._topics.parse(row.topic)
        if address is None or address.kind != "events":
            return
        if row.verdict not in _FOLDED and not self._store.exists(address.job_id):
            return  # a stranger's message: as many topics as it likes, and none takes a job's turn
        parsed = parse(self._topics, row.topic, row.payload)
        entry = Journaled(
            row.offset,
            row.received_at_us / _MICROSECONDS,
            row.verdict,
            row.payload,
            parsed if isinstance(parsed, Parsed) else None,
        )
        self._backlog.add(address.job_id, entry, self._turn(address.job_id, entry), now)

    def _turn(self, job_id: str, entry: Journaled) -> Turn:
        event = entry.parsed.event if entry.parsed is not None else None
        if event is None or entry.verdict != ACCEPTED:
            return Turn.CALM
        if event.event not in TERMINAL_EVENTS and self._views.is_local(job_id, event.seq):
            return Turn.LAZY
        return Turn.CALM if event.event == "progress" else Turn.NOW

    def _fold(self, chunk: _Chunk) -> _Outcome:
        """Fold these jobs' entries under their locks; in any thread, each job in one."""
        held: list[int] = []
        outcome = _Outcome([], [], [])
        try:
            for job_id, entries in chunk:
                if not self._store.exists(job_id):
                    # Purged, or a stranger's message for a job that never was.
                    outcome.done.append(job_id)
                    continue
                descriptor = locks.try_acquire(self._store.lock_path(job_id))
                if descriptor is None:
                    # The others need not wait for whoever holds it.
                    outcome.put_off.append(job_id)
                    continue
                held.append(descriptor)
                outcome.done.append(job_id)
                outcome.revisions.extend(self._revise(job_id, entries))
            self._store.write(outcome.revisions, announce=False)
            for one in outcome.revisions:
                self._views.folded(one.after)
        except StorageError as error:
            if not error.facts.get("disk_full"):
                raise
            _log.error("%s; the journal keeps the events until there is room", error.message)
            return _Outcome([], [job_id for job_id, _ in chunk], [], disk_full=True)
        finally:
            for descriptor in held:
                locks.release(descriptor)
        return outcome

    def _revise(self, job_id: str, entries: Sequence[Journaled]) -> Iterable[Revision]:
        try:
            record = self._store.read_locked(job_id)
        except (NotFoundError, QuarantinedRecordError) as error:
            _log.error("%s; its journaled events stay in the journal", error)
            return
        log = self._store.audit(job_id)
        folded = fold_journaled(record, entries, held=lambda: _held(log))
        lines = folded.lines
        if lines and entries[0].offset < self._careful_below:
            lines = _without_known(lines, log)
        if folded.record != record or lines:
            yield Revision(record, folded.record, [line for line, _ in lines])

    def _settle(self, outcome: _Outcome) -> None:
        """Take note of what a chunk's folding did."""
        if outcome.disk_full or outcome.revisions:
            self._full = outcome.disk_full
        if outcome.disk_full:
            # Lines may have been written already, and records: then folding again will change nothing.
            self._careful_below = max(self._careful_below, self._next)
            for job_id in outcome.put_off:
                self._on_folded(job_id, None, True)
        later = self._clock.monotonic() + (_ROOM_SECONDS if outcome.disk_full else _RETRY_SECONDS)
        for job_id in outcome.put_off:
            self._backlog.put_off(job_id, later)
        for job_id in outcome.done:
            self.folded += self._backlog.done(job_id)
        for one in outcome.revisions:
            if one.after != one.before:
                urgent = one.after.terminal or _state(one.after) != _state(one.before)
                self._on_folded(one.after.job_id, one.after, urgent)


def _state(record: JobRecord) -> tuple[object, ...]:
    return record.status, record.attempt, record.attention


def _held(log: AuditLog) -> frozenset[int]:
    """Return the seqs of the accepted events in the history."""
    return frozenset(line["seq"] for line in log.lines() if line.get("verdict") == ACCEPTED)


def _without_known(lines: Sequence[tuple[bytes, Line]], log: AuditLog) -> list[tuple[bytes, Line]]:
    """Empty the lines that an interrupted batch has written already: nothing is added, and flushed."""
    known = [identity_of(line) for line in log.tail(2 * len(lines) + _CHUNK)]
    return [(b"", identity) if identity in known else (line, identity) for line, identity in lines]
