"""Going through the blocks of a segment in order, in bounded memory."""

from collections.abc import Iterator
from typing import NamedTuple

from jobwire.journal.block import HEADER_BYTES, BlockHeader, check_body, parse_header
from jobwire.journal.errors import BadBlockError
from jobwire.journal.segment import SegmentReader

_CHUNK_BYTES = 256 << 10


class PlacedBlock(NamedTuple):
    """A block at `position` of its segment, whose bytes begin at `start` of `data`."""

    position: int
    header: BlockHeader
    data: bytes
    start: int


def walk(
    segment: SegmentReader, position: int, limit: int, *, check_bodies: bool = True
) -> Iterator[PlacedBlock]:
    """Yield the blocks that stand from `position` to `limit`, both in bytes of the segment.

    Raises BadBlockError, with its position, at the first place that is not a valid block; a block
    that reaches past `limit` counts as cut short. Holds one block or 256 KiB, whichever is larger.
    """
    data, origin = b"", position
    while position < limit:
        start = position - origin
        if len(data) - start < HEADER_BYTES:
            data, origin, start = segment.read(position, min(_CHUNK_BYTES, limit - position)), position, 0
        try:
            header = parse_header(data, start)
            if header.length > limit - position:
                raise BadBlockError("body is cut short")  # noqa: TRY301 - the place is added below
            if header.length > len(data) - start:
                wanted = min(max(_CHUNK_BYTES, header.length), limit - position)
                data, origin, start = segment.read(position, wanted), position, 0
            if check_bodies:
                check_body(data, header, start)
        except BadBlockError as error:
            raise BadBlockError(error.reason, position=position) from error
        yield PlacedBlock(position, header, data, start)
        position += header.length
