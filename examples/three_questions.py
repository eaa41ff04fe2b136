"""Three questions to a fleet, answered by Spark from its journal.

    python examples/three_questions.py --home .hermes

1. Which session fails most?  2. How long do people let jobs wait for permission?
3. Which reasons of rejection rise?
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobwire.core.errors import JobwireError
from jobwire.journal.reader import JournalReader
from jobwire.metrics.java import find_java
from jobwire.metrics.session import SparkSettings, start_session
from jobwire.storage.home import HELP, find_home

Answer = list[dict[str, Any]]

# A session is not in a job's events but in its record; a job without one counts under ''.
FAILURES = """
SELECT coalesce(agent_session, '') AS session, count(*) AS finished,
       count_if(event = 'error') AS failed,
       round(count_if(event = 'error') / count(*), 3) AS failed_share
FROM (SELECT job_id, max_by(event, seq) AS event FROM events
      WHERE event IN ('completed', 'error') GROUP BY job_id)
LEFT JOIN records USING (job_id)
GROUP BY session ORDER BY failed DESC, failed_share DESC, session
"""

# Whatever a job says next ends its wait. `received_at` is one clock; workers' clocks differ.
WAITING = """
SELECT count(ended_at) AS answered, count_if(ended_at IS NULL) AS still_waiting,
       round(percentile(seconds, 0.5), 3) AS p50_seconds,
       round(percentile(seconds, 0.95), 3) AS p95_seconds, round(max(seconds), 3) AS longest_seconds
FROM (SELECT event, ended_at, (unix_micros(ended_at) - unix_micros(received_at)) / 1e6 AS seconds
      FROM (SELECT event, received_at,
                   lead(received_at) OVER (PARTITION BY job_id ORDER BY seq) AS ended_at FROM events))
WHERE event = 'permission_required'
"""

# The journal's time cut in two halves: what comes more often in the later one rises.
REJECTIONS = """
WITH middle AS (
    SELECT (min(unix_micros(received_at)) + max(unix_micros(received_at))) / 2 AS at FROM messages)
SELECT verdict AS reason, count_if(unix_micros(received_at) < at) AS earlier,
       count_if(unix_micros(received_at) >= at) AS later,
       count_if(unix_micros(received_at) >= at) - count_if(unix_micros(received_at) < at) AS rise
FROM messages CROSS JOIN middle WHERE verdict != 'accepted'
GROUP BY verdict ORDER BY rise DESC, reason
"""

QUESTIONS: Mapping[str, tuple[str, str]] = {
    "failures": ("Which session fails most?", FAILURES),
    "waiting": ("How long do people let jobs wait for permission?", WAITING),
    "rejections": ("Which reasons of rejection rise?", REJECTIONS),
}


def open_views(spark: Any, home: Path) -> None:
    """Make `messages` (everything that came), `events` (accepted, each once) and `records`."""
    journal = str(home / "journal")
    messages = spark.read.format("mqtt").option("journal", journal).option("parse", "event").load()
    # All three answers need a few short columns of it: read and parse the journal once.
    wanted = messages.select("received_at", "job_id", "verdict", "seq", "event")
    wanted.cache().createOrReplaceTempView("messages")
    events = wanted.where("seq IS NOT NULL").dropDuplicates(["job_id", "seq"])
    events.createOrReplaceTempView("events")
    # Of a record only these two members: it also holds the job's key.
    schema = "job_id string, agent_session string"
    files = [str(path) for path in (home / "jobs").glob("*.json")]
    records = (
        spark.read.schema(schema).option("multiLine", "true").json(files)
        if files
        else spark.createDataFrame([], schema)
    )
    records.createOrReplaceTempView("records")


def answers(spark: Any, home: Path) -> dict[str, Answer]:
    """Return each question's rows. Blocks for as long as Spark reads the journal."""
    open_views(spark, home)
    return {
        name: [row.asDict() for row in spark.sql(query).collect()] for name, (_, query) in QUESTIONS.items()
    }


def show(found: Mapping[str, Answer]) -> None:
    """Print the answers as aligned columns."""
    for name, (question, _) in QUESTIONS.items():
        print(f"\n{question}")
        rows = found[name]
        if not rows:
            print("  nothing of that kind is in the journal")
            continue
        lines = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            print("  " + "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)))


def _text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Ask and print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", metavar="DIR", help=HELP)
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    args = parser.parse_args(argv)
    try:
        home = Path(find_home(args.home, os.environ)).absolute()
        find_java(os.environ)
        JournalReader(home / "journal").close()
    except JobwireError as error:
        print(f"three_questions: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    with tempfile.TemporaryDirectory(prefix="jobwire-questions-") as folder:
        spark = start_session(SparkSettings(log_file=Path(folder) / "spark.log", app_name="three questions"))
        try:
            found = answers(spark, home)
        finally:
            spark.stop()
    if args.json:
        print(json.dumps(found))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
