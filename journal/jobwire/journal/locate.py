"""Finding the block that holds an offset or a time, by the index and a short walk over headers."""

from collections.abc import Callable
from pathlib import Path

from jobwire.journal.block import HEADER_BYTES, parse_header
from jobwire.journal.errors import BadBlockError, JournalCorrupt, corrupt
from jobwire.journal.index import IndexEntry, SegmentIndex
from jobwire.journal.segment import SEGMENT_HEADER_BYTES, SegmentReader
from jobwire.journal.walk import PlacedBlock, walk


class SegmentView:
    """One segment up to its durable end, with its index."""

    def __init__(self, directory: Path, segment: SegmentReader, limit: int) -> None:
        self.segment = segment
        self.limit = limit
        self._index = SegmentIndex.load(directory, segment.base_offset)

    def block_with(self, offset: int) -> PlacedBlock:
        """Return the block that holds `offset` (its body unchecked).

        Raises JournalCorrupt where the way to it is damaged or it is not there.
        """
        start = self._start(lambda entry: entry.offset <= offset)
        found = self._first(start, lambda block: block.header.end_offset > offset)
        if found is None or found.header.base_offset > offset:
            raise corrupt(self.segment.name, self.limit, "offsets are missing", offset=offset)
        return found

    def start_of(self, offset: int) -> int:
        """Return where reading of `offset` begins: at its block, or before it where the way is damaged."""
        try:
            return self.block_with(offset).position
        except JournalCorrupt:
            return self._start(lambda entry: entry.offset <= offset)

    def end_of(self, offset: int) -> int:
        """Return where the block with `offset` ends, or the end of all where the way to it is damaged."""
        try:
            block = self.block_with(offset)
        except JournalCorrupt:
            return self.limit
        return block.position + block.header.length

    def first_since(self, received_us: int) -> PlacedBlock | None:
        """Return the first block with an entry received at `received_us` or later, or None."""
        start = self._start(lambda entry: entry.received_before < received_us)
        return self._first(start, lambda block: block.header.received_max >= received_us)

    def cut_after(self, position: int, max_bytes: int) -> IndexEntry | None:
        """Return an indexed place about `max_bytes` after `position`, but always after it.

        None where the index has none: then the segment's end is the cut.
        """
        target = position + max_bytes
        entry = self._index.last_where(lambda entry: entry.position <= target)
        if entry is None or entry.position <= position:
            passed = self._index.passed(lambda entry: entry.position <= position)
            entry = self._index.entry(passed) if passed < self._index.count else None
        if entry is None or not position < entry.position < self.limit:
            return None
        return entry if self._confirmed(entry) else None

    def _start(self, holds: Callable[[IndexEntry], bool]) -> int:
        entry = self._index.last_where(lambda entry: entry.position < self.limit and holds(entry))
        return entry.position if entry is not None and self._confirmed(entry) else SEGMENT_HEADER_BYTES

    def _confirmed(self, entry: IndexEntry) -> bool:
        """Compare the entry with the block it points at: an index is never believed."""
        try:
            header = parse_header(self.segment.read(entry.position, HEADER_BYTES))
        except BadBlockError:
            return False
        return header.base_offset == entry.offset

    def _first(self, start: int, wanted: Callable[[PlacedBlock], bool]) -> PlacedBlock | None:
        try:
            blocks = walk(self.segment, start, self.limit, check_bodies=False)
            return next(filter(wanted, blocks), None)
        except BadBlockError as error:
            raise corrupt(self.segment.name, error.position, error.reason) from error
