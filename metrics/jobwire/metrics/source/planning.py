"""Cutting a range of offsets into tasks."""

from collections.abc import Iterator

from pyspark.sql.datasource import InputPartition

from jobwire.journal.reader import JournalReader
from jobwire.journal.scan import Span, load_span
from jobwire.metrics.source.options import SourceOptions


class SpanPartition(InputPartition):
    """One task: a span, and its bytes where the executors do not share the journal's directory."""

    def __init__(self, span: Span, data: bytes | None = None) -> None:
        super().__init__(span)
        self.span = span
        self.data = data

    def __repr__(self) -> str:
        carried = f", {len(self.data)} bytes inside" if self.data is not None else ""
        return f"SpanPartition({self.span}{carried})"


def plan(reader: JournalReader, options: SourceOptions, start: int, end: int) -> Iterator[SpanPartition]:
    """Yield the tasks that together read exactly [start, end).

    Raises JournalTruncated when `start` is pruned or `end` is not durable any more.
    """
    for span in reader.scan(start, end, max_bytes=options.partition_bytes):
        yield SpanPartition(span, load_span(options.journal, span) if options.inline else None)
