"""Sealing: what a journal holds becomes files of its history, in order, each entry once.

A file has what the segments have, the raw payload and the recorder's verdict, and beside it what Spark or SQL
would have to parse: seq, event, timestamp, detail, data. Whoever seals holds a lock in the journal's
directory and asks the history how far it is, so a repetition finds nothing to do.

An object store may complete an upload after it was given up. So the range of each file is noted before the
file is put, and where the listing still ends before it, that range is sealed again and no other: the
same rows give the same bytes, and those the same name.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby
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
from jobwire.storage.durable import replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.file_lock import sole
from jobwire.storage.files import FileSystem, SystemFiles

SCHEMA = pa.schema(
    [*arrow.SCHEMA, *((name, pa.int64() if name == "seq" else pa.string()) for name in PARSED)]
)
SEAL_LOCK = "seal.lock"
# In a folder of its own: whoever opens the journal for writing clears away what is half written beside it.
NOTED_NAME = "sealing/last.json"
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
    files: FileSystem | None = None,
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
        noted = _Noted(directory, reader, files if files is not None else SystemFiles())
        sealed = history.sealed(reader.identity)
        first, end = reader.first_offset, reader.durable_offset
        start = sealed[-1].end_offset if sealed else first
        if closed_only:
            end = min(end, *list_segments(directory)[-1:])
        if start < first:
            if not skip_lost:
                raise truncated(start, first, end)
            start = first
        again = noted.end_of(start)
        spans = chain(_scan(reader, start, again), _scan(reader, again, end))
        for _, group in groupby(spans, key=lambda span: (span.segment_base, span.first_offset < again)):
            parts = list(group)
            begin, reached = parts[0].first_offset, parts[-1].end_offset
            content = sealed_file(directory, parts, topics=topics, judge=judge)
            noted.note(begin, reached)
            history.put(reader.identity, begin, reached, content)
            yield reached


def _scan(reader: JournalReader, start: int, end: int) -> Iterator[Span]:
    return reader.scan(start, end, max_bytes=_GROUP_BYTES)


class _Noted:
    """The range of the file that was last begun, in a file of its own beside the journal."""

    def __init__(self, directory: Path, reader: JournalReader, files: FileSystem) -> None:
        self._path = directory / NOTED_NAME
        self._reader = reader
        self._files = files

    def end_of(self, start: int) -> int:
        """Return where the file ends that was last begun at `start`; `start` where none was."""
        try:
            noted = json.loads(self._path.read_bytes())
            identity, first, end = str(noted["journal"]), int(noted["first"]), int(noted["end"])
        except (
            FileNotFoundError,
            ValueError,
            KeyError,
            TypeError,
        ):
            # Nothing was begun, or damage took the note.
            return start
        except OSError as error:
            raise storage_failure("read", self._path, error) from error
        known = identity == self._reader.identity and first == start
        return end if known and start < end <= self._reader.durable_offset else start

    def note(self, first: int, end: int) -> None:
        """Have it on the disk that this range is begun. Raises StorageError."""
        noted = {"journal": self._reader.identity, "first": first, "end": end}
        try:
            self._files.make_directory(self._path.parent)
            self._files.sync_directory(self._path.parent.parent)
        except OSError as error:
            raise storage_failure("write", self._path, error) from error
        replace_durably(self._path, json.dumps(noted).encode(), files=self._files)


def sealed_file(
    directory: Path, spans: Sequence[Span], *, topics: Topics, judge: Judge | None = None
) -> bytes:
    """Return neighbouring spans as one Parquet file."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, SCHEMA, compression="zstd", use_dictionary=_REPEATED, write_page_checksum=True
    ) as writer:
        for span in spans:
            data = load_span(directory, span, skip=True)
            index = SegmentIndex.load(directory, span.segment_base)
            for batch in arrow.record_batches(data, span, topics=topics, skip=index):
                writer.write_batch(_with_parsed(batch, judge))
    return bytes(sink.getvalue())


def _with_parsed(batch: Any, judge: Judge | None) -> Any:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if judge is not None:
        columns["verdict"] = judge(batch)
    columns |= parse_accepted(columns["verdict"], columns["payload"])
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
