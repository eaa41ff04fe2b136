"""Checking every stored byte, and telling exactly which offsets damage has taken."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobwire.journal.block import decode_rows
from jobwire.journal.errors import BadBlockError, JournalCorrupt, JournalRecreated
from jobwire.journal.head import Head, HeadReader
from jobwire.journal.index import SegmentIndex
from jobwire.journal.segment import SEGMENT_HEADER_BYTES, SegmentReader, list_segments, segment_name
from jobwire.journal.walk import walk

if TYPE_CHECKING:
    from uuid import UUID


class Damage(NamedTuple):
    """A bad place; entries [first_offset, end_offset) cannot be read, reading can go on at the end."""

    segment: str
    position: int
    reason: str
    first_offset: int
    end_offset: int


class Verified(NamedTuple):
    """What was checked and what was found."""

    identity: str
    segments: int
    blocks: int
    entries: int
    bytes: int
    first_offset: int
    durable_offset: int
    damage: list[Damage]


def verify(directory: Path) -> Verified:
    """Read the whole durable journal in bounded memory. Raises JournalNotFound, JournalCorrupt (head)."""
    with closing(HeadReader(directory)) as head_file:
        head = head_file.read()
    bases = [base for base in list_segments(directory) if base <= head.segment_base]
    check = _Check(directory, head)
    for base, following in pairwise([*bases, head.end_offset]):
        check.segment(base, following)
    if not bases or bases[-1] != head.segment_base:
        check.missing(head.segment_base)
    first = bases[0] if bases else head.end_offset
    return Verified(
        str(head.identity),
        len(bases),
        check.blocks,
        check.entries,
        check.bytes,
        first,
        head.end_offset,
        check.damage,
    )


class _Check:
    def __init__(self, directory: Path, head: Head) -> None:
        self._directory = directory
        self._head = head
        self.blocks = self.entries = self.bytes = 0
        self.damage: list[Damage] = []

    def missing(self, base: int) -> None:
        """Note that the published last segment has no file."""
        self.damage.append(Damage(segment_name(base), 0, "file is missing", base, self._head.end_offset))

    def segment(self, base: int, end_offset: int) -> None:
        """Check one segment, which should reach up to `end_offset`."""
        identity: UUID = self._head.identity
        try:
            reader = SegmentReader(self._directory, base, identity=identity)
        except FileNotFoundError:
            return  # pruned since the listing; a hole shows at the end of the segment before it
        except (JournalCorrupt, JournalRecreated) as error:
            self.damage.append(Damage(segment_name(base), 0, error.message, base, end_offset))
            return
        with reader:
            size = reader.size()
            limit = self._head.durable_bytes if base == self._head.segment_base else size
            self.bytes += min(limit, size)
            index = SegmentIndex.load(self._directory, base)
            position, offset = SEGMENT_HEADER_BYTES, base
            while offset < end_offset or position < limit:
                position, offset, bad = self._sound_part(reader, position, offset, limit)
                if bad is None and offset >= end_offset:
                    return
                onward = index.resume(position, limit, reader.read) if bad is not None else None
                resumed = onward.offset if onward is not None else end_offset
                reason = bad.reason if bad is not None else "entries are missing"
                self.damage.append(Damage(reader.name, position, reason, offset, max(offset, resumed)))
                if onward is None:
                    return
                position, offset = onward.position, onward.offset

    def _sound_part(
        self, reader: SegmentReader, position: int, offset: int, limit: int
    ) -> tuple[int, int, BadBlockError | None]:
        """Check from `position` up to the first bad place; return it, the offset there, and the cause."""
        try:
            for block in walk(reader, position, limit):
                if block.header.base_offset != offset:
                    found = block.header.base_offset
                    return position, offset, BadBlockError(f"block claims offset {found}, expected {offset}")
                decode_rows(block.data, block.header, block.start)
                position, offset = position + block.header.length, block.header.end_offset
                self.blocks += 1
                self.entries += block.header.rows
        except BadBlockError as error:
            return position, offset, error
        return position, offset, None
