"""Checking every stored byte, and telling exactly which offsets damage has taken."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from jobwire.journal.block import decode_rows
from jobwire.journal.errors import BadBlockError, JournalCorrupt, JournalRecreated
from jobwire.journal.head import Head, HeadReader
from jobwire.journal.index import SegmentIndex
from jobwire.journal.scan import Block, Lost, Span, blocks
from jobwire.journal.segment import SEGMENT_HEADER_BYTES, SegmentReader, list_segments, segment_name


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
    """Read the whole durable journal, a segment at a time. Raises JournalNotFound, JournalCorrupt (head)."""
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
        name, identity = segment_name(base), self._head.identity
        try:
            segment = SegmentReader(self._directory, base, identity=identity)
        except FileNotFoundError:
            return  # pruned since the listing; a hole shows at the end of the segment before it
        except (JournalCorrupt, JournalRecreated) as error:
            self.damage.append(Damage(name, 0, error.message, base, end_offset))
            return
        with segment:
            size = segment.size()
            limit = self._head.durable_bytes if base == self._head.segment_base else size
            self.bytes += min(limit, size)
            if segment.damage:  # which takes no entry
                self.damage.append(Damage(name, 0, segment.damage, base, base))
            length = limit - SEGMENT_HEADER_BYTES
            span = Span(str(identity), base, name, SEGMENT_HEADER_BYTES, length, base, end_offset)
            reached = SEGMENT_HEADER_BYTES
            for block in blocks(segment.read, span, SegmentIndex.load(self._directory, base)):
                reached = limit if isinstance(block, Lost) else block.end
                if (damage := self._damage(name, block)) is not None:
                    self.damage.append(damage)
        if reached < min(limit, size):
            self.damage.append(Damage(name, reached, "more than its entries", end_offset, end_offset))

    def _damage(self, name: str, found: Block | Lost) -> Damage | None:
        if isinstance(found, Lost):
            position, reason = found.cause.facts["position"], str(found.cause.facts["reason"])
            return Damage(name, int(str(position)), reason, found.first_offset, found.end_offset)
        header = found.header
        try:
            decode_rows(found.data, header, found.start)
        except BadBlockError as error:
            return Damage(name, found.position, error.reason, header.base_offset, header.end_offset)
        self.blocks += 1
        self.entries += header.rows
        return None
