"""What a task does with a range of a journal: read, check, parse, fold, and commit rows and offset.

Runs in Spark's Python workers. Only counts leave them. A task that runs again, because its executor was lost
after the commit or its driver died, finds the offset in the tables and changes nothing.
"""

import socket
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.core.override import override
from jobwire.metrics.database import exists, public_url, shard_place
from jobwire.metrics.errors import SinkError
from jobwire.metrics.sessions import SessionLookup
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import open_shard
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.source.columns import spare_the_collector
from jobwire.metrics.source.data_source import JournalTable, MqttDataSource
from jobwire.metrics.source.options import SourceOptions, read_options
from jobwire.metrics.source.planning import Piece, planned
from jobwire.metrics.source.stream import JournalStream

# What a task gives, as Spark's DDL, and the columns that a batch sums.
COUNTS = "journal string, shard bigint, rows bigint, repeated bigint, damaged bigint"
SUMS = ("rows", "repeated", "damaged")
FORMAT = "jobwire_counts"


def fold(settings: MetricsSettings, options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Fold each piece of a task in, yield COUNTS; raises the journal's errors, SinkError, DataLossError."""
    import pyarrow as pa  # noqa: PLC0415 - in a worker only

    given = planned(partition)
    for piece in given.pieces:
        yield pa.RecordBatch.from_pylist([_fold(settings, options, piece, given.shard or 0)])
    spare_the_collector()


def _fold(settings: MetricsSettings, options: SourceOptions, piece: Piece, shard: int) -> dict[str, Any]:
    from jobwire.journal.entry import DAMAGED  # noqa: PLC0415 - as below
    from jobwire.metrics.source.fold_form import rows_in  # noqa: PLC0415 - in a worker only

    rows = rows_in(options, piece, shard)
    try:
        applied = _opened(settings, shard).apply(rows, piece.span.identity)
    except SinkError:
        # The next task connects anew: PostgreSQL may have been restarted.
        close_tables()
        raise
    return {
        "journal": piece.span.identity,
        "shard": shard,
        "rows": applied.rows,
        "repeated": applied.repeated,
        "damaged": rows.count_of(DAMAGED) if applied.rows else 0,
    }


# Opened once a process: a Python worker runs task after task.
_open_tables: dict[tuple[MetricsSettings, int], MetricsSink] = {}


def close_tables() -> None:
    """Close what tasks of this process have opened."""
    while _open_tables:
        _open_tables.popitem()[1].close()


def _opened(settings: MetricsSettings, shard: int) -> MetricsSink:
    if (settings, shard) not in _open_tables:
        _open_tables[settings, shard] = _open(settings, shard)
    return _open_tables[settings, shard]


def _open(settings: MetricsSettings, shard: int) -> MetricsSink:
    place = shard_place(settings.sink, shard, settings.shards)
    if not exists(place):
        raise ConfigError(
            f"the executor on {socket.gethostname()} sees no tables in {public_url(place)}",
            hint="tables that several hosts write belong in PostgreSQL: --sink postgresql://...",
        )
    return open_shard(
        settings.sink,
        shard,
        settings.shards,
        clock=SystemClock(),
        session_of=SessionLookup(settings.home),
        fail_on_data_loss=not settings.allow_data_loss,
        keep=settings.keep,
    )


def folding_source(settings: MetricsSettings) -> type[MqttDataSource]:
    """Return the source of a run, for `session.dataSource.register`: it gives COUNTS of what it folded in.

    Classes of its own, which Spark pickles with `settings` in them: options are written into logs and plans,
    and the URL of the tables may hold a password. One Python worker a task, where a map would want two.
    """

    class FoldingTable(JournalTable):
        @override
        def read(self, partition: InputPartition) -> Iterator[Any]:
            return fold(settings, self._options, partition)

    class FoldingStream(JournalStream):
        @override
        def read(self, partition: InputPartition) -> Iterator[Any]:
            return fold(settings, self._options, partition)

    class FoldingSource(MqttDataSource):
        @classmethod
        @override
        def name(cls) -> str:
            return FORMAT

        @override
        def schema(self) -> str:
            return COUNTS

        @override
        def reader(self, schema: StructType) -> JournalTable:  # noqa: ARG002 - Spark's signature
            return FoldingTable(read_options(self.options)._replace(folds=True))

        @override
        def streamReader(self, schema: StructType) -> JournalStream:  # noqa: ARG002, N802 - Spark's signature
            return FoldingStream(read_options(self.options)._replace(folds=True))

    return FoldingSource
