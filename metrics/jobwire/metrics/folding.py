"""What a task does with a range of a journal: read, check, parse, fold, and commit rows and offset.

Runs in Spark's Python workers. Only counts leave them. A task that runs again, because its executor was lost
after the commit or its driver died, finds the offset in the tables and changes nothing.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.metrics.database import exists, public_url, shard_place
from jobwire.metrics.errors import SinkError
from jobwire.metrics.retention import Keep
from jobwire.metrics.sessions import SessionLookup
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import open_shard
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.source.columns import spare_the_collector
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import Piece, planned

# What a task gives, as Spark's DDL, and the columns that a batch sums.
COUNTS = "journal string, shard bigint, rows bigint, repeated bigint, damaged bigint"
SUMS = ("rows", "repeated", "damaged")


class FoldTask(NamedTuple):
    """What a task does with what it would read: it folds the rows in, and gives COUNTS.

    Picklable. It goes to the executors by Spark's own channel, never into a command line or a log: the URL
    of the tables may hold a password.
    """

    sink: str
    home: Path
    shards: int
    allow_data_loss: bool
    keep: Keep

    @classmethod
    def of(cls, settings: MetricsSettings) -> "FoldTask":
        """Return the task of a run."""
        return cls(settings.sink, settings.home, settings.shards, settings.allow_data_loss, settings.keep)

    def fold(self, options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
        """Fold each piece in; raises the errors of jobwire.journal, SinkError, DataLossError."""
        import pyarrow as pa  # noqa: PLC0415 - in a worker only

        given = planned(partition)
        for piece in given.pieces:
            yield pa.RecordBatch.from_pylist([self._fold(options, piece, given.shard or 0)])
        spare_the_collector()

    def _fold(self, options: SourceOptions, piece: Piece, shard: int) -> dict[str, Any]:
        from jobwire.journal.entry import DAMAGED  # noqa: PLC0415 - as below
        from jobwire.metrics.source.fold_form import rows_in  # noqa: PLC0415 - in a worker only

        rows = rows_in(options, piece, shard)
        try:
            applied = _opened(self, shard).apply(rows, piece.span.identity)
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
_open_tables: dict[tuple[FoldTask, int], MetricsSink] = {}


def close_tables() -> None:
    """Close what tasks of this process have opened."""
    while _open_tables:
        _open_tables.popitem()[1].close()


def _opened(task: FoldTask, shard: int) -> MetricsSink:
    if (task, shard) not in _open_tables:
        _open_tables[task, shard] = _open(task, shard)
    return _open_tables[task, shard]


def _open(task: FoldTask, shard: int) -> MetricsSink:
    place = shard_place(task.sink, shard, task.shards)
    if not exists(place):
        raise ConfigError(
            f"the executor on {socket.gethostname()} sees no tables in {public_url(place)}",
            hint="tables that several hosts write belong in PostgreSQL: --sink postgresql://...",
        )
    return open_shard(
        task.sink,
        shard,
        task.shards,
        clock=SystemClock(),
        session_of=SessionLookup(task.home),
        fail_on_data_loss=not task.allow_data_loss,
        keep=task.keep,
    )
