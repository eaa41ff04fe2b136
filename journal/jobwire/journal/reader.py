"""Reading a journal: by offset or time, following live, any number of readers at once.

A reader takes no lock and changes nothing. It never returns what is not durable, and what it
returns has passed its checksum; everything else is one of JournalTruncated, JournalRecreated,
JournalCorrupt.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import InvalidInputError
from jobwire.journal.block import decode_rows
from jobwire.journal.entry import Stored
from jobwire.journal.errors import (
    BadBlockError,
    JournalCorrupt,
    JournalRecreated,
    corrupt,
    not_found,
    truncated,
)
from jobwire.journal.head import Head, HeadReader
from jobwire.journal.index import SegmentIndex
from jobwire.journal.scan import Block, Lost, Span, blocks
from jobwire.journal.segment import NEVER_US, SegmentReader, list_segments, segment_name

MAX_ROWS = 1_000
MAX_BYTES = 4 << 20
# What a follower may come late; 20 looks a second cost nothing measurable.
_PAUSE_SECONDS = 0.05
_SPAN_BYTES = 16 << 20


class _Cursor(NamedTuple):
    """Where reading stopped: the block that begins with `offset` stands or will stand there."""

    segment_base: int
    offset: int
    position: int


class JournalReader:
    """Reads the journal in `directory`.

    Raises JournalNotFound; later every call raises JournalRecreated when the journal was replaced. Each
    thread needs a reader of its own.
    """

    def __init__(self, directory: Path, *, clock: Clock | None = None) -> None:
        self.directory = directory
        self._clock = clock if clock is not None else SystemClock()
        self._head_file = HeadReader(directory)
        self._segment: SegmentReader | None = None
        self._bases: list[int] = []
        self._cursor: _Cursor | None = None
        self._decoded: list[Stored] = []
        self._identity = self._head_file.read().identity

    @property
    def identity(self) -> str:
        """Return the journal's UUID; offsets belong to it."""
        return str(self._identity)

    @property
    def first_offset(self) -> int:
        """Return the lowest offset still there."""
        bases = self._list()
        return bases[0] if bases else self._head().end_offset

    @property
    def durable_offset(self) -> int:
        """Return the offset after the last durable entry: where the next one will be."""
        return self._head().end_offset

    def read(self, start: int, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> list[Stored]:
        """Return the entries from `start` on; an empty list when `start` is the end. Never waits.

        At most `max_rows`, and payloads of at most `max_bytes` together, but always one entry.
        """
        head = self._head()
        rows: list[Stored] = []
        size = 0
        for block_rows in self._decoded_from(start, head):
            for row in block_rows:
                size += len(row.payload)
                if rows and (len(rows) >= max_rows or size > max_bytes):
                    return rows
                rows.append(row)
            if len(rows) >= max_rows or size >= max_bytes:
                break
        return rows

    def follow(
        self, start: int, *, stop: Callable[[], bool], max_rows: int = MAX_ROWS
    ) -> Iterator[list[Stored]]:
        """Yield non-empty batches from `start` on until `stop()` says so, which is asked before each look."""
        offset = start
        while not stop():
            if rows := self.read(offset, max_rows=max_rows):
                offset = rows[-1].offset + 1
                yield rows
            else:
                self._clock.sleep(_PAUSE_SECONDS)

    def offset_at(self, received_us: int) -> int:
        """Return the first offset received at `received_us` or later; the end, if none was.

        Where the clock was set back meanwhile: the first entry by offset, not by time. What damage took is
        passed over.
        """
        head = self._head()
        bases = [base for base in self._list() if base <= head.segment_base]
        low = bisect_right(bases, received_us - 1, key=self._received_before) - 1
        if low < 0:
            return bases[0] if bases else head.end_offset
        segment = self._open(bases[low], head)
        limit = self._limit(segment, head)
        place = self._index(segment).last_where(
            lambda entry: entry.received_before < received_us, limit, segment.read
        )
        span = self._span(segment, place.position, limit, place.offset, self._end_of(bases[low], head))
        for block in blocks(segment.read, span):
            if isinstance(block, Block) and block.header.received_max >= received_us:
                rows = self._rows(segment, block)
                return next(
                    (row.offset for row in rows if row.received_at_us >= received_us), span.end_offset
                )
        return span.end_offset

    def limit(self, start: int, *, max_rows: int, max_bytes: int) -> int:
        """Return where a batch from `start` ends: at most `max_rows`, and about `max_bytes` of segment.

        Cuts fall on indexed places, so a batch may be a sixteenth and some 64 KiB (or one block) larger; it
        is never empty unless `start` is the end.
        """
        end = min(start + max_rows, self.durable_offset)
        left = max_bytes
        for span in self.scan(start, end, max_bytes=-(-max_bytes // 16)):
            left -= span.length
            if left <= 0:
                return span.end_offset
        return end

    def scan(self, start: int, end: int, *, max_bytes: int = _SPAN_BYTES) -> Iterator[Span]:
        """Yield spans that together hold exactly [start, end), damaged or not.

        Each has `max_bytes` of a segment, and what follows up to the next indexed place.
        """
        head = self._head()
        if end > head.end_offset:
            raise truncated(end, self.first_offset, head.end_offset)
        for base, first in self._segments_over(start, end, head):
            last = min(end, self._end_of(base, head))
            try:
                segment = self._open(base, head)
            except JournalCorrupt:  # whoever reads it finds nothing
                yield Span(self.identity, base, segment_name(base), 0, 0, first, last)
            else:
                yield from self._cut(segment, self._limit(segment, head), first, last, max_bytes)

    def _cut(
        self, segment: SegmentReader, limit: int, first: int, last: int, max_bytes: int
    ) -> Iterator[Span]:
        """Yield spans of one segment that together hold exactly [first, last)."""
        index = self._index(segment)
        position = index.last_where(lambda entry: entry.offset <= first, limit, segment.read).position
        behind = index.first_from(0, last, limit, segment.read)
        stop = behind.position if behind is not None else limit
        while first < last:
            cut = index.first_from(position + max_bytes, first + 1, stop, segment.read)
            until, reached = (cut.offset, cut.position) if cut is not None else (last, stop)
            yield self._span(segment, position, reached, first, until)
            position, first = reached, until

    def close(self) -> None:
        """Close all files; idempotent."""
        self._head_file.close()
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _head(self) -> Head:
        if self._head_file.replaced():
            fresh = HeadReader(self.directory)
            self._head_file.close()
            self._head_file = fresh
            self._bases = []
        head = self._head_file.read()
        if head.identity != self._identity:
            raise JournalRecreated(
                f"the journal in {self.directory} is {head.identity}, expected {self.identity}",
                hint="offsets of the old journal mean nothing here: begin again at its first offset",
                expected=self.identity,
                found=str(head.identity),
            )
        return head

    def _list(self) -> list[int]:
        try:
            self._bases = list_segments(self.directory)
        except FileNotFoundError as error:
            raise not_found(self.directory) from error
        return self._bases

    def _segments_over(self, start: int, end: int, head: Head) -> Iterator[tuple[int, int]]:
        """Yield (segment, first wanted offset in it) for the range."""
        offset = start
        while offset < end:
            base = self._base_of(offset, head)
            yield base, offset
            offset = self._end_of(base, head)

    def _base_of(self, offset: int, head: Head) -> int:
        """Return the segment that holds `offset`, which must be before the end."""
        if offset < 0:
            raise InvalidInputError(f"not an offset: {offset}", hint="offsets begin at 0")
        if not self._bases or self._bases[-1] < head.segment_base or offset < self._bases[0]:
            self._list()
        number = bisect_right(self._bases, offset) - 1
        if number < 0 or offset >= head.end_offset:
            raise truncated(offset, self._bases[0] if self._bases else head.end_offset, head.end_offset)
        return self._bases[number]

    def _end_of(self, base: int, head: Head) -> int:
        """Return the offset after the segment's last durable entry."""
        number = bisect_right(self._bases, base)
        return min(self._bases[number], head.end_offset) if number < len(self._bases) else head.end_offset

    def _index(self, segment: SegmentReader) -> SegmentIndex:
        return SegmentIndex.load(self.directory, segment.base_offset)

    def _span(self, segment: SegmentReader, position: int, limit: int, first: int, end: int) -> Span:
        return Span(self.identity, segment.base_offset, segment.name, position, limit - position, first, end)

    def _limit(self, segment: SegmentReader, head: Head) -> int:
        return head.durable_bytes if segment.base_offset == head.segment_base else segment.size()

    def _open(self, base: int, head: Head) -> SegmentReader:
        if self._segment is None or self._segment.base_offset != base:
            try:
                fresh = SegmentReader(self.directory, base, identity=self._identity)
            except FileNotFoundError as error:
                raise truncated(base, self.first_offset, head.end_offset) from error
            if self._segment is not None:
                self._segment.close()
            self._segment = fresh
        return self._segment

    def _received_before(self, base: int) -> int:
        try:
            with SegmentReader(self.directory, base, identity=self._identity) as segment:
                return segment.received_before
        except FileNotFoundError:  # pruned this moment: earlier than whatever is asked for
            return NEVER_US

    def _decoded_from(self, start: int, head: Head) -> Iterator[list[Stored]]:
        """Yield the rows of each block from `start` on, the first block's cut to begin there."""
        if self._decoded and self._decoded[0].offset <= start <= self._decoded[-1].offset:
            yield self._decoded[start - self._decoded[0].offset :]
            start = self._decoded[-1].offset + 1
        offset = start
        while offset < head.end_offset or start > head.end_offset:
            segment = self._open(self._base_of(offset, head), head)
            for block in blocks(segment.read, self._rest(segment, offset, head)):
                if isinstance(block, Lost):
                    raise block.cause
                self._decoded = self._rows(segment, block)
                offset = block.header.end_offset
                self._cursor = _Cursor(segment.base_offset, offset, block.end)
                yield self._decoded[max(0, start - block.header.base_offset) :]

    def _rest(self, segment: SegmentReader, offset: int, head: Head) -> Span:
        """Return what a segment holds from `offset` on."""
        limit, cursor = self._limit(segment, head), self._cursor
        if cursor is not None and (cursor.segment_base, cursor.offset) == (segment.base_offset, offset):
            position = cursor.position
        else:
            index = self._index(segment)
            position = index.last_where(lambda entry: entry.offset <= offset, limit, segment.read).position
        return self._span(segment, position, limit, offset, self._end_of(segment.base_offset, head))

    @staticmethod
    def _rows(segment: SegmentReader, block: Block) -> list[Stored]:
        try:
            return decode_rows(block.data, block.header, block.start)
        except BadBlockError as error:
            offset = block.header.base_offset
            raise corrupt(segment.name, block.position, error.reason, offset=offset) from error
