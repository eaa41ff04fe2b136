"""The journal as a stream: `spark.readStream.format("mqtt")`.

Spark builds this object in two driver-side processes and pickles it to the executors, so nothing is
opened before a method is called, and every method opens what it needs: after a crash the first call
is `partitions`. All methods but `read` run in Spark's source runner, from one thread.
"""

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import StorageError
from jobwire.core.override import override
from jobwire.journal.consumers import Consumers
from jobwire.journal.errors import JournalRecreated, truncated
from jobwire.journal.reader import JournalReader
from jobwire.metrics.source.columns import read_partition
from jobwire.metrics.source.ingest import Ingest
from jobwire.metrics.source.options import EARLIEST, LATEST, SourceOptions
from jobwire.metrics.source.planning import oldest_offset, plan
from jobwire.storage.file_lock import AlreadyRunningError

# A watermark for retention, which works in segments of minutes: no need to pay an fsync a batch.
_COMMIT_SECONDS = 1.0
_log = logging.getLogger(__name__)


class JournalOffset(NamedTuple):
    """A place in a journal as Spark keeps it in its checkpoint.

    Everything below `offset` of the journal `identity` is before it.
    """

    identity: str
    offset: int

    def to_json(self) -> dict[str, str | int]:
        """Return what Spark stores. It compares texts, so the keys are in sorted order."""
        return {"journal": self.identity, "offset": self.offset}


def read_place(stored: dict[str, object]) -> JournalOffset:
    """Return the place in `stored`; raises StorageError when it is not one of ours."""
    identity, offset = stored.get("journal"), stored.get("offset")
    if not isinstance(identity, str) or not isinstance(offset, int):
        raise StorageError(
            f"the checkpoint holds no place in a journal: {sorted(stored)}",
            hint="it belongs to another source; give this query a checkpoint of its own",
        )
    return JournalOffset(identity, offset)


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one journal; several queries may read the same one."""

    def __init__(self, options: SourceOptions, *, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock if clock is not None else SystemClock()
        self._forget()

    def _forget(self) -> None:
        self._reader: JournalReader | None = None
        self._ingest: Ingest | None = None
        self._target: JournalOffset | None = None
        self._committed_at: float | None = None
        self._registered = False

    @override
    def __getstate__(self) -> dict[str, object]:
        return {"options": self._options, "clock": self._clock}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._options, self._clock = state["options"], state["clock"]
        self._forget()

    @override
    def initialOffset(self) -> dict[str, str | int]:  # noqa: N802 - Spark's name
        """Return where a new query begins: option startingOffset."""
        reader = self._open()
        word = self._options.starting_offset
        if word == LATEST:
            return self._place(reader.durable_offset).to_json()
        start = oldest_offset(reader, self._options) if word == EARLIEST else int(word)
        return self._place(start).to_json()

    @override
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the row limit; `latestOffset` holds the byte limit as well."""
        return ReadMaxRows(self._options.max_rows)

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends; `start` itself when there is nothing new."""
        begin = self._begin(read_place(start))
        end = self._end().offset
        if not isinstance(limit, ReadAllAvailable):
            end = min(end, self._limited(begin.offset, limit))
        if begin.offset >= end:
            return start
        return self._place(end).to_json()

    def _limited(self, start: int, limit: ReadLimit) -> int:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        rows = min(rows, self._options.max_rows)
        first = self._open().first_offset
        if start < first:  # in sealed files, whose bytes say little
            return min(first, start + rows)
        return self._open().limit(start, max_rows=rows, max_bytes=self._options.max_bytes)

    @override
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the present end: a query with Trigger.AvailableNow stops there."""
        self._target = self._place(self._open().durable_offset)

    @override
    def reportLatestOffset(self) -> dict[str, str | int]:  # noqa: N802 - Spark's name
        """Return the journal's end: progress events show the backlog by it."""
        return self._place(self._open().durable_offset).to_json()

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of one batch.

        Raises JournalTruncated or JournalRecreated when the range is no longer (all) there, or
        skips what is lost with failOnDataLoss=false.
        """
        begin, until = self._begin(read_place(start)), read_place(end)
        if until.identity != begin.identity:
            # The journal was recreated after this batch was planned: all of its range is lost.
            self._data_loss(_recreated(until.identity, begin.identity))
            return []
        last = until.offset
        durable = self._open().durable_offset
        if last > durable:
            self._data_loss(truncated(last, self._open().first_offset, durable))
            last = durable
        self._register(begin.offset)
        if begin.offset >= last:
            return []
        return list(plan(self._open(), self._options, begin.offset, last))

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the task's rows as Arrow batches; runs in an executor."""
        return read_partition(self._options, partition)

    @override
    def commit(self, end: dict[str, Any]) -> None:
        """Move the consumer's place, about once a second. Spark calls this one batch late, never last."""
        now = self._clock.monotonic()
        if not self._options.consumer or (
            self._committed_at is not None and now < self._committed_at + _COMMIT_SECONDS
        ):
            return
        place = read_place(end)
        reader = self._open()
        if place.identity != reader.identity:
            return
        self._register(place.offset)
        try:
            Consumers(self._options.journal).commit(self._options.consumer, place.offset)
        except AlreadyRunningError as error:
            # Retention holds the lock for long. The place is a permission to prune: later is safe.
            _log.warning("consumer %s: %s", self._options.consumer, error)
        self._committed_at = now

    @override
    def stop(self) -> None:
        """Free what was opened; Spark calls it when the runner ends in an orderly way only."""
        if self._reader is not None:
            self._reader.close()
        if self._ingest is not None:
            self._ingest.close()
        self._forget()

    def _open(self) -> JournalReader:
        if self._options.embedded and self._ingest is None:
            ingest = Ingest(self._options, clock=self._clock)
            ingest.start()
            self._ingest = ingest
        if self._ingest is not None:
            self._ingest.keep_alive()
        if self._reader is not None:
            try:
                _ = self._reader.durable_offset
            except JournalRecreated:
                self._reader.close()
                self._reader = None
        if self._reader is None:
            self._reader = JournalReader(self._options.journal)
        return self._reader

    def _place(self, offset: int) -> JournalOffset:
        return JournalOffset(self._open().identity, offset)

    def _end(self) -> JournalOffset:
        end = self._place(self._open().durable_offset)
        if self._target is not None and self._target.identity == end.identity:
            return self._target
        return end

    def _begin(self, start: JournalOffset) -> JournalOffset:
        """Return `start`, or the first place still there where data was lost and that is allowed."""
        reader = self._open()
        first = reader.first_offset
        if start.identity != reader.identity:
            self._data_loss(_recreated(start.identity, reader.identity))
            return self._place(first)
        if start.offset < first and start.offset < (first := oldest_offset(reader, self._options)):
            self._data_loss(truncated(start.offset, first, reader.durable_offset))
            return self._place(first)
        if start.offset > reader.durable_offset:
            self._data_loss(truncated(start.offset, first, reader.durable_offset))
            return self._place(reader.durable_offset)
        return start

    def _data_loss(self, error: StorageError) -> None:
        if self._options.fail_on_data_loss:
            raise error
        _log.warning("failOnDataLoss=false: %s; going on without", error.message)

    def _register(self, offset: int) -> None:
        """Hold retention back from now on; a registered name keeps its place."""
        if self._options.consumer and not self._registered:
            Consumers(self._options.journal).register(self._options.consumer, offset)
            self._registered = True


def _recreated(expected: str, found: str) -> JournalRecreated:
    return JournalRecreated(
        f"the checkpoint belongs to journal {expected}, this one is {found}",
        hint="begin a new checkpoint, or go on from its first offset with failOnDataLoss=false",
        expected=expected,
        found=found,
    )
