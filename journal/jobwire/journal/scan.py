"""Spans: byte ranges of segments that together hold a range of offsets, for readers in bulk.

A span is small and picklable and names no directory: a planner makes spans, a worker on another
machine loads them from wherever the journal is mounted there, or gets the bytes carried along.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from jobwire.journal.block import BlockHeader, check_body, parse_header
from jobwire.journal.errors import BadBlockError, JournalCorrupt, corrupt, truncated
from jobwire.journal.index import SegmentIndex
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


def checked_blocks(data: bytes, span: Span) -> Iterator[CheckedBlock]:
    """Yield the span's blocks after checking header, body and that the offsets have no gap.

    Raises JournalCorrupt with the place.
    """
    for found in readable_blocks(data, span):
        if isinstance(found, Lost):
            raise found.cause
        yield found


def readable_blocks(
    data: bytes, span: Span, index: SegmentIndex | None = None
) -> Iterator[CheckedBlock | Lost]:
    """Yield what `checked_blocks` does, and in its place what damage took.

    Where a header is damaged, reading goes on at the next place that `index` names: only there, since the
    payloads are strangers' bytes, which may look like a block.
    """
    start, offset = 0, span.first_offset
    while offset < span.end_offset:
        header = None
        try:
            header = parse_header(data, start)
            if header.end_offset <= offset:
                start += header.length
                continue
            check_body(data, header, start)
            if header.base_offset > offset:
                raise BadBlockError(f"block holds {header.base_offset} up to {header.end_offset}")  # noqa: TRY301 - the place is added below
        except BadBlockError as error:
            cause = corrupt(span.segment, span.position + start, error.reason, offset=offset)
            cause.__cause__ = error
            if header is None:
                start, until = _resumed(data, span, start, index)
            elif header.base_offset > offset:
                until = header.base_offset
            else:
                start, until = start + header.length, header.end_offset
            until = min(max(until, offset + 1), span.end_offset)
            yield Lost(offset, until, cause)
            offset = until
            continue
        end = min(header.end_offset, span.end_offset)
        yield CheckedBlock(header, start, offset - header.base_offset, end - header.base_offset)
        start += header.length
        offset = end


def _resumed(data: bytes, span: Span, bad: int, index: SegmentIndex | None) -> tuple[int, int]:
    """Return where reading goes on behind a damaged header, and with which offset."""
    if index is not None:
        origin, end = span.position, span.position + len(data)
        entry = index.resume(origin + bad, end, lambda at, size: data[at - origin : at - origin + size])
        if entry is not None:
            return entry.position - origin, entry.offset
    return len(data), span.end_offset
