"""The block: one fsync'd batch of entries as columns behind a 64-byte header.

All numbers are little-endian, every section starts at a multiple of 8 bytes from the start of the
block and is zero-padded to the next, so that an Arrow array can lie directly on the stored bytes.
Offsets are implicit: row i of a block has `base_offset + i`.

    header 64   magic "JWB1", length u32 (whole block), base_offset u64, count u32, payload_bytes u32,
                received_min i64, received_max i64, topics u32, topic_bytes u32, verdicts u32,
                verdict_bytes u32, body crc32c u32, header crc32c u32
    received_at i64[count]
    payload_at  i32[count+1]   offsets into payload
    topic_no    i32[count]     index into the block's topics
    verdict_no  i8[count]      index into the block's verdicts
    flags       u8[count]      bit 0 retained, bit 1 redelivered
    topic_at    i32[topics+1], topic bytes (UTF-8)
    verdict_at  i32[verdicts+1], verdict bytes (UTF-8)
    payload     bytes

A section read wrongly cannot pass: the header has its own checksum (so its length can be trusted
before the body is read) and the body another.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import google_crc32c

from jobwire.core.errors import InvalidInputError
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.errors import BadBlockError

MAGIC = b"JWB1"
HEADER_BYTES = 64
RETAINED = 1
REDELIVERED = 2
MAX_VERDICTS = 127
# One entry may be as large as this; MQTT itself allows 256 MiB, an event 64 KiB.
MAX_PAYLOAD_BYTES = 16 << 20
_MAX_LENGTH = 2 * MAX_PAYLOAD_BYTES
_HEADER = struct.Struct("<4sIQIIqqIIIIII")
_CRC = struct.Struct("<I")
_HEADER_CHECKED = HEADER_BYTES - _CRC.size


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, the one checksum of the journal.

    It finds every error of up to three bits in blocks of any size used here, where zlib's CRC-32 loses
    that property beyond 11 kB, and current processors compute it with an instruction (docs/adr/0201).
    """
    return int(google_crc32c.value(data))


class BlockHeader(NamedTuple):
    """The header's fields without magic and checksum of itself."""

    length: int
    base_offset: int
    rows: int
    payload_bytes: int
    received_min: int
    received_max: int
    topics: int
    topic_bytes: int
    verdicts: int
    verdict_bytes: int
    body_crc: int

    @property
    def end_offset(self) -> int:
        """Return the offset after the block's last row."""
        return self.base_offset + self.rows


class Sections(NamedTuple):
    """Where each section starts, in bytes from the start of the block."""

    received_at: int
    payload_at: int
    topic_no: int
    verdict_no: int
    flags: int
    topic_at: int
    topics: int
    verdict_at: int
    verdicts: int
    payload: int
    end: int


def sections(header: BlockHeader) -> Sections:
    """Return the places that follow from the header's counts."""
    # Written out, each end rounded up to 8: this runs for every block, also for those of one row.
    _, _, count, payload_bytes, _, _, topics, topic_bytes, verdicts, verdict_bytes, _ = header
    payload_at = HEADER_BYTES + 8 * count
    topic_no = payload_at + (4 * count + 11 & -8)
    verdict_no = topic_no + (4 * count + 7 & -8)
    flags = verdict_no + (count + 7 & -8)
    topic_at = flags + (count + 7 & -8)
    topic_text = topic_at + (4 * topics + 11 & -8)
    verdict_at = topic_text + (topic_bytes + 7 & -8)
    verdict_text = verdict_at + (4 * verdicts + 11 & -8)
    payload = verdict_text + (verdict_bytes + 7 & -8)
    end = payload + (payload_bytes + 7 & -8)
    return Sections(
        HEADER_BYTES,
        payload_at,
        topic_no,
        verdict_no,
        flags,
        topic_at,
        topic_text,
        verdict_at,
        verdict_text,
        payload,
        end,
    )


def encode_block(base_offset: int, entries: Sequence[Entry]) -> bytes:
    """Return the bytes of one block; `entries` is not empty.

    Raises InvalidInputError for an entry that cannot be stored (payload over MAX_PAYLOAD_BYTES,
    a topic that is not valid Unicode, a time outside 64 bits).
    """
    received, topic, payloads, retained, verdict, redelivered = zip(*entries, strict=True)
    topics: dict[str, int] = {}
    topic_no = [topics.setdefault(name, len(topics)) for name in topic]
    verdicts: dict[str, int] = {}
    verdict_no = [verdicts.setdefault(name, len(verdicts)) for name in verdict]
    payload_at = list(accumulate(map(len, payloads), initial=0))
    count = len(entries)
    if len(verdicts) > MAX_VERDICTS:
        raise InvalidInputError(
            f"{len(verdicts)} different verdicts in one batch", hint="verdicts are reasons"
        )
    try:
        topic_at, topic_bytes = _dictionary(topics)
        verdict_at, verdict_bytes = _dictionary(verdicts)
        columns = (
            struct.pack(f"<{count}q", *received),
            struct.pack(f"<{count + 1}i", *payload_at),
            struct.pack(f"<{count}i", *topic_no),
            bytes(verdict_no),
            bytes([bool(r) | bool(d) << 1 for r, d in zip(retained, redelivered, strict=True)]),
            topic_at,
            topic_bytes,
            verdict_at,
            verdict_bytes,
            b"".join(payloads),
        )
    except (struct.error, ValueError, TypeError) as error:
        raise InvalidInputError(f"entry cannot be journaled: {error}") from error
    body = b"".join(part + bytes(-len(part) % 8) for part in columns)
    head = _HEADER.pack(
        MAGIC,
        HEADER_BYTES + len(body),
        base_offset,
        count,
        payload_at[-1],
        min(received),
        max(received),
        len(topics),
        len(topic_bytes),
        len(verdicts),
        len(verdict_bytes),
        crc32c(body),
        0,
    )[:_HEADER_CHECKED]
    return head + _CRC.pack(crc32c(head)) + body


def _dictionary(names: dict[str, int]) -> tuple[bytes, bytes]:
    encoded = [name.encode() for name in names]
    ends = accumulate(map(len, encoded), initial=0)
    return struct.pack(f"<{len(encoded) + 1}i", *ends), b"".join(encoded)


def parse_header(data: bytes, position: int = 0) -> BlockHeader:
    """Return the checked header at `position` of `data`.

    Raises BadBlockError when the bytes there are not a header as written.
    """
    if len(data) - position < HEADER_BYTES:
        raise BadBlockError("header is cut short")
    magic, *fields, checksum = _HEADER.unpack_from(data, position)
    if magic != MAGIC:
        raise BadBlockError("no block starts here")
    if checksum != crc32c(data[position : position + _HEADER_CHECKED]):
        raise BadBlockError("header checksum differs")
    header = BlockHeader(*fields)
    # A checksum proves the bytes, not their sense; a newer or foreign writer must not lead us astray.
    if header.rows == 0 or header.length > _MAX_LENGTH or sections(header).end != header.length:
        raise BadBlockError("header contradicts itself")
    return header


def check_body(data: bytes, header: BlockHeader, position: int = 0) -> None:
    """Raise BadBlockError unless the whole body stands at `position` of `data` as written."""
    end = position + header.length
    if len(data) < end:
        raise BadBlockError("body is cut short")
    if header.body_crc != crc32c(data[position + HEADER_BYTES : end]):
        raise BadBlockError("body checksum differs")


def decode_rows(data: bytes, header: BlockHeader, position: int = 0) -> list[Stored]:
    """Return the rows of a checked block.

    Raises BadBlockError where the columns contradict each other in spite of a right checksum.
    """
    place = sections(header)
    count = header.rows
    try:
        topics = decode_names(data, position + place.topic_at, position + place.topics, header.topics)
        verdicts = decode_names(data, position + place.verdict_at, position + place.verdicts, header.verdicts)
        ends = struct.unpack_from(f"<{count + 1}i", data, position + place.payload_at)
        topic_no = struct.unpack_from(f"<{count}i", data, position + place.topic_no)
        if ends[0] != 0 or ends[-1] != header.payload_bytes:
            raise BadBlockError("payload ends do not meet the payload")
        verdict_no = data[position + place.verdict_no : position + place.verdict_no + count]
        flags = data[position + place.flags : position + place.flags + count]
        payload = position + place.payload
        rows = zip(
            range(header.base_offset, header.end_offset),
            struct.unpack_from(f"<{count}q", data, position + place.received_at),
            [topics[number] for number in topic_no],
            [data[payload + a : payload + b] for a, b in pairwise(ends)],
            [flag & RETAINED != 0 for flag in flags],
            [verdicts[number] for number in verdict_no],
            [flag & REDELIVERED != 0 for flag in flags],
            strict=True,
        )
        return list(map(Stored._make, rows))
    except (struct.error, ValueError, IndexError) as error:
        if isinstance(error, BadBlockError):
            raise
        raise BadBlockError(f"columns contradict each other: {error}") from error


def decode_names(data: bytes, at: int, start: int, count: int) -> list[str]:
    """Return `count` names whose ends stand at `at` and whose bytes begin at `start`."""
    ends = struct.unpack_from(f"<{count + 1}i", data, at)
    return [data[start + a : start + b].decode() for a, b in pairwise(ends)]
