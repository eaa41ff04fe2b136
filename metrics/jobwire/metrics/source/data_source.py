"""What Spark looks up under the name `mqtt`: the journal as a stream, and as a table over a range of it."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jobwire.core.errors import ConfigError
from jobwire.core.override import override
from jobwire.journal.parsing import microsecond_of
from jobwire.journal.reader import JournalReader
from jobwire.metrics.source.columns import ddl, read_partition
from jobwire.metrics.source.options import EARLIEST, LATEST, SourceOptions, read_options
from jobwire.metrics.source.planning import oldest_offset, plan
from jobwire.metrics.source.stream import JournalStream


class JournalTable(DataSourceReader):
    """`spark.read`: [startingOffset, endingOffset), or what was received in [startingTime, endingTime).

    Times are ISO 8601 with an offset or Z. The default is everything that is durable when the read
    is planned. Raises JournalTruncated for a range that is not (all) there.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @override
    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        with JournalReader(self._options.journal) as reader:
            start, end = self._range(reader)
            return list(plan(reader, self._options, start, end)) if start < end else []

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the task's rows as Arrow batches; runs in an executor."""
        return read_partition(self._options, partition)

    def _range(self, reader: JournalReader) -> tuple[int, int]:
        options = self._options
        start = _bound(reader, options, options.starting_offset, options.starting_time)
        return start, _bound(reader, options, options.ending_offset, options.ending_time)


def _bound(reader: JournalReader, options: SourceOptions, word: str, time: str) -> int:
    if time and options.history:
        raise ConfigError(
            "the source mqtt finds times in the journal only, not in option history",
            hint="leave the times out and filter by received_at",
        )
    if time:
        return reader.offset_at(microseconds(time))
    if word == EARLIEST:
        return oldest_offset(reader, options)
    return reader.durable_offset if word == LATEST else int(word)


def microseconds(text: str) -> int:
    """Return ISO 8601 `text` as microseconds since the epoch; raises ConfigError, also without a zone."""
    moment = microsecond_of(text)
    if moment is None:
        hint = "ISO 8601 with Z or an offset, such as 2026-01-31T12:00:00Z"
        raise ConfigError(f"not a time with a zone: {text!r}", hint=hint)
    return moment


class MqttDataSource(DataSource):
    """`format("mqtt")`: the journal of an MQTT topic tree. Options: docs of `source.options`.

    Columns: offset, received_at (µs), topic, job_id, retained, verdict, payload; with parse=event
    also seq, event, timestamp, detail, data (null unless the message is accepted). The option columns
    names those that are wanted: Spark cannot tell a Python source, and what is not given costs nothing.
    """

    @classmethod
    @override
    def name(cls) -> str:
        """Return the format's name."""
        return "mqtt"

    @override
    def schema(self) -> str:
        """Return the columns as DDL."""
        return ddl(read_options(self.options))

    @override
    def reader(self, schema: StructType) -> JournalTable:  # noqa: ARG002 - Spark's signature
        """Return the batch reader."""
        return JournalTable(read_options(self.options))

    @override
    def streamReader(self, schema: StructType) -> JournalStream:  # noqa: ARG002, N802 - Spark's signature
        """Return the stream reader. Opens nothing."""
        return JournalStream(read_options(self.options))
