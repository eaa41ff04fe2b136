"""Spans, and the one way through their blocks that all readers take.

A span is a byte range of a segment that holds a range of offsets. It is small and picklable and names no
directory: a planner makes spans, a worker on another machine loads them from wherever the journal is
mounted there, or gets the bytes carried along.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from jobwire.journal.block import HEADER_BYTES, BlockHeader, check_body, parse_header
from jobwire.journal.errors import BadBlockError, JournalCorrupt, corrupt, truncated
from jobwire.journal.index import SegmentIndex
from jobwire.journal.segment import SUFFIX, SegmentReader, list_segments

# What is read at once of a segment, unless a block is larger.
_CHUNK_BYTES = 256 << 10


class Span(NamedTuple):
    """`length` bytes at `position` of a segment, where a block begins; they hold [first_offset, end_offset).

    What lies before and behind these offsets may be in the bytes as well.
    """

    identity: str
    segment_base: int
    segment: str
    position: int
    length: int
    first_offset: int
    end_offset: int


class Block(NamedTuple):
    """A checked block at `position` of its segment, whose bytes begin at `start` of `data`."""

    position: int
    header: BlockHeader
    data: bytes
    start: int

    @property
    def end(self) -> int:
        """Return where the next block of the segment begins."""
        return self.position + self.header.length


class Lost(NamedTuple):
    """Entries [first_offset, end_offset) that damage took; `cause` tells the place."""

    first_offset: int
    end_offset: int
    cause: JournalCorrupt


def is_sealed(span: Span) -> bool:
    """Tell whether the span is of a sealed file, whose place is then its `segment` (history.py)."""
    return not span.segment.endswith(SUFFIX)


def load_span(directory: Path, span: Span, *, skip: bool = False) -> bytes:
    """Read the span's bytes; with `skip` what is there of them.

    Raises JournalTruncated (pruned meanwhile), JournalRecreated, and unless `skip` JournalCorrupt (file too
    short, or not a segment).
    """
    try:
        with SegmentReader(directory, span.segment_base, identity=UUID(span.identity)) as segment:
            data = segment.read(span.position, span.length)
    except FileNotFoundError as error:
        bases = list_segments(directory) if directory.is_dir() else []
        first = bases[0] if bases else span.end_offset
        raise truncated(span.first_offset, first, max(first, span.end_offset)) from error
    except JournalCorrupt:
        if not skip:
            raise
        return b""
    if len(data) < span.length and not skip:
        raise corrupt(span.segment, span.position + len(data), "file ends within durable data")
    return data


def loaded_blocks(data: bytes, span: Span, index: SegmentIndex | None = None) -> Iterator[Block | Lost]:
    """Yield the `blocks` of a span whose bytes `load_span` gave: none is copied."""
    return blocks(lambda position, _: data[position - span.position :], span, index)


def blocks(
    read: Callable[[int, int], bytes], span: Span, index: SegmentIndex | None = None
) -> Iterator[Block | Lost]:
    """Yield the blocks with the span's offsets, in order and without a gap, or in its place what damage took.

    `read(position, length)` gives bytes of the segment: so many, or more, or what is there. What lies before
    the first offset is passed over unchecked, and a block that reaches past the span counts as cut short.
    Where a header is damaged, reading goes on at the next place that `index` names: only there, since the
    payloads are strangers' bytes, which may look like a block.
    """
    position, limit, offset = span.position, span.position + span.length, span.first_offset
    window = _Window(read, position, limit)
    while offset < span.end_offset:
        header = None
        try:
            start = window.at(position, HEADER_BYTES)
            header = parse_header(window.data, start)
            if header.end_offset <= offset:
                position += header.length
                continue
            start = window.at(position, header.length)
            check_body(window.data, header, start)
            if header.base_offset > offset:
                raise BadBlockError(f"block holds {header.base_offset} up to {header.end_offset}")  # noqa: TRY301 - the place is added below
        except BadBlockError as error:
            cause = corrupt(span.segment, position, error.reason, offset=offset)
            cause.__cause__ = error
            if header is None:
                place = index.first_from(position + 1, 0, limit, read) if index is not None else None
                position, until = (place.position, place.offset) if place else (limit, span.end_offset)
            elif header.base_offset > offset:
                until = header.base_offset
            else:
                position, until = position + header.length, header.end_offset
            until = min(max(until, offset + 1), span.end_offset)
            yield Lost(offset, until, cause)
            offset = until
            continue
        yield Block(position, header, window.data, start)
        position += header.length
        offset = header.end_offset


class _Window:
    """The bytes of a segment that are in memory: one block, or a chunk, or all that `read` gives."""

    def __init__(self, read: Callable[[int, int], bytes], position: int, limit: int) -> None:
        self._read = read
        self._limit = limit
        self._origin = position
        self.data = b""

    def at(self, position: int, length: int) -> int:
        """Return where in `data` the `length` bytes from `position` begin, or as many as there are."""
        if position >= self._limit:
            raise BadBlockError("offsets are missing")
        if position - self._origin + length > len(self.data):
            wanted = min(max(_CHUNK_BYTES, length), self._limit - position)
            self.data, self._origin = self._read(position, wanted), position
        return position - self._origin
