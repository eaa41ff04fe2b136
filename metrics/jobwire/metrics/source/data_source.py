"""What Spark looks up under the name `mqtt`."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from jobwire.core.override import override
from jobwire.metrics.source.batch import JournalTable
from jobwire.metrics.source.columns import ddl
from jobwire.metrics.source.options import read_options
from jobwire.metrics.source.stream import JournalStream


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
