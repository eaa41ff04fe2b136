"""Cutting a range of offsets into tasks."""

from collections.abc import Iterator

from pyspark.sql.datasource import InputPartition

from jobwire.core.override import override
from jobwire.journal.index import INDEX_STRIDE_BYTES
from jobwire.journal.reader import JournalReader
from jobwire.journal.scan import Span, load_span
from jobwire.metrics.source.options import SourceOptions

_EVERYTHING = 1 << 62


class SpanPartition(InputPartition):
    """One task: a span, and its bytes where the executors do not share the journal's directory."""

    def __init__(self, span: Span, data: bytes | None = None) -> None:
        super().__init__(span)
        self.span = span
        self.data = data

    @override
    def __repr__(self) -> str:
        carried = f", {len(self.data)} bytes inside" if self.data is not None else ""
        return f"SpanPartition({self.span}{carried})"


def plan(reader: JournalReader, options: SourceOptions, start: int, end: int) -> Iterator[SpanPartition]:
    """Yield the tasks that together read exactly [start, end), of about equal size.

    Raises JournalTruncated when `start` is pruned or `end` is no longer durable.
    """
    total = sum(span.length for span in reader.scan(start, end, max_bytes=_EVERYTHING))
    tasks = max(1, -(-total // options.partition_bytes))
    # A span ends at the first indexed place after its size: without the margin a crumb would be left.
    size = -(-total // tasks) + INDEX_STRIDE_BYTES
    for span in reader.scan(start, end, max_bytes=size):
        yield SpanPartition(span, load_span(options.journal, span) if options.inline else None)
