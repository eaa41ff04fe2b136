"""Folds the journal into the records, in batches, and commits how far it came.

Several entries of a job become one write of its record, several records share the flush of their
directory. A kill at any moment repeats a batch, which changes nothing (`journaled`). A job that cannot be
folded is set aside (`aside`); nobody waits for it.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError, NotFoundError, StorageError
from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED, Parsed, Reason, parse
from jobwire.jobs.event import TERMINAL_EVENTS
from jobwire.jobs.fact import FACT
from jobwire.jobs.record import JobRecord
from jobwire.journal import Entry, JournalReader, Stored
from jobwire.journal.admission import UNDECIDED
from jobwire.journal.consumers import Consumers
from jobwire.registry.audit import AuditLog, Line, identity_of
from jobwire.registry.backlog import Backlog, Share, Turn
from jobwire.registry.journaled import Journaled, fold_journaled
from jobwire.registry.set_aside import SetAsideJob, SetAsideJobs
from jobwire.registry.store import RecordStore, Revision
from jobwire.registry.telling import Teller
from jobwire.registry.views import Views, admission_fields, load
from jobwire.registry.wire import decide
from jobwire.storage import file_lock

CONSUMER = "registry"
# Rows read at once; jobs whose locks are held and whose records are flushed together.
_ROWS = 4000
_CHUNK = 64
_RETRY_SECONDS = 0.1
_ROOM_SECONDS = 1.0
# A lock that is held for longer is held by somebody who is stuck.
_BUSY_SECONDS = 5.0
_WORKERS = 3
# What is looked at in one step for a job that was set aside.
_CATCH_UP_ROWS = 20_000
_CATCH_UP_BYTES = 8 << 20
_MICROSECONDS = 1_000_000
_EVENTS = frozenset({ACCEPTED, str(Reason.LATE)})
_LOCKED = "somebody keeps its lock"
_FOLDED = _EVENTS | {UNDECIDED}
_log = logging.getLogger("jobwire.registry")

OnFolded = Callable[[str, JobRecord | None, bool], None]
_Chunk = Sequence[Share]


class _FoldResult(NamedTuple):
    """Jobs that are folded, those whose lock is taken, those that failed and why, and what was written."""

    done: list[str]
    busy: list[str]
    failed: dict[str, str]
    revisions: list[Revision]
    disk_full: bool = False


class Folder:
    """Follows the journal from the committed offset on; used from one thread (it has helpers of its own).

    `on_folded(job_id, record, urgent)` is told of each record that changed; urgent where more than its
    progress did, with None where it may have changed and is to be read. A job that `is_awaited` does not
    wait its turn. `teller` is told of the facts. `journal` takes entries whose
    verdict was found by the fold. A full disk is waited out, a job that cannot be folded set aside; raises
    StorageError where the journal cannot be read.
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
        journal: Callable[[Sequence[Entry]], object],
        clock: Clock,
        on_folded: OnFolded,
        is_awaited: Callable[[str], bool] = lambda _: False,
        teller: Teller | None = None,
    ) -> None:
        self._store = store
        self._views = views
        self._topics = topics
        self._reader = reader
        self._durable_offset = durable_offset
        self._consumers = consumers
        self._journal = journal
        self._clock = clock
        self._on_folded = on_folded
        self._is_awaited = is_awaited
        self._teller = teller
        self._backlog = Backlog(clock.monotonic())
        self._next = self._committed = consumers.register(CONSUMER)
        self._aside = SetAsideJobs(consumers, clock=clock)
        for job_id in self._aside:
            views.hold(job_id, held=True)
        self._read_until = float("-inf")
        # Everything below the offset is in the records, and all that was received until then (epoch
        # seconds); but for the jobs set aside.
        self.offset = self._next
        self._complete_until = float("-inf")
        # Up to here a line may be in the history and its record not: the process died in between.
        self._begun_at = self._careful_below = durable_offset()
        # Since when (monotonic seconds) somebody has had these jobs' locks.
        self._busy: dict[str, float] = {}
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
        """Return the epoch second up to which all that was received is in the records; from any thread.

        But for the records of `put_off`.
        """
        now = self._clock.now()
        return now if self.caught_up() else min(now, self._complete_until)

    def put_off(self) -> Mapping[str, str]:
        """Return the jobs that cannot be folded now, each with why; from any thread."""
        return self._aside.reasons()

    def step(self, *, hurry: bool = False) -> bool:
        """Read, and fold what is due; `hurry` folds what could wait. Tell whether there was anything."""
        now = self._clock.monotonic()
        rows = self._read(now)
        due = self._backlog.take(now, everything=hurry)
        chunks = [due[first : first + _CHUNK] for first in range(0, len(due), _CHUNK)]
        # The disk works for several chunks at once; most of the time is spent waiting for it.
        fold_all = self._workers.map if len(chunks) > 1 else map
        for chunk, outcome in zip(chunks, fold_all(self._fold, chunks), strict=True):
            self._settle(chunk, outcome)
            self.on_step()
        aside = self._aside.due(now)
        went_on = aside is not None and self._try_again(*aside)
        first = self._backlog.first()
        self._complete_until = first.received_at if first is not None else self._read_until
        self.offset = first.offset if first is not None else self._next
        return bool(rows or due or went_on)

    def commit(self) -> None:
        """Commit the offset: what is not committed is read once more at the next start. From any thread.

        Raises JobwireError.
        """
        offset = self.offset
        if self._teller is not None:
            self._teller.flush()  # what lies below the offset is not read again
        if offset != self._committed:
            self._consumers.commit(CONSUMER, offset)
            self._committed = offset

    def close(self) -> None:
        """Commit, and end the threads."""
        self._workers.shutdown()
        try:
            self.commit()
        except JobwireError as error:
            _log.error("%s; the place %d is not committed", error, self.offset)

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
        if address is not None and row.verdict == FACT and self._teller is not None:
            self._teller.note(address.job_id, row.payload)
            return
        if address is None or address.kind != "events" or address.job_id in self._aside:
            return
        if row.verdict not in _FOLDED and self._is_strange(address.job_id):
            return  # as many topics as a stranger likes, and none takes a job's turn
        entry = self._entry(row)
        if row.verdict == UNDECIDED and row.offset < self._begun_at:
            self._views.undecided(address.job_id, len(row.payload))
        self._backlog.add(address.job_id, entry, self._turn(address.job_id, entry), now)

    def _is_strange(self, job_id: str) -> bool:
        try:
            return not self._store.exists(job_id)
        except StorageError:
            return False

    def _entry(self, row: Stored) -> Journaled:
        parsed = parse(self._topics, row.topic, row.payload)
        return Journaled(
            row.offset,
            row.received_at_us / _MICROSECONDS,
            row.verdict,
            row.payload,
            parsed if isinstance(parsed, Parsed) else None,
            row.retained,
        )

    def _turn(self, job_id: str, entry: Journaled) -> Turn:
        event = entry.parsed.event if entry.parsed is not None else None
        if event is None or entry.verdict != ACCEPTED:
            return Turn.PROGRESS
        if self._is_awaited(job_id):
            return Turn.NOW
        if event.event not in TERMINAL_EVENTS and self._views.is_local(job_id, event.seq):
            return Turn.CONFIRMATION
        return Turn.PROGRESS if event.event == "progress" else Turn.NOW

    def _fold(self, chunk: _Chunk) -> _FoldResult:
        """Fold these jobs' entries under their locks; in any thread, each job in one."""
        try:
            return self._fold_together(chunk)
        except StorageError as error:
            jobs = [job_id for job_id, _ in chunk]
            # Lines may have been written already, and records: then folding again will change nothing.
            self._careful_below = max(self._careful_below, self._next)
            if error.facts.get("disk_full"):
                _log.error("%s; the journal keeps the events until there is room", error.message)
                return _FoldResult([], jobs, {}, [], disk_full=True)
            if len(jobs) == 1:
                return _FoldResult([], [], {jobs[0]: str(error)}, [])
        # One of them cannot be written: which one shows when each is alone.
        alone = [self._fold([share]) for share in chunk]
        return _FoldResult(
            [job_id for one in alone for job_id in one.done],
            [job_id for one in alone for job_id in one.busy],
            {job_id: why for one in alone for job_id, why in one.failed.items()},
            [revision for one in alone for revision in one.revisions],
            any(one.disk_full for one in alone),
        )

    def _fold_together(self, chunk: _Chunk) -> _FoldResult:
        outcome = _FoldResult([], [], {}, [])
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
        now_us = int(self._clock.now() * _MICROSECONDS)
        for before, after in zip(entries, decided, strict=True):
            if before.verdict == UNDECIDED and after.verdict in _EVENTS:
                yield Entry(now_us, self._topics.events(job_id), after.payload, after.retained, after.verdict)

    def _journal_found(self, entries: Sequence[Entry]) -> None:
        try:
            self._journal(entries)
        except StorageError as error:
            # The records have them, and the journal as undecided; figures made from it lack them.
            _log.error("%d late verdicts are not journaled: %s", len(entries), error)

    def _settle(self, chunk: _Chunk, outcome: _FoldResult) -> None:
        """Take note of what a chunk's folding did."""
        if outcome.disk_full or outcome.revisions:
            self._full = outcome.disk_full
        shares = dict(chunk)
        now = self._clock.monotonic()
        for job_id in outcome.busy:
            if outcome.disk_full:
                self._on_folded(job_id, None, True)
                self._backlog.put_off(job_id, now + _ROOM_SECONDS)
            elif now - self._busy.setdefault(job_id, now) < _BUSY_SECONDS:
                self._backlog.put_off(job_id, now + _RETRY_SECONDS)
            else:
                pid = file_lock.holder_pid(self._store.lock_path(job_id))
                why = f"{_LOCKED}: process {pid}" if pid is not None else _LOCKED
                self._set_aside(job_id, shares[job_id], why, unreadable=False)
        for job_id, why in outcome.failed.items():
            self._set_aside(job_id, shares[job_id], why, unreadable=True)
        for job_id in outcome.done:
            self._busy.pop(job_id, None)
            self._note_decided(job_id, shares[job_id])
            self.folded += self._backlog.done(job_id)
        self._tell(outcome.revisions)

    def _note_decided(self, job_id: str, entries: Sequence[Journaled]) -> None:
        sizes = [len(entry.payload) for entry in entries if entry.verdict == UNDECIDED]
        if sizes:
            self._views.decided(job_id, sizes)

    def _tell(self, revisions: Sequence[Revision]) -> None:
        for one in revisions:
            if one.after != one.before:
                urgent = one.after.terminal or _state(one.after) != _state(one.before)
                self._on_folded(one.after.job_id, one.after, urgent)

    def _set_aside(self, job_id: str, entries: Sequence[Journaled], why: str, *, unreadable: bool) -> None:
        """Leave its entries to the journal; where even that cannot be noted, everything waits for it."""
        self._busy.pop(job_id, None)
        if self._aside.put(job_id, entries[0].offset, why, unreadable=unreadable):
            self._views.hold(job_id, held=unreadable)
            self._backlog.done(job_id)
        else:
            self._backlog.put_off(job_id, self._clock.monotonic() + _ROOM_SECONDS)

    def _try_again(self, job_id: str, aside: SetAsideJob) -> bool:
        """Fold some of what waits for a job that was set aside; tell whether it went on."""
        try:
            with contextlib.suppress(NotFoundError):  # purged: there is nothing to fold it into
                self._store.get(job_id)
            if file_lock.is_held(self._store.lock_path(job_id)):
                why = aside.reason if aside.reason.startswith(_LOCKED) else _LOCKED
                self._put_off_again(job_id, why, unreadable=False)
                return False
            entries, reached = self._collect(job_id, aside.offset)
            outcome = self._fold([(job_id, entries)] if entries else [])
            if outcome.busy or outcome.failed:
                why = "the disk is full" if outcome.disk_full else outcome.failed.get(job_id, _LOCKED)
                self._put_off_again(job_id, why, unreadable=bool(outcome.failed))
                return False
            self._note_decided(job_id, entries)
            self._tell(outcome.revisions)
            self.folded += len(entries)
            self._move(job_id, reached)
        except (JobwireError, OSError) as error:
            self._put_off_again(job_id, str(error), unreadable=True)
            return False
        return True

    def _put_off_again(self, job_id: str, why: str, *, unreadable: bool) -> None:
        self._aside.failed(job_id, why, unreadable=unreadable)
        self._views.hold(job_id, held=unreadable and job_id in self._aside)

    def _move(self, job_id: str, reached: int) -> None:
        if reached < self._next:
            self._aside.move(job_id, reached)
            return
        self._aside.take_back(job_id)
        self._views.hold(job_id, held=False)
        _log.info("job %s: what waited for it is folded", job_id)

    def _collect(self, job_id: str, offset: int) -> tuple[list[Journaled], int]:
        """Return the job's entries from `offset` on, of so many rows that others need not wait for them.

        And where the next ones begin. Raises StorageError, OSError.
        """
        topic = self._topics.events(job_id)
        entries: list[Journaled] = []
        size = 0
        with JournalReader(self._reader.directory, clock=self._clock) as reader:
            offset = max(offset, reader.first_offset)  # the rest was pruned by force
            stop_at = min(self._next, offset + _CATCH_UP_ROWS)
            while offset < stop_at and size < _CATCH_UP_BYTES:
                for row in reader.read(offset, max_rows=min(_ROWS, stop_at - offset)):
                    offset = row.offset + 1
                    if row.topic == topic:
                        entries.append(self._entry(row))
                        size += len(row.payload)
                self.on_step()
        return entries, offset


def _state(record: JobRecord) -> tuple[object, ...]:
    return record.status, record.attempt, record.attention


def _held(log: AuditLog) -> frozenset[int]:
    """Return the seqs of the accepted events in the history."""
    return frozenset(line["seq"] for line in log.lines() if line.get("verdict") == ACCEPTED)


def _without_known(lines: Sequence[tuple[bytes, Line]], log: AuditLog) -> list[tuple[bytes, Line]]:
    """Empty the lines that an interrupted batch has written already: nothing is added, and flushed."""
    known = [identity_of(line) for line in log.tail(2 * len(lines) + _CHUNK)]
    return [(b"", identity) if identity in known else (line, identity) for line, identity in lines]
