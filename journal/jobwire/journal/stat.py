"""Figures about a journal: size, range, verdicts, and who is how far behind."""

import struct
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from jobwire.journal.block import decode_names, sections
from jobwire.journal.consumers import Committed, Consumers
from jobwire.journal.errors import BadBlockError, corrupt
from jobwire.journal.head import Head, HeadReader
from jobwire.journal.segment import SEGMENT_HEADER_BYTES, SegmentReader, list_segments
from jobwire.journal.walk import PlacedBlock, walk


class Stat(NamedTuple):
    """The state of a journal; times are microseconds since the epoch, None where it is empty."""

    identity: str
    segments: int
    bytes: int
    blocks: int
    entries: int
    first_offset: int
    durable_offset: int
    received_first: int | None
    received_last: int | None
    verdicts: dict[str, int]
    consumers: list[Committed]


def stat(directory: Path) -> Stat:
    """Read all block headers and verdict columns (payloads are passed over).

    Raises JournalNotFound, JournalCorrupt.
    """
    with closing(HeadReader(directory)) as head_file:
        head = head_file.read()
    bases = [base for base in list_segments(directory) if base <= head.segment_base]
    count = _Count()
    for base in bases:
        with SegmentReader(directory, base, identity=head.identity) as segment:
            count.segment(segment, head)
    return Stat(
        str(head.identity),
        len(bases),
        count.bytes,
        count.blocks,
        count.verdicts.total(),
        bases[0] if bases else head.end_offset,
        head.end_offset,
        count.received_first,
        head.received_max if count.blocks else None,
        dict(sorted(count.verdicts.items())),
        Consumers(directory).all(),
    )


class _Count:
    def __init__(self) -> None:
        self.bytes = self.blocks = 0
        self.received_first: int | None = None
        self.verdicts: Counter[str] = Counter()

    def segment(self, segment: SegmentReader, head: Head) -> None:
        """Add one segment's figures."""
        limit = head.durable_bytes if segment.base_offset == head.segment_base else segment.size()
        self.bytes += limit
        try:
            for block in walk(segment, SEGMENT_HEADER_BYTES, limit, check_bodies=False):
                self._block(block)
        except BadBlockError as error:
            raise corrupt(segment.name, error.position, error.reason) from error
        except (struct.error, ValueError) as error:  # bodies are not checked here
            raise corrupt(segment.name, SEGMENT_HEADER_BYTES, f"unreadable verdicts: {error}") from error

    def _block(self, block: PlacedBlock) -> None:
        self.blocks += 1
        if self.received_first is None:
            self.received_first = block.header.received_min
        place = sections(block.header)
        at = block.start + place.verdict_no
        numbers = block.data[at : at + block.header.rows]
        names = decode_names(
            block.data, block.start + place.verdict_at, block.start + place.verdicts, block.header.verdicts
        )
        for number, name in enumerate(names):
            self.verdicts[name] += numbers.count(number)
