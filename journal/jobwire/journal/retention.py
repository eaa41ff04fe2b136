"""Removing old segments, oldest first, never what a registered consumer still needs.

A closed segment is due when it was closed longer ago than `keep_seconds`, or while the journal is
larger than `keep_bytes`. A due segment goes if every registered consumer has committed past it. One
that somebody still needs stays, and the report names who holds it, until it was closed longer ago than
`lag_seconds` or the journal is larger than `lag_bytes`: a consumer that nobody runs any more would fill the
disk. Then, or with `force`, it goes, and the report says what was taken from whom. The last segment
always stays.
"""

import logging
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from jobwire.core.clock import Clock
from jobwire.journal.consumers import LOCK_SECONDS, RETENTION_LOCK, Committed, Consumers
from jobwire.journal.errors import JournalCorrupt
from jobwire.journal.index import SegmentIndex
from jobwire.journal.quantities import KEEP_BYTES, KEEP_SECONDS, LAG_BYTES, LAG_SECONDS
from jobwire.journal.reader import JournalReader
from jobwire.journal.segment import SegmentReader, index_name, list_segments, segment_name
from jobwire.storage.durable import remove_durably
from jobwire.storage.file_lock import sole
from jobwire.storage.files import FileSystem, SystemFiles

_MICROSECONDS = 1_000_000
_log = logging.getLogger(__name__)


class RetentionPolicy(NamedTuple):
    """How much is kept after everybody has read it, and how far behind a consumer may be."""

    keep_seconds: float = KEEP_SECONDS
    keep_bytes: int = KEEP_BYTES
    lag_seconds: float = LAG_SECONDS
    lag_bytes: int = LAG_BYTES


class Pruned(NamedTuple):
    """What a run removed (or would have), and what it could not.

    `held_by` names the slowest consumer where it kept a due segment; `lost` tells the entries that were
    taken unread from each consumer. `damaged` counts the segments whose header cannot be read.
    """

    segments: list[str]
    bytes: int
    first_offset: int
    kept_bytes: int
    held_by: str | None
    lost: dict[str, int]
    damaged: int = 0


class _Closed(NamedTuple):
    base: int
    end: int
    bytes: int
    closed_at_us: int
    damaged: bool


class Retention:
    """Prunes the journal in `directory`; beside a running writer and readers, one at a time."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        limits: RetentionPolicy | None = None,
        files: FileSystem | None = None,
    ) -> None:
        self._directory = directory
        self._limits = limits if limits is not None else RetentionPolicy()
        self._clock = clock
        self._files = files if files is not None else SystemFiles()

    def prune(self, *, force: bool = False, dry_run: bool = False) -> Pruned:
        """Remove what is due and return the report.

        A kill leaves a shorter journal, never one with a hole: the oldest segment goes first, each
        durably before the next. Raises JournalNotFound, AlreadyRunningError, StorageError.
        """
        with JournalReader(self._directory) as reader:
            lock = self._directory / RETENTION_LOCK
            what = f"prunes the journal in {self._directory}"
            with sole(lock, clock=self._clock, deadline_seconds=LOCK_SECONDS, what=what):
                known = Consumers(self._directory).all()
                consumers = [consumer for consumer in known if consumer.identity == reader.identity]
                return self._prune(reader, consumers, force=force, dry_run=dry_run)

    def _prune(
        self, reader: JournalReader, consumers: list[Committed], *, force: bool, dry_run: bool
    ) -> Pruned:
        limits = self._limits
        slowest = min(consumers, key=lambda known: known.offset, default=None)
        bases = list_segments(self._directory)
        closed = [self._closed(base, end, UUID(reader.identity)) for base, end in pairwise(bases)]
        left = sum(map(self._size, bases))
        first = closed[0].base if closed else reader.first_offset
        begin, removed, freed, held_by = first, [], 0, None
        for segment in closed:
            if not self._beyond(segment, left, limits.keep_seconds, limits.keep_bytes):
                break
            unread = slowest is not None and segment.end > slowest.offset
            late = self._beyond(segment, left, limits.lag_seconds, limits.lag_bytes)
            if slowest is not None and unread and not (late or force):
                held_by = slowest.name
                break
            if not dry_run:
                names = index_name(segment.base), segment_name(segment.base)
                remove_durably([self._directory / name for name in names], files=self._files)
            removed.append(segment_name(segment.base))
            freed, left, first = freed + segment.bytes, left - segment.bytes, segment.end
        lost = {c.name: first - max(c.offset, begin) for c in consumers if c.offset < first}
        damaged = sum(segment.damaged for segment in closed)
        report = Pruned(removed, freed, first, left, held_by, lost, damaged)
        self._tell(report, dry_run=dry_run)
        return report

    def _closed(self, base: int, end: int, identity: UUID) -> _Closed:
        damaged = False
        try:
            with SegmentReader(self._directory, end, identity=identity) as following:
                closed_at = following.header.created_at_us
        except JournalCorrupt as error:
            damaged = True
            closed_at = self._begun_by(end)
            _log.warning("%s; its age is taken from its index, or else from its file", error.message)
        return _Closed(base, end, self._size(base), closed_at, damaged)

    def _begun_by(self, base: int) -> int:
        """Return by when a segment with a damaged header was begun: rather later, nothing goes too soon."""
        first = SegmentIndex.load(self._directory, base).entry(0)
        if first is not None:
            return first.received_before
        return (self._directory / segment_name(base)).stat().st_mtime_ns // 1000

    def _size(self, base: int) -> int:
        return (self._directory / segment_name(base)).stat().st_size

    def _beyond(self, segment: _Closed, total_bytes: int, seconds: float, size: int) -> bool:
        """Tell whether a segment is older than so many seconds, or the journal larger than `size`."""
        age_seconds = self._clock.now() - segment.closed_at_us / _MICROSECONDS
        return age_seconds > seconds or total_bytes > size

    def _tell(self, report: Pruned, *, dry_run: bool) -> None:
        if report.held_by is not None:
            _log.warning(
                "journal retention is held back by consumer %s: %d bytes kept beyond the limits",
                report.held_by,
                report.kept_bytes,
            )
        if report.lost and not dry_run:
            _log.error("pruned what consumers have not read; entries taken unread: %s", report.lost)
