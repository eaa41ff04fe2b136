"""The choices behind the metrics pipeline, each beside what was not chosen (docs/adr/0401 and 0405).

    python bench/metrics_choices_bench.py [--events 200000] [--small 60]

State: where counts are kept. The product folds compact rows in the driver, into tables that hold the
journal's offset; the others keep state in Spark and write its absolute values.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.override import override
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.folding import FORMAT, folding_source
from jobwire.metrics.session import SparkSettings, start_session
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import AllShards
from jobwire.testing.rehearsal import CLEAN, Rehearsal

RESULTS = Path(__file__).resolve().parent / "results" / "metrics_choices.json"
_SMALL_ROWS = 5
_WARM_BATCHES = 20
Rows = dict[str, dict[str, float]]


def store(directory: Path, total: int) -> None:
    """Write a journal of about `total` scripted events."""
    with JournalWriter(directory, clock=SystemClock()) as writer:
        part = []
        for entry in Rehearsal(seed=7, jobs=total // 11, active=200, mix=CLEAN):
            part.append(entry)
            if len(part) == 1000:
                writer.append(part)
                part = []
        if part:
            writer.append(part)


class Ways:
    """The ways to keep counts; each turns a reader of messages into a query."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._number = 0

    def all(self) -> Mapping[str, Callable[[Any], Any]]:
        """Return the ways by name."""
        ways = {
            "fold in the task, all tables": self.fold,
            "native windows with watermark": self.native_windows,
            "native totals of jobs": self.native_jobs,
        }
        # Its Python side speaks to the JVM in protobuf, which the product does not install.
        if importlib.util.find_spec("google") and importlib.util.find_spec("google.protobuf"):
            ways["transformWithState, totals of jobs"] = self.with_state
        return ways

    def fold(self, messages: Any) -> Any:
        """Do what the product does."""
        self._number += 1
        sink = str(self._folder / f"{self._number}.db")
        AllShards(sink, clock=SystemClock()).prepare(1)
        task = MetricsSettings(self._folder, (), sink, None)
        self._spark.dataSource.register(folding_source(task))
        return messages.format(FORMAT).option("shards", 1).load().writeStream.foreachBatch(_collect)

    def native_windows(self, messages: Any) -> Any:
        """Count by window and type, in Spark's state store."""
        counts = (
            _events(messages)
            .withWatermark("received_at", "10 seconds")
            .selectExpr("window(received_at, '10 seconds') AS window", "event")
            .groupBy("window", "event")
            .count()
        )
        return counts.writeStream.outputMode("update").foreachBatch(_collect)

    def native_jobs(self, messages: Any) -> Any:
        """Keep first, last and number of each job's events, in Spark's state store."""
        from pyspark.sql import functions as f  # noqa: PLC0415, TID251 - one way's only

        totals = (
            _events(messages).groupBy("job_id").agg(f.min("received_at"), f.max("received_at"), f.count("*"))
        )
        return totals.writeStream.outputMode("update").foreachBatch(_collect)

    def with_state(self, messages: Any) -> Any:
        """Keep the same totals by a Python processor, a value a job."""
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor  # noqa: PLC0415, TID251 - one way's only

        class Totals(StatefulProcessor):
            @override
            def init(self, handle: Any) -> None:
                self._state = handle.getValueState("totals", "first bigint, last bigint, events bigint")

            @override
            def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803 - Spark's names
                import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415 - in the worker

                first, last, events = self._state.get() if self._state.exists() else (1 << 62, 0, 0)
                for part in rows:
                    first = min(first, int(part.us.min()))
                    last = max(last, int(part.us.max()))
                    events += len(part)
                self._state.update((first, last, events))
                yield pd.DataFrame({"job_id": [key[0]], "first": [first], "last": [last], "events": [events]})

            @override
            def close(self) -> None:
                pass

        result = (
            _events(messages)
            .selectExpr("job_id", "unix_micros(received_at) AS us")
            .groupBy("job_id")
            .transformWithStateInPandas(
                statefulProcessor=Totals(),
                outputStructType="job_id string, first bigint, last bigint, events bigint",
                outputMode="Update",
                timeMode="None",
            )
        )
        return result.writeStream.outputMode("update").foreachBatch(_collect)


def _events(messages: Any) -> Any:
    said = "from_json(CAST(payload AS STRING), 'event string').event AS event"
    return messages.load().where("verdict = 'accepted'").selectExpr("job_id", "received_at", said)


def _collect(frame: Any, _batch_id: int) -> None:
    frame.toArrow()


def measure_state(folder: Path, small: int) -> Rows:
    """Return each way's batch time at a few rows, and its rate at large batches."""
    journal = folder / "journal"
    with JournalReader(journal) as reader:
        total = reader.durable_offset
    spark = start_session(
        SparkSettings(
            log_file=folder / "spark.log",
            extra={
                "spark.sql.streaming.stateStore.providerClass": (
                    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
                ),
                "spark.sql.streaming.numRecentProgressUpdates": "1000",
            },
        )
    )
    rows: Rows = {}
    try:
        ways = Ways(spark, folder).all()
        # The first round is the JVM's: it compiles what all of them use.
        for number in range(2):
            for name, way in ways.items():
                place = folder / f"{number} {name}"
                start = total - small * _SMALL_ROWS
                large = _batches(spark, journal, way, place / "large", rows=total // 4, start=0)
                little = _batches(spark, journal, way, place / "small", rows=_SMALL_ROWS, start=start)
                rows[name] = {
                    "batch of 5 rows, median ms": statistics.median(ms for _, ms in little[_WARM_BATCHES:]),
                    f"rows/s in batches of {total // 4:,}": round(
                        statistics.median(n * 1000 / ms for n, ms in large[1:])
                    ),
                }
                print(number, name, rows[name], flush=True)
    finally:
        spark.stop()
    return rows


def _batches(
    spark: Any, journal: Path, way: Callable[[Any], Any], checkpoint: Path, *, rows: int, start: int
) -> list[tuple[int, int]]:
    """Run the journal from `start` through a way; return (rows, milliseconds) of its batches."""
    messages = (
        spark.readStream.format("mqtt")
        .option("journal", str(journal))
        .option("maxRowsPerBatch", str(rows))
        .option("maxBytesPerBatch", str(1 << 30))
        .option("startingOffset", str(start))
    )
    query = way(messages).option("checkpointLocation", checkpoint.as_uri()).trigger(availableNow=True).start()
    query.awaitTermination()
    reports = [json.loads(progress.json) for progress in query.recentProgress]
    return [(r["numInputRows"], r["durationMs"]["triggerExecution"]) for r in reports if r["numInputRows"]]


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000, help="events in the journal (200000)")
    parser.add_argument("--small", type=int, default=60, help="batches of five rows (60)")
    args = parser.parse_args()
    result: dict[str, Any] = {
        "what": "State in the tables against state in Spark",
        "taken_at": utc_timestamp(time.time()),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "load_average_before": os.getloadavg()[0],
        "events": args.events,
    }
    with tempfile.TemporaryDirectory(prefix="jobwire-choices-") as folder:
        store(Path(folder) / "journal", args.events)
        result["state"] = measure_state(Path(folder), args.small)
    result["load_average_after"] = os.getloadavg()[0]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
