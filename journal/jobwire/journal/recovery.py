"""What opening for writing finds at the journal's end, and how it is put right.

After a kill the segment may end in a torn block, or in whole blocks that were written but never
published. Whole ones are kept (at worst their messages come again and are known duplicates), the
torn rest is cut off. Kept bytes are written once more before the fsync: after a failed fsync the
kernel may call a page clean that never reached the disk (fsync(2), EIO), and reading it back proves
nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jobwire.journal.errors import JournalCorrupt
from jobwire.journal.head import Head
from jobwire.journal.index import IndexEntry, SegmentIndex, index_due
from jobwire.journal.scan import Block, Lost, Span, blocks
from jobwire.journal.segment import SEGMENT_HEADER_BYTES, SegmentReader, segment_name
from jobwire.storage.files import FileSystem

_COPY_BYTES = 4 << 20
_ANY_OFFSET = (1 << 63) - 1


class Repair(NamedTuple):
    """What opening changed; reported, logged, and asserted by tests."""

    segment: str
    position: int
    discarded_bytes: int
    kept_entries: int
    reason: str


class Tail(NamedTuple):
    """Where the last segment really ends."""

    position: int
    end_offset: int
    received_max: int
    entries: list[IndexEntry]
    repair: Repair | None


def check_against_head(head: Head, segments: list[int], directory: Path) -> None:
    """Raise JournalCorrupt where segments that were published as durable are gone."""
    last = segments[-1] if segments else -1
    if last < head.segment_base and head.end_offset > 0:
        raise JournalCorrupt(
            f"journal segment {segment_name(head.segment_base)} is missing in {directory}",
            hint="restore it, or move the whole directory away to begin a new journal",
            segment=segment_name(head.segment_base),
            position=0,
            reason="file is missing",
            offset=head.segment_base,
        )


def find_tail(segment: SegmentReader, index: SegmentIndex, head: Head) -> Tail:
    """Read the end of the last segment and tell where it is valid up to; changes nothing.

    Raises JournalCorrupt when the file is shorter than what was published as durable.
    """
    size = segment.size()
    published = _published(segment, head)
    if size < published.durable_bytes:
        raise JournalCorrupt(
            f"journal segment {segment.name} has {size} bytes, {published.durable_bytes} were durable",
            hint="the disk lost data: restore the file, or move the directory away to begin a new journal",
            segment=segment.name,
            position=size,
            reason="file is shorter than its durable part",
            offset=published.end_offset,
        )
    entries = _indexed_durable(segment, index, published.durable_bytes)
    position, offset, highest = published.durable_bytes, published.end_offset, published.received_max
    reason = "written, not published"
    for block in _blocks(segment, published.durable_bytes, size, offset):
        if isinstance(block, Lost):
            reason = str(block.cause.facts["reason"]) if position < size else reason
            break
        if (block.position, block.header.base_offset) != (position, offset):
            reason = f"block claims offset {block.header.base_offset}, expected {offset}"
            break
        _note(entries, block, highest)
        position, offset = block.end, block.header.end_offset
        highest = max(highest, block.header.received_max)
    repair = None
    if size > published.durable_bytes:
        kept = offset - published.end_offset
        repair = Repair(segment.name, position, size - position, kept, reason)
    return Tail(position, offset, highest, entries, repair)


def repair_tail(files: FileSystem, descriptor: int, segment: SegmentReader, head: Head, tail: Tail) -> None:
    """Make the segment end at `tail` on the disk. Raises OSError; may be repeated."""
    position = _published(segment, head).durable_bytes
    while position < tail.position:
        data = segment.read(position, min(_COPY_BYTES, tail.position - position))
        files.write_at(descriptor, data, position)
        position += len(data)
    files.truncate(descriptor, tail.position)
    files.sync_all([descriptor])


def _published(segment: SegmentReader, head: Head) -> Head:
    """Return what was durable of this segment; nothing, where the head speaks of an earlier one."""
    if head.segment_base == segment.base_offset:
        # A head that was made before its first segment has no bytes yet.
        return head._replace(durable_bytes=max(head.durable_bytes, SEGMENT_HEADER_BYTES))
    return head._replace(
        segment_base=segment.base_offset,
        durable_bytes=SEGMENT_HEADER_BYTES,
        end_offset=segment.base_offset,
        received_max=segment.received_before,
    )


def _indexed_durable(segment: SegmentReader, index: SegmentIndex, durable_bytes: int) -> list[IndexEntry]:
    """Return index entries for the durable part, made again from where the stored ones end."""
    entries = [entry for entry in index.valid_prefix() if entry.position < durable_bytes]
    start, position, highest = segment.base_offset, SEGMENT_HEADER_BYTES, segment.received_before
    if entries:
        start, position, highest = entries[-1]
    for block in _blocks(segment, position, durable_bytes, start):
        # Damage inside the durable part is the readers' to report; behind a bad header the index just ends.
        if isinstance(block, Block):
            _note(entries, block, highest)
            highest = max(highest, block.header.received_max)
    return entries


def _blocks(segment: SegmentReader, position: int, limit: int, first_offset: int) -> Iterator[Block | Lost]:
    """Yield what stands from `position` to `limit`, up to whichever offset."""
    length = limit - position
    span = Span("", segment.base_offset, segment.name, position, length, first_offset, _ANY_OFFSET)
    return blocks(segment.read, span)


def _note(entries: list[IndexEntry], block: Block, received_before: int) -> None:
    if index_due(entries[-1] if entries else None, block.position):
        entries.append(IndexEntry(block.header.base_offset, block.position, received_before))
