"""Spans: byte ranges of segments that together hold a range of offsets, for readers in bulk.

A span is small and picklable and names no directory: a planner makes spans, a worker on another
machine loads them from wherever the journal is mounted there, or gets the bytes carried along.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from jobwire.journal.block import BlockHeader, check_body, parse_header
from jobwire.journal.errors import BadBlockError, corrupt, truncated
from jobwire.journal.segment import SUFFIX, SegmentReader, list_segments


class Span(NamedTuple):
    """`length` bytes at `position` of a segment: whole blocks that hold [first_offset, end_offset).

    The first and last block may reach beyond these offsets; `cut` says by how many rows.
    """

    identity: str
    segment_base: int
    segment: str
    position: int
    length: int
    first_offset: int
    end_offset: int


class CheckedBlock(NamedTuple):
    """A checked block at `start` of the loaded bytes; rows [first_row, end_row) belong to the span."""

    header: BlockHeader
    start: int
    first_row: int
    end_row: int


def is_sealed(span: Span) -> bool:
    """Tell whether the span is of a sealed file, whose place is then its `segment` (history.py)."""
    return not span.segment.endswith(SUFFIX)


def load_span(directory: Path, span: Span) -> bytes:
    """Read the span's bytes.

    Raises JournalTruncated (pruned meanwhile), JournalRecreated, JournalCorrupt (file too short).
    """
    try:
        with SegmentReader(directory, span.segment_base, identity=UUID(span.identity)) as segment:
            data = segment.read(span.position, span.length)
    except FileNotFoundError as error:
        bases = list_segments(directory) if directory.is_dir() else []
        first = bases[0] if bases else span.end_offset
        raise truncated(span.first_offset, first, max(first, span.end_offset)) from error
    if len(data) < span.length:
        raise corrupt(span.segment, span.position + len(data), "file ends within durable data")
    return data


def checked_blocks(data: bytes, span: Span) -> Iterator[CheckedBlock]:
    """Yield the span's blocks after checking header, body and that the offsets have no gap.

    Raises JournalCorrupt with the place.
    """
    start, offset = 0, span.first_offset
    while offset < span.end_offset:
        try:
            header = parse_header(data, start)
            check_body(data, header, start)
            if not header.base_offset <= offset < header.end_offset:
                raise BadBlockError(f"block holds {header.base_offset} up to {header.end_offset}")  # noqa: TRY301 - the place is added below
        except BadBlockError as error:
            raise corrupt(span.segment, span.position + start, error.reason, offset=offset) from error
        end = min(header.end_offset, span.end_offset)
        yield CheckedBlock(header, start, offset - header.base_offset, end - header.base_offset)
        start += header.length
        offset = end
