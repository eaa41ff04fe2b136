"""Journal spans as Arrow record batches, for Spark and other columnar readers.

The only module of the journal that needs pyarrow (and numpy, which comes with it). A span of one
large block is handed over without copying a payload byte; many small blocks are joined, which costs
one copy and a few microseconds a block.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobwire.core.topics import Topics
from jobwire.journal.block import REDELIVERED, RETAINED, sections
from jobwire.journal.entry import DAMAGED, DAMAGED_TOPIC
from jobwire.journal.index import SegmentIndex
from jobwire.journal.scan import Block, Lost, Span, loaded_blocks

BATCH_ROWS = 100_000
# Payload offsets are 32 bits (Arrow's `binary`), and a batch is held in memory once per reader.
BATCH_BYTES = 64 << 20
_COPIED_BYTES = 64 << 10

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("received_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("job_id", pa.string()),
        pa.field("retained", pa.bool_(), nullable=False),
        pa.field("redelivered", pa.bool_(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


def record_batches(
    data: bytes,
    span: Span,
    *,
    topics: Topics,
    max_rows: int = BATCH_ROWS,
    columns: Sequence[str] = tuple(SCHEMA.names),
    skip: SegmentIndex | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the span's rows as batches with the given columns of SCHEMA, in offset order.

    `data` comes from `load_span`, or was carried along. `job_id` is null where the topic is not one
    of `topics`. A batch ends with the block that reaches `max_rows`. Raises JournalCorrupt; what was yielded
    before is sound. With `skip`, the segment's index, a row stands for each entry that damage took: its
    verdict is DAMAGED, and its time that of what was sound before it, 0 where nothing was.
    """
    known_us = 0
    for group in _groups(loaded_blocks(data, span, skip), max_rows):
        if isinstance(group, Lost):
            if skip is None:
                raise group.cause
            yield lost_batch(group.first_offset, group.end_offset, columns, received_us=known_us)
            continue
        known_us = max(block.header.received_max for block in group)
        batch = _Batch(data, group, span, topics)
        yield pa.RecordBatch.from_arrays(
            [batch.column(name) for name in columns], schema=pa.schema([SCHEMA.field(c) for c in columns])
        )


def lost_batch(
    first_offset: int, end_offset: int, columns: Sequence[str], *, received_us: int = 0
) -> pa.RecordBatch:
    """Return rows of SCHEMA in the place of entries that damage took."""
    count = end_offset - first_offset
    same = {
        "received_at": received_us,
        "topic": DAMAGED_TOPIC,
        "job_id": None,
        "retained": False,
        "redelivered": False,
        "verdict": DAMAGED,
        "payload": b"",
    }
    arrays = [
        pa.array(range(first_offset, end_offset), pa.int64())
        if name == "offset"
        else pa.repeat(pa.scalar(same[name], SCHEMA.field(name).type), count)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in columns]))


def _groups(blocks: Iterable[Block | Lost], max_rows: int) -> Iterator[list[Block] | Lost]:
    group: list[Block] = []
    rows = size = 0
    for block in blocks:
        if isinstance(block, Lost):
            if group:
                yield group
            yield block
            group, rows, size = [], 0, 0
            continue
        if group and (rows >= max_rows or size + block.header.payload_bytes > BATCH_BYTES):
            yield group
            group, rows, size = [], 0, 0
        group.append(block)
        rows += block.header.rows
        size += block.header.payload_bytes
    if group:
        yield group


class _ColumnChunks:
    """One column's pieces, a block each."""

    __slots__ = ("bytes", "counts", "ends", "sizes")

    def __init__(self) -> None:
        self.ends: list[bytes | memoryview] = []
        self.bytes: list[bytes | memoryview] = []
        self.counts: list[int] = []
        self.sizes: list[int] = []

    def add(self, block: bytes | memoryview, ends: int, count: int, start: int, size: int) -> None:
        """Note a block's `count` values: their ends at `ends`, their bytes at `start`."""
        # Without the final end: it is the next block's first.
        self.ends.append(block[ends : ends + 4 * count])
        self.bytes.append(block[start : start + size])
        self.counts.append(count)
        self.sizes.append(size)

    def array(self, kind: pa.DataType) -> pa.Array:
        """Return all values as one array; a single block's without copying its bytes."""
        ends = np.frombuffer(_joined(self.ends), dtype="<i4")
        if len(self.ends) > 1:
            ends = ends + np.repeat(_starts(self.sizes), self.counts)
        ends = np.append(ends, np.int32(sum(self.sizes))).astype("<i4", copy=False)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(_joined(self.bytes))]
        return pa.Array.from_buffers(kind, sum(self.counts), buffers)


class _Batch:
    """The columns of neighbouring blocks laid end to end, then cut to the wanted rows."""

    def __init__(self, data: bytes, group: list[Block], span: Span, topics: Topics) -> None:
        self._topics = topics
        self._base_offset = group[0].header.base_offset
        self._gather(data, group)
        self._total = sum(self._counts)
        self._begin = max(0, span.first_offset - self._base_offset)
        self._length = min(self._total, span.end_offset - self._base_offset) - self._begin
        self._topic_numbers, self._topic_names = self._dictionary(self._topic_no, "<i4", self._topic)

    def _gather(self, data: bytes, group: list[Block]) -> None:
        self._counts = [block.header.rows for block in group]
        self._received: list[bytes | memoryview] = []
        self._topic_no: list[bytes | memoryview] = []
        self._verdict_no: list[bytes | memoryview] = []
        self._flags: list[bytes | memoryview] = []
        self._topic, self._verdict, self._payload = _ColumnChunks(), _ColumnChunks(), _ColumnChunks()
        view = memoryview(data)
        for _, header, _, start in group:
            count = header.rows
            place = sections(header)
            # Slices of bytes copy, those of a view do not; below some 64 KiB copying is the quicker.
            whole: bytes | memoryview = view if header.length > _COPIED_BYTES else data
            block = whole[start : start + header.length]
            self._received.append(block[place.received_at : place.payload_at])
            self._topic_no.append(block[place.topic_no : place.topic_no + 4 * count])
            self._verdict_no.append(block[place.verdict_no : place.verdict_no + count])
            self._flags.append(block[place.flags : place.flags + count])
            self._topic.add(block, place.topic_at, header.topics, place.topics, header.topic_bytes)
            self._verdict.add(block, place.verdict_at, header.verdicts, place.verdicts, header.verdict_bytes)
            self._payload.add(block, place.payload_at, count, place.payload, header.payload_bytes)

    def column(self, name: str) -> pa.Array:
        """Return the named column of SCHEMA."""
        return getattr(self, f"_{name}_column")().slice(self._begin, self._length)

    def _offset_column(self) -> pa.Array:
        return pa.array(np.arange(self._base_offset, self._base_offset + self._total, dtype="i8"))

    def _received_at_column(self) -> pa.Array:
        buffers = [None, pa.py_buffer(_joined(self._received))]
        return pa.Array.from_buffers(SCHEMA.field("received_at").type, self._total, buffers)

    def _topic_column(self) -> pa.Array:
        return self._topic_names.take(self._topic_numbers)

    def _job_id_column(self) -> pa.Array:
        # What `Topics.parse` says of each, without a call for each: a batch may be of as many jobs as rows.
        root = re.escape(self._topics.root)
        parts = pc.extract_regex(self._topic_names, f"^{root}/(?P<job>[0-9a-f]{{8}})/(?:events|state|facts)$")
        return pc.struct_field(parts, "job").take(self._topic_numbers)

    def _retained_column(self) -> pa.Array:
        return self._flag(RETAINED)

    def _redelivered_column(self) -> pa.Array:
        return self._flag(REDELIVERED)

    def _verdict_column(self) -> pa.Array:
        numbers, names = self._dictionary(self._verdict_no, "i1", self._verdict)
        return names.take(numbers)

    def _payload_column(self) -> pa.Array:
        return self._payload.array(pa.binary())

    def _flag(self, bit: int) -> pa.Array:
        flags = np.frombuffer(_joined(self._flags), dtype="u1")
        bits = np.packbits((flags & bit) != 0, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), self._total, [None, pa.py_buffer(bits)])

    def _dictionary(
        self, numbers_parts: list[bytes | memoryview], width: str, names: _ColumnChunks
    ) -> tuple[pa.Array, pa.Array]:
        """Return each row's number and the distinct names it points into."""
        numbers = np.frombuffer(_joined(numbers_parts), dtype=width)
        texts = names.array(pa.string())
        if len(numbers_parts) == 1:
            return pa.array(numbers), texts
        numbers = numbers.astype("i4") + np.repeat(_starts(names.counts), self._counts)
        distinct = texts.dictionary_encode()
        return distinct.indices.take(pa.array(numbers)), distinct.dictionary


def _joined(parts: list[bytes | memoryview]) -> Any:
    """Return the pieces as one; a single one without copying."""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _starts(sizes: list[int]) -> Any:
    return np.concatenate(([0], np.cumsum(sizes[:-1]))).astype("i4")
