"""Sealing: what a journal holds becomes files of its history, in order, each entry once.

A file has what the segments have, the raw payload and the recorder's verdict, and beside it what Spark or SQL
would have to parse: seq, event, timestamp, detail, data. Whoever seals holds a lock in the journal's
directory and asks the history how far it is, so a repetition finds nothing to do.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobwire.core.clock import Clock
from jobwire.core.topics import Topics
from jobwire.journal import arrow
from jobwire.journal.errors import truncated
from jobwire.journal.history import History
from jobwire.journal.index import SegmentIndex
from jobwire.journal.parsing import PARSED, parse_accepted
from jobwire.journal.reader import JournalReader
from jobwire.journal.scan import Span, load_span
from jobwire.journal.segment import list_segments
from jobwire.storage.file_lock import sole

SCHEMA = pa.schema(
    [*arrow.SCHEMA, *((name, pa.int64() if name == "seq" else pa.string()) for name in PARSED)]
)
SEAL_LOCK = "seal.lock"
# Few values in many rows; the others would only fill the dictionary.
_REPEATED = ["topic", "job_id", "verdict", "event"]
# Also how many rows a reader may skip by their times and offsets.
_GROUP_BYTES = 16 << 20

Judge = Callable[[Any], Any]
"""From a record batch of `arrow.SCHEMA` to its verdicts, where the recorder had no keys."""


def seal(
    directory: Path,
    history: History,
    *,
    clock: Clock,
    topics: Topics,
    closed_only: bool = False,
    judge: Judge | None = None,
    skip_lost: bool = False,
) -> Iterator[int]:
    """Seal what is durable and not sealed; yield the offset after each file.

    A segment becomes a file, or several where it was sealed while it grew; `closed_only` leaves the one that
    still grows. Raises the errors of jobwire.journal, StorageError, AlreadyRunningError; JournalTruncated for
    entries that were pruned before they were sealed, unless `skip_lost`.
    """
    with (
        sole(directory / SEAL_LOCK, clock=clock, what=f"seals the journal in {directory}"),
        JournalReader(directory) as reader,
    ):
        files = history.sealed(reader.identity)
        first, end = reader.first_offset, reader.durable_offset
        start = files[-1].end_offset if files else first
        if closed_only:
            end = min(end, *list_segments(directory)[-1:])
        if start < first:
            if not skip_lost:
                raise truncated(start, first, end)
            start = first
        spans = reader.scan(start, end, max_bytes=_GROUP_BYTES) if start < end else iter(())
        for _, group in groupby(spans, key=lambda span: span.segment_base):
            parts = list(group)
            content = sealed_file(directory, parts, topics=topics, judge=judge)
            history.put(reader.identity, parts[0].first_offset, parts[-1].end_offset, content)
            yield parts[-1].end_offset


def sealed_file(
    directory: Path, spans: Sequence[Span], *, topics: Topics, judge: Judge | None = None
) -> bytes:
    """Return neighbouring spans as one Parquet file."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, SCHEMA, compression="zstd", use_dictionary=_REPEATED, write_page_checksum=True
    ) as writer:
        for span in spans:
            data, index = (
                load_span(directory, span, skip=True),
                SegmentIndex.load(directory, span.segment_base),
            )
            for batch in arrow.record_batches(data, span, topics=topics, skip=index):
                writer.write_batch(_with_parsed(batch, judge))
    return bytes(sink.getvalue())


def _with_parsed(batch: Any, judge: Judge | None) -> Any:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if judge is not None:
        columns["verdict"] = judge(batch)
    columns |= parse_accepted(columns["verdict"], columns["payload"])
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
