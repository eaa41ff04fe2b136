"""Rows a second from stored bytes to parsed events: our data source against Spark's text source.

metrics_sources.py JOURNAL LINES_FOLDER BATCH_ROWS ROUNDS   (started by metrics_bench)

The same payloads, once in a journal and once as lines of text files, one file a batch. Each contestant is
a stream with AvailableNow into Spark's `noop` sink, which asks for every column; they take turns. A rate
is that of one micro-batch as Spark times it; the first round, in which the JVM compiles, is left out.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jobwire.metrics.session import SparkSettings, start_session

_EVENT = "seq bigint, event string, timestamp string, detail string, data string"
OURS, OURS_PARSED, TEXT = "mqtt + from_json", "mqtt, parse=event", "text + from_json"


def contestants(spark: Any, journal: str, lines: str, batch_rows: int) -> Mapping[str, Callable[[], Any]]:
    """Return the streams; each call makes a new one."""

    def mqtt(**options: str) -> Any:
        reader = spark.readStream.format("mqtt").option("journal", journal)
        reader = reader.option("maxRowsPerBatch", str(batch_rows)).option("maxBytesPerBatch", str(1 << 30))
        return reader.options(**options).load()

    said = f"from_json(CAST(payload AS STRING), '{_EVENT}') AS said"
    return {
        OURS: lambda: mqtt(columns="payload").selectExpr(said).selectExpr("said.*"),
        OURS_PARSED: lambda: mqtt(parse="event", columns="seq,event,timestamp,detail,data"),
        TEXT: lambda: (
            spark.readStream.option("maxFilesPerTrigger", "1")
            .text(lines)
            .selectExpr(f"from_json(value, '{_EVENT}') AS said")
            .selectExpr("said.*")
        ),
    }


def rates(stream: Any, checkpoint: str, batch_rows: int) -> list[float]:
    """Run a stream to its end; return rows a second of each full batch."""
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    reports = [json.loads(progress.json) for progress in query.recentProgress]
    return [
        report["numInputRows"] * 1000 / report["durationMs"]["triggerExecution"]
        for report in reports
        if report["numInputRows"] >= batch_rows
    ]


def main() -> int:
    """Run all rounds; print the median rate of each as JSON."""
    journal, lines, batch_rows, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="jobwire-sources-") as folder:
        spark = start_session(SparkSettings(log_file=Path(folder) / "spark.log"))
        try:
            for number in range(rounds + 1):
                for name, make in contestants(spark, journal, lines, batch_rows).items():
                    checkpoint = f"{folder}/{number}-{name.replace(' ', '')}"
                    measured = rates(make(), checkpoint, batch_rows)
                    if number:
                        found.setdefault(name, []).extend(measured)
        finally:
            spark.stop()
    print(json.dumps({name: statistics.median(values) for name, values in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
