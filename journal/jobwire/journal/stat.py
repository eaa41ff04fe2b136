"""Figures about a journal: size, range, verdicts, and who is how far behind."""

import struct
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from jobwire.journal.block import decode_names, sections
from jobwire.journal.consumers import Committed, Consumers
from jobwire.journal.errors import corrupt
from jobwire.journal.reader import JournalReader
from jobwire.journal.scan import Block, Lost, Span, load_span, loaded_blocks
from jobwire.journal.segment import SEGMENT_HEADER_BYTES


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
    """Read all blocks' headers and verdicts, after their checksums.

    Raises JournalNotFound, JournalCorrupt, and JournalTruncated where retention was quicker.
    """
    count = _Count()
    with JournalReader(directory) as reader:
        first, end = reader.first_offset, reader.durable_offset
        for span in reader.scan(first, end):
            count.span(load_span(directory, span), span)
        identity = reader.identity
    return Stat(
        identity,
        len(count.segments),
        count.bytes + len(count.segments) * SEGMENT_HEADER_BYTES,
        count.blocks,
        count.verdicts.total(),
        first,
        end,
        count.received_first,
        count.received_last,
        dict(sorted(count.verdicts.items())),
        Consumers(directory).all(),
    )


class _Count:
    def __init__(self) -> None:
        self.bytes = self.blocks = 0
        self.segments: set[int] = set()
        self.received_first: int | None = None
        self.received_last: int | None = None
        self.verdicts: Counter[str] = Counter()

    def span(self, data: bytes, span: Span) -> None:
        """Add the figures of a span, all of whose bytes these are."""
        self.bytes += len(data)
        self.segments.add(span.segment_base)
        for block in loaded_blocks(data, span):
            if isinstance(block, Lost):
                raise block.cause
            try:
                self._block(block)
            except (struct.error, ValueError) as error:  # in spite of a right checksum
                raise corrupt(span.segment, block.position, f"unreadable verdicts: {error}") from error

    def _block(self, block: Block) -> None:
        self.blocks += 1
        header = block.header
        if self.received_first is None:
            self.received_first = header.received_min
        self.received_last = max(header.received_max, self.received_last or header.received_max)
        place = sections(header)
        at = block.start + place.verdict_no
        numbers = block.data[at : at + header.rows]
        names = decode_names(
            block.data, block.start + place.verdict_at, block.start + place.verdicts, header.verdicts
        )
        for number, name in enumerate(names):
            self.verdicts[name] += numbers.count(number)
