"""Folds the journal into the records, in batches, and commits how far it came.

Several entries of a job become one write of its record, several records share the flush of their
directory. A kill at any moment repeats a batch, which changes nothing (`journaled`). A job that cannot be
folded is set aside (`aside`); nobody waits for it.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from jobwire.core.errors import JobwireError, NotFoundError, StorageError
from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED, Parsed, parse
from jobwire.jobs.event import TERMINAL_EVENTS
from jobwire.jobs.fact import FACT
from jobwire.jobs.record import JobRecord
from jobwire.journal.admission import UNDECIDED
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.reader import JournalReader
from jobwire.registry.backlog import Backlog, Turn
from jobwire.registry.chunk_fold import CHUNK, EVENTS, Chunk, ChunkFold, FoldResult
from jobwire.registry.journaled import Journaled
from jobwire.registry.revision import Revision
from jobwire.registry.set_aside import SetAsideJob, SetAsideJobs
from jobwire.registry.store import RecordStore
from jobwire.registry.told import Told
from jobwire.registry.views import Views
from jobwire.storage import file_lock

CONSUMER = "registry"
# Rows read at once.
_ROWS = 4000
_RETRY_SECONDS = 0.1
_ROOM_SECONDS = 1.0
# A lock that is held for longer is held by somebody who is stuck.
_BUSY_SECONDS = 5.0
_WORKERS = 3
# What is looked at in one step for a job that was set aside.
_CATCH_UP_ROWS = 20_000
_CATCH_UP_BYTES = 8 << 20
_MICROSECONDS = 1_000_000
_LOCKED = "somebody keeps its lock"
_FOLDED = EVENTS | {UNDECIDED}
_log = logging.getLogger("jobwire.registry")

OnFolded = Callable[[str, JobRecord | None, bool], None]


class Folder:
    """Follows the journal from the committed offset on; used from one thread (it has helpers of its own).

    `on_folded(job_id, record, urgent)` is told of each record that changed; urgent where more than its
    progress did, with None where it may have changed and is to be read. A job that `is_awaited` does not
    wait its turn. `told` takes in the facts. `journal` takes entries whose
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
        on_folded: OnFolded,
        is_awaited: Callable[[str], bool] = lambda _: False,
        told: Told | None = None,
    ) -> None:
        self._store = store
        self._views = views
        self._topics = topics
        self._reader = reader
        self._durable_offset = durable_offset
        self._consumers = consumers
        self._clock = clock = store.clock
        self._on_folded = on_folded
        self._is_awaited = is_awaited
        self._told = told
        self._backlog = Backlog(clock.monotonic())
        self._next = self._committed = consumers.register(CONSUMER)
        self._aside = SetAsideJobs(consumers, clock=clock)
        views.is_held = self._aside.is_unreadable
        self._read_until = float("-inf")
        # Everything below the offset is in the records, and all that was received until then (epoch
        # seconds); but for the jobs set aside.
        self.offset = self._next
        self._complete_until = float("-inf")
        self._begun_at = durable_offset()
        self._fold = ChunkFold(
            store=store,
            views=views,
            topics=topics,
            journal=journal,
            read_until=lambda: self._next,
            begun_at=self._begun_at,
        )
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
        chunks = [due[first : first + CHUNK] for first in range(0, len(due), CHUNK)]
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
        if self._told is not None:
            self._told.flush()  # what lies below the offset is not read again
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
        if address is not None and row.verdict == FACT and self._told is not None:
            self._told.read(address.job_id, row.payload)
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

    def _settle(self, chunk: Chunk, outcome: FoldResult) -> None:
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
                self._aside.failed(job_id, why, unreadable=False)
                return False
            entries, reached = self._collect(job_id, aside.offset)
            outcome = self._fold([(job_id, entries)] if entries else [])
            if outcome.busy or outcome.failed:
                why = "the disk is full" if outcome.disk_full else outcome.failed.get(job_id, _LOCKED)
                self._aside.failed(job_id, why, unreadable=bool(outcome.failed))
                return False
            self._note_decided(job_id, entries)
            self._tell(outcome.revisions)
            self.folded += len(entries)
            self._move(job_id, reached)
        except (JobwireError, OSError) as error:
            self._aside.failed(job_id, str(error), unreadable=True)
            return False
        return True

    def _move(self, job_id: str, reached: int) -> None:
        if reached < self._next:
            self._aside.move(job_id, reached)
            return
        self._aside.take_back(job_id)
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
