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
from jobwire.journal.locate import SegmentView
from jobwire.journal.scan import Span
from jobwire.journal.segment import NEVER_US, SegmentReader, list_segments, segment_name
from jobwire.journal.walk import PlacedBlock, walk

MAX_ROWS = 1_000
MAX_BYTES = 4 << 20
_SHORTEST_PAUSE_SECONDS = 0.001
# The longest delay a follower adds to an idle journal; 20 looks a second cost nothing measurable.
_LONGEST_PAUSE_SECONDS = 0.05
_SPAN_BYTES = 16 << 20


class _Cursor(NamedTuple):
    """Where reading stopped: the block that begins with `offset` stands or will stand there."""

    segment_base: int
    offset: int
    position: int


class JournalReader:
    """Reads the journal in `directory`.

    Raises JournalNotFound, and JournalRecreated unless the identity is the expected one (any, when
    None); later every call raises JournalRecreated when the journal was replaced. Each thread
    needs a reader of its own.
    """

    def __init__(
        self, directory: Path, *, expected_identity: str | None = None, clock: Clock | None = None
    ) -> None:
        self.directory = directory
        self._clock = clock if clock is not None else SystemClock()
        self._head_file = HeadReader(directory)
        self._segment: SegmentReader | None = None
        self._bases: list[int] = []
        self._cursor: _Cursor | None = None
        self._decoded: list[Stored] = []
        self._identity = self._head_file.read().identity
        if expected_identity is not None and str(self._identity) != expected_identity:
            self.close()
            raise _recreated(directory, expected_identity, self.identity)

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

    def wait(self, offset: int, timeout_seconds: float) -> bool:
        """Wait until `offset` is durable; False after `timeout_seconds`."""
        deadline = self._clock.monotonic() + timeout_seconds
        pause = _SHORTEST_PAUSE_SECONDS
        while self.durable_offset <= offset:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return False
            self._clock.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return True

    def follow(
        self,
        start: int,
        *,
        stop: Callable[[], bool],
        wait_seconds: float = 0.25,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
    ) -> Iterator[list[Stored]]:
        """Yield non-empty batches from `start` on, without end.

        `stop` is asked before each batch and at least every `wait_seconds`.
        """
        offset = start
        while not stop():
            rows = self.read(offset, max_rows=max_rows, max_bytes=max_bytes)
            if rows:
                offset = rows[-1].offset + 1
                yield rows
            else:
                self.wait(offset, wait_seconds)

    def offset_at(self, received_us: int) -> int:
        """Return the first offset received at `received_us` or later; the end, if none was.

        Where the clock was set back meanwhile: the first entry by offset, not by time.
        """
        head = self._head()
        bases = [base for base in self._list() if base <= head.segment_base]
        low = bisect_right(bases, received_us - 1, key=self._received_before) - 1
        if low < 0:
            return bases[0] if bases else head.end_offset
        block = self._view(bases[low], head).first_since(received_us)
        if block is None:
            return bases[low + 1] if low + 1 < len(bases) else head.end_offset
        rows = next(self._decoded_from(block.header.base_offset, head))
        return next((row.offset for row in rows if row.received_at_us >= received_us), head.end_offset)

    def limit(self, start: int, *, max_rows: int, max_bytes: int) -> int:
        """Return where a batch from `start` ends: at most `max_rows`, and about `max_bytes` of segment.

        Cuts fall on indexed places, so a batch may be some 64 KiB (or one block) larger; it is never
        empty unless `start` is the end.
        """
        head = self._head()
        end = min(start + max_rows, head.end_offset)
        left = max_bytes
        for base, offset in self._segments_over(start, end, head):
            try:
                view = self._view(base, head)
            except JournalCorrupt:
                continue  # whoever reads it finds nothing
            position = view.start_of(offset)
            cut = view.cut_after(position, left) if view.limit - position > left else None
            if cut is not None and cut.offset > offset:
                return min(end, cut.offset)
            left -= view.limit - position
            if left <= 0:
                return min(end, self._end_of(base, head))
        return end

    def scan(self, start: int, end: int, *, max_bytes: int = _SPAN_BYTES) -> Iterator[Span]:
        """Yield spans of about `max_bytes` that together hold exactly [start, end), damaged or not."""
        head = self._head()
        if end > head.end_offset:
            raise truncated(end, self.first_offset, head.end_offset)
        for base, first in self._segments_over(start, end, head):
            last = min(end, self._end_of(base, head))
            try:
                view = self._view(base, head)
            except JournalCorrupt:
                yield Span(self.identity, base, segment_name(base), 0, 0, first, last)
                continue
            stop = view.end_of(last - 1)
            position, offset = view.start_of(first), first
            while position < stop:
                cut = view.cut_after(position, max_bytes)
                if cut is None or cut.position >= stop or not offset < cut.offset < last:
                    reached, until = stop, last
                else:
                    reached, until = cut.position, cut.offset
                yield Span(
                    self.identity, base, segment_name(base), position, reached - position, offset, until
                )
                position, offset = reached, until

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
            raise _recreated(self.directory, self.identity, str(head.identity))
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

    def _view(self, base: int, head: Head) -> SegmentView:
        segment = self._open(base, head)
        return SegmentView(self.directory, segment, self._limit(segment, head))

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
        for name, block in self._blocks_from(start, head):
            try:
                self._decoded = decode_rows(block.data, block.header, block.start)
            except BadBlockError as error:
                raise corrupt(name, block.position, error.reason, offset=start) from error
            yield self._decoded[max(0, start - block.header.base_offset) :]

    def _blocks_from(self, start: int, head: Head) -> Iterator[tuple[str, PlacedBlock]]:
        offset = start
        if offset == head.end_offset:
            return
        while offset < head.end_offset or offset == start:
            segment = self._open(self._base_of(offset, head), head)
            limit = self._limit(segment, head)
            reached = offset
            try:
                for block in walk(segment, self._position(segment, offset, head), limit):
                    if not block.header.base_offset <= reached < block.header.end_offset:
                        raise BadBlockError("offsets are missing", position=block.position)  # noqa: TRY301 - the place is added below
                    reached = block.header.end_offset
                    self._cursor = _Cursor(segment.base_offset, reached, block.position + block.header.length)
                    yield segment.name, block
            except BadBlockError as error:
                raise corrupt(segment.name, error.position, error.reason, offset=reached) from error
            if reached == offset:
                raise corrupt(segment.name, limit, "offsets are missing", offset=offset)
            offset = reached

    def _position(self, segment: SegmentReader, offset: int, head: Head) -> int:
        cursor = self._cursor
        if cursor is not None and (cursor.segment_base, cursor.offset) == (segment.base_offset, offset):
            return cursor.position
        return SegmentView(self.directory, segment, self._limit(segment, head)).block_with(offset).position


def _recreated(directory: Path, expected: str, found: str) -> JournalRecreated:
    return JournalRecreated(
        f"the journal in {directory} is {found}, expected {expected}",
        hint="offsets of the old journal mean nothing here: begin again at its first offset",
        expected=expected,
        found=found,
    )
