"""A query of one's own on the source `mqtt`: events by type in windows of a minute, in Spark's own operators.

    python examples/native_windows.py --home .hermes [--follow]

Reads the journal as a stream, once to its present end, or on and on with --follow. The state is Spark's, in a
checkpoint below --checkpoint: started again, the query goes on where it was. What `jobwire serve` has
accepted is in its journal once, so nothing has to be counted by job and seq.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobwire.core.errors import JobwireError
from jobwire.journal.reader import JournalReader
from jobwire.metrics.java import find_java
from jobwire.metrics.session import SparkSettings, start_session
from jobwire.storage.home import HELP, find_home


def events_a_minute(spark: Any, journal: Path) -> Any:
    """Return the stream of counts by minute and type."""
    events = (
        spark.readStream.format("mqtt")
        .option("journal", str(journal))
        .option("parse", "event")
        .option("columns", "received_at,event")
        .load()
    )
    return (
        events.where("event IS NOT NULL")
        .withWatermark("received_at", "1 minute")
        .selectExpr("window(received_at, '1 minute') AS window", "event")
        .groupBy("window", "event")
        .count()
        .selectExpr("window.start AS minute", "event", "count")
    )


def show(counts: Any, _batch: int) -> None:
    """Print what a batch changed."""
    for row in counts.orderBy("minute", "event").collect():
        print(f"{row['minute']:%Y-%m-%d %H:%M}  {row['event']:20} {row['count']:>9,}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the query; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", metavar="DIR", help=HELP)
    parser.add_argument("--checkpoint", metavar="DIR", help="where Spark keeps its state (default: nowhere)")
    parser.add_argument("--follow", action="store_true", help="go on until interrupted")
    args = parser.parse_args(argv)
    try:
        home = Path(find_home(args.home, os.environ)).absolute()
        find_java(os.environ)
        JournalReader(home / "journal").close()
    except JobwireError as error:
        print(f"native_windows: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    with tempfile.TemporaryDirectory(prefix="jobwire-windows-") as folder:
        settings = SparkSettings(log_file=Path(folder) / "spark.log", app_name="native windows")
        spark = start_session(settings)
        try:
            query = (
                events_a_minute(spark, home / "journal")
                .writeStream.outputMode("update")
                .foreachBatch(show)
                .option("checkpointLocation", args.checkpoint or f"{folder}/checkpoint")
                .trigger(**({"processingTime": "1 second"} if args.follow else {"availableNow": True}))
                .start()
            )
            query.awaitTermination()
        except KeyboardInterrupt:
            return 130
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
