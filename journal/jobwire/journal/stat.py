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
from jobwire.journal.segment import NEVER_US, SEGMENT_HEADER_BYTES


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
    size = blocks = 0
    segments: set[int] = set()
    received_first, received_last = 0, NEVER_US
    verdicts: Counter[str] = Counter()
    with JournalReader(directory) as reader:
        identity, first, end = reader.identity, reader.first_offset, reader.durable_offset
        for span in reader.scan(first, end):
            size += span.length
            segments.add(span.segment_base)
            for block in loaded_blocks(load_span(directory, span), span):
                if isinstance(block, Lost):
                    raise block.cause
                if not blocks:
                    received_first = block.header.received_min
                received_last = max(received_last, block.header.received_max)
                blocks += 1
                verdicts.update(_verdicts(block, span))
    return Stat(
        identity,
        len(segments),
        size + len(segments) * SEGMENT_HEADER_BYTES,
        blocks,
        verdicts.total(),
        first,
        end,
        received_first if blocks else None,
        received_last if blocks else None,
        dict(sorted(verdicts.items())),
        Consumers(directory).all(),
    )


def _verdicts(block: Block, span: Span) -> dict[str, int]:
    """Return how many of the block's entries have which verdict."""
    header, place = block.header, sections(block.header)
    at = block.start + place.verdict_no
    numbers = block.data[at : at + header.rows]
    try:
        names = decode_names(
            block.data, block.start + place.verdict_at, block.start + place.verdicts, header.verdicts
        )
    except (struct.error, ValueError) as error:  # in spite of a right checksum
        raise corrupt(span.segment, block.position, f"unreadable verdicts: {error}") from error
    return {name: numbers.count(number) for number, name in enumerate(names)}
