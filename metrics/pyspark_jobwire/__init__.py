"""Makes `format("mqtt")` known to Spark: it imports every top-level module named `pyspark_*`."""

from jobwire.metrics.source.data_source import MqttDataSource as DefaultSource

__all__ = ["DefaultSource"]
