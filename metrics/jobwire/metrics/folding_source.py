"""The source whose tasks fold what they would read: one Python worker a task, where a map would want two."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jobwire.core.override import override
from jobwire.metrics.folding import COUNTS, FoldTask
from jobwire.metrics.source.data_source import JournalTable, MqttDataSource
from jobwire.metrics.source.options import read_options
from jobwire.metrics.source.stream import JournalStream

FORMAT = "jobwire_counts"


def folding_source(task: FoldTask) -> type[MqttDataSource]:
    """Return the source of a run, for `session.dataSource.register`: it gives COUNTS of what it folded in.

    Classes of its own, which Spark pickles with `task` in them: options are written into logs and plans.
    """

    class FoldingTable(JournalTable):
        @override
        def read(self, partition: InputPartition) -> Iterator[Any]:
            return task.fold(self._options, partition)

    class FoldingStream(JournalStream):
        @override
        def read(self, partition: InputPartition) -> Iterator[Any]:
            return task.fold(self._options, partition)

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
