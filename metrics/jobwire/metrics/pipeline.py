"""The metrics query: journals in, tables out.

One streaming query over all journals, without state in Spark: executors read, check and parse; the
driver folds the compact rows into the tables, in one transaction that holds the offsets as well.
docs/adr/0401 and 0402 give the measurements behind this.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from jobwire.core.errors import JobwireError
from jobwire.journal.errors import JournalRecreated, truncated
from jobwire.journal.reader import JournalReader
from jobwire.metrics.rows import rows_of
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.sink import Applied, MetricsSink
from jobwire.metrics.source.options import PARSE_EVENT, PARSE_FOLD
from jobwire.metrics.transform import HISTORY_COLUMNS, history_rows, union_of


class Shard(NamedTuple):
    """One journal of the query: where it is, whose it is, and the first offset the tables want."""

    directory: Path
    identity: str
    start: int


class StoppingError(Exception):
    """A batch came after the query was asked to stop; it will come again at the next start."""


def open_shards(settings: MetricsSettings, sink: MetricsSink) -> list[Shard]:
    """Return the journals and where to go on in each.

    Raises JournalNotFound; JournalTruncated when rows that the tables want are pruned, and
    JournalRecreated when a journal the tables know was replaced by another: both unless data loss
    is allowed.
    """
    progress = sink.progress()
    shards = []
    for directory in settings.journals:
        with JournalReader(directory) as reader:
            first, end, identity = reader.first_offset, reader.durable_offset, reader.identity
        known = progress.get(identity)
        start = known.next_offset if known else first
        if not first <= start <= end:
            if not settings.allow_data_loss:
                raise truncated(start, first, end)
            start = first if start < first else end
        shards.append(Shard(directory, identity, start))
    _check_not_recreated(settings, shards, set(progress))
    return shards


def _check_not_recreated(settings: MetricsSettings, shards: Sequence[Shard], known: set[str]) -> None:
    present = {shard.identity for shard in shards}
    gone, new = known - present, present - known
    if gone and new and not settings.allow_data_loss:
        raise JournalRecreated(
            f"the tables were computed from journal {min(gone)}; in its place is {min(new)}",
            hint="`jobwire metrics rebuild --allow-data-loss` begins anew with the new journal; "
            "`run --allow-data-loss` adds it to the old tables",
            expected=min(gone),
            found=min(new),
        )


class Pipeline:
    """Builds the query's DataFrames and applies their rows to the tables."""

    def __init__(
        self,
        *,
        session: Any,
        settings: MetricsSettings,
        sink: MetricsSink,
        shards: Sequence[Shard],
        on_batch: Callable[[int, Applied], None] | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._sink = sink
        self._shards = shards
        self._on_batch = on_batch
        self._busy = threading.Lock()
        self._stopping = False
        self.failure: JobwireError | None = None

    def start(self, *, available_now: bool) -> Any:
        """Start the streaming query and return it. The checkpoint fits the tables (`reconcile`)."""
        self._stopping = False
        self.failure = None
        streams = [self._stream(shard) for shard in self._shards]
        writer = (
            union_of(streams)
            .writeStream.queryName("metrics")
            .option("checkpointLocation", self._settings.checkpoint.as_uri())
            .foreachBatch(self._apply)
        )
        trigger = (
            {"availableNow": True}
            if available_now
            else {"processingTime": f"{int(self._settings.trigger_seconds * 1000)} milliseconds"}
        )
        return writer.trigger(**trigger).start()

    def _stream(self, shard: Shard) -> Any:
        reader = self._options(self._session.readStream.format("mqtt"), shard)
        reader = (
            reader.option("startingOffset", str(shard.start))
            .option("consumer", self._settings.consumer)
            .option("maxRowsPerBatch", str(self._settings.max_rows))
            .option("maxBytesPerBatch", str(self._settings.max_mib << 20))
            .option("failOnDataLoss", str(not self._settings.allow_data_loss).lower())
            .option("parse", PARSE_FOLD)
        )
        return reader.load()

    def table(self, shard: Shard, start: int, end: int, **options: str) -> Any:
        """Return the messages [start, end) of one journal as a DataFrame; `options` of the source."""
        reader = self._options(self._session.read.format("mqtt"), shard).options(**options)
        return reader.option("startingOffset", str(start)).option("endingOffset", str(end)).load()

    def history(self, shard: Shard, start: int, end: int) -> Any:
        """Return the accepted events in [start, end) as columns for the history."""
        return history_rows(
            self.table(shard, start, end, parse=PARSE_EVENT, columns=",".join(HISTORY_COLUMNS))
        )

    def _options(self, reader: Any, shard: Shard) -> Any:
        return (
            reader.option("journal", str(shard.directory))
            .option("topicRoot", self._settings.topic_root)
            .option("verify", str(self._settings.verify).lower())
            .option("inline", str(self._settings.inline).lower())
        )

    def replay(self, shard: Shard, start: int, end: int) -> int:
        """Fold [start, end) of one journal in by batch reads, and return the rows counted."""
        counted = 0
        for first in range(start, end, self._settings.max_rows):
            last = min(end, first + self._settings.max_rows)
            rows = rows_of(self.table(shard, first, last, parse=PARSE_FOLD).toArrow())
            counted += self._sink.apply(rows, shard.identity).rows
        return counted

    def _apply(self, frame: Any, batch_id: int) -> None:
        """Handle one micro-batch; called by Spark, from a thread of its own."""
        with self._busy:
            if self._stopping:
                raise StoppingError
            try:
                applied = self._apply_shards(frame.toArrow())
            except JobwireError as error:
                # Spark hands on the text only; the class decides what happens next.
                self.failure = error
                raise
            if self._on_batch is not None:
                self._on_batch(batch_id, applied)

    def _apply_shards(self, table: Any) -> Applied:
        if len(self._shards) == 1:
            return self._sink.apply(rows_of(table), self._shards[0].identity)
        applied = Applied(0, 0)
        for number, shard in enumerate(self._shards):
            rows = rows_of(table.filter(pc.equal(table.column("shard"), number)))
            one = self._sink.apply(rows, shard.identity)
            applied = Applied(applied.rows + one.rows, applied.repeated + one.repeated)
        return applied

    def stop(self, query: Any, *, deadline_seconds: float = 60.0) -> None:
        """Let the present batch finish, then end the query."""
        self._stopping = True
        if self._busy.acquire(timeout=deadline_seconds):
            self._busy.release()
        query.stop()
