"""Cutting a range of offsets into tasks: by size, or by job."""

import socket
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from jobwire.core.override import override
from jobwire.journal.errors import JournalCorrupt, JournalNotFound, JournalTruncated
from jobwire.journal.reader import JournalReader
from jobwire.journal.scan import Span, is_sealed, load_span
from jobwire.journal.segment import list_segments
from jobwire.metrics.source.options import SourceOptions

_EVERYTHING = 1 << 62


class Piece(NamedTuple):
    """A span, and its bytes where the executors do not share the journal's directory."""

    span: Span
    data: bytes | None


class SpanPartition(InputPartition):
    """One task: pieces in their order, and of them the jobs of one shard, or all of them (None)."""

    def __init__(self, pieces: list[Piece], shard: int | None = None) -> None:
        super().__init__(pieces)
        self.pieces = pieces
        self.shard = shard

    @override
    def __repr__(self) -> str:
        carried = sum(len(piece.data or b"") for piece in self.pieces)
        spans = [piece.span for piece in self.pieces]
        return f"SpanPartition({spans}, shard {self.shard}, {carried} bytes inside)"


def planned(partition: InputPartition) -> SpanPartition:
    """Return a task as `plan` made it; Spark hands it over as what it knows of it."""
    if not isinstance(partition, SpanPartition):
        raise TypeError(f"not a partition of this source: {type(partition).__name__}")
    return partition


def plan(reader: JournalReader, options: SourceOptions, start: int, end: int) -> Iterator[SpanPartition]:
    """Yield the tasks that together read exactly [start, end): one a shard, or some of about equal size.

    Raises JournalTruncated when `start` is pruned or `end` is no longer durable.
    """

    def piece(span: Span) -> Piece:
        return Piece(span, load(options, span) if options.inline else None)

    spans = list(_scan(reader, options, start, end, _EVERYTHING))
    if options.shards:
        pieces = [piece(span) for span in spans]
        for shard in range(options.shards):
            yield SpanPartition(pieces, shard)
        return
    total = sum(span.length for span in spans)
    tasks = max(1, -(-total // options.partition_bytes))
    for span in _scan(reader, options, start, end, -(-total // tasks)):
        yield SpanPartition([piece(span)])


def oldest_offset(reader: JournalReader, options: SourceOptions) -> int:
    """Return the first offset that can be read: of the journal, or of the sealed files that lead up to it."""
    if not options.history:
        return reader.first_offset
    from jobwire.journal.history import History  # noqa: PLC0415 - Parquet, for who has a history

    return History(options.history).reaching(reader.identity, reader.first_offset)


def load(options: SourceOptions, span: Span) -> bytes:
    """Return the bytes of a span, of a segment or a sealed file; none of a damaged file that may be skipped.

    Raises the errors of jobwire.journal; JournalNotFound on a host that does not see the journal.
    """
    if is_sealed(span):
        from jobwire.journal.history import load_sealed  # noqa: PLC0415 - Parquet, for who has a history

        try:
            return load_sealed(span)
        except JournalCorrupt:
            if not options.skips_damage:
                raise
            return b""
    try:
        return load_span(options.journal, span, skip=options.skips_damage)
    except JournalTruncated:
        if options.journal.is_dir() and list_segments(options.journal):
            raise
        # The planner saw it a moment ago, so it is this host that does not.
        raise JournalNotFound(
            f"the executor on {socket.gethostname()} sees no journal in {options.journal}",
            hint="mount the directory there under the same name, or use --inline (option inline)",
            directory=str(options.journal),
        ) from None


def _scan(
    reader: JournalReader, options: SourceOptions, start: int, end: int, max_bytes: int
) -> Iterator[Span]:
    """Yield spans that hold [start, end): what the journal no longer has is in the history."""
    first = min(end, reader.first_offset)
    if options.history and start < first:
        from jobwire.journal.history import History  # noqa: PLC0415 - Parquet, for who has a history

        yield from History(options.history).scan(reader.identity, start, first)
        start = first
    if start < end:
        yield from reader.scan(start, end, max_bytes=max_bytes)
