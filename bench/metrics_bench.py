"""The metrics pipeline in figures, and a plain Python loop that computes the same tables beside it.

    python bench/metrics_bench.py [--events 1000000] [--rounds 3] [--seconds 12]

Source: rows a second from stored bytes to parsed events. Freshness: broker, recorder and consumer on the
same cores, from the publisher's hand to the row in the table. Catch-up: journals through the whole
pipeline, by how many jobs are active at once; all consumers must end with the same tables.
Memory: the most each process held.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from metrics_memory import Memory  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.settings import TRIGGER_SECONDS
from jobwire.testing import MosquittoServer, wait_for
from jobwire.testing.rehearsal import CLEAN, Rehearsal

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "metrics.json"
JOBWIRE = str(Path(sys.executable).with_name("jobwire"))
RATES = (50, 2000)
BATCH_ROWS = 100_000
SPARK, PLAIN = "Spark", "plain Python"
_SCRIPTED = 20_000
_WARM_UP = 100
_POLL_SECONDS = 0.004
_DEADLINE_SECONDS = 180.0
_US = 1_000_000


class Table(NamedTuple):
    """One table of the report: rows by name."""

    title: str
    rows: dict[str, dict[str, float]]


def entries(total: int) -> Iterator[Entry]:
    """Yield `total` accepted events: a scripted hour again and again, each time with other jobs."""
    script = list(Rehearsal(seed=7, jobs=_SCRIPTED // 8, mix=CLEAN))
    span_us = script[-1].received_at_us - script[0].received_at_us + 1
    for number in range(total):
        turn, place = divmod(number, len(script))
        entry = script[place]
        job_id = entry.topic.split("/")[-2]
        other = f"{(int(job_id, 16) + turn * 99_991) % (1 << 32):08x}"
        yield entry._replace(
            received_at_us=entry.received_at_us + turn * span_us,
            topic=entry.topic.replace(job_id, other),
            payload=entry.payload.replace(job_id.encode(), other.encode()),
        )


def store(directory: Path, total: int) -> float:
    """Write a journal of `total` events below `directory` and the payloads as text; return MB of text."""
    lines = directory / "lines"
    lines.mkdir()
    part: list[Entry] = []
    size = 0
    with JournalWriter(directory / "journal", clock=SystemClock()) as writer:
        for number, entry in enumerate(entries(total), start=1):
            part.append(entry)
            if number % BATCH_ROWS == 0 or number == total:
                for start in range(0, len(part), 1000):
                    writer.append(part[start : start + 1000])
                text = b"\n".join(entry.payload for entry in part) + b"\n"
                (lines / f"{number:09}.json").write_bytes(text)
                size += len(text)
                part = []
    return size / 1e6


def measure_source(home: Path, rounds: int, batch_rows: int) -> Table:
    """Compare the data source with Spark's text source on the same bytes."""
    command = [sys.executable, str(HERE / "metrics_sources.py"), str(home / "journal"), str(home / "lines")]
    done = subprocess.run(
        [*command, str(batch_rows), str(rounds)], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    yardstick = found["text + from_json"]
    return Table(
        f"source, rows a second at {batch_rows:,} rows a batch",
        {name: {"rows/s": round(rate), "of text": rate / yardstick} for name, rate in found.items()},
    )


def measure_catch_up(events: int, actives: Sequence[int]) -> Table:
    """Take journals with so many jobs active at once through Spark and through the plain loop."""
    from metrics_active import compared  # type: ignore[import-not-found]  # noqa: PLC0415 - it asks this one for much

    rows = {}
    with Memory(os.getpid()) as memory:
        for active in actives:
            rows.update(compared(events, active, WAYS))
    MEMORY["catch-up"] = memory.peak_mib()
    return Table(f"{CATCH_UP} of {events:,} events, steady state, equal tables", rows)


class Stage:
    """Broker, recorder, publisher and one consumer, each a process."""

    def __init__(self, home: Path, consumer: str) -> None:
        self.database = home / "metrics" / "metrics.db"
        self.database.parent.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._consumer = consumer
        self._published = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start all of them; return when the consumer has counted its first events."""
        with contextlib.ExitStack() as stack:
            recorder = stack.enter_context(_process(_load("record", self._home)))
            self._expect_ready(recorder)
            self._publisher = stack.enter_context(_process(_load("publish", self._home)))
            self._expect_ready(self._publisher)
            command = [JOBWIRE, "metrics", "run", "--json", "--home", str(self._home)]
            if self._consumer == PLAIN:
                command = _load("follow", self._home, str(self.database))
            stack.enter_context(_process(command))
            self.delays(50, _WARM_UP)
            yield

    def delays(self, rate: int, total: int) -> list[float]:
        """Publish `total` events evenly; return, for each, the seconds until the tables held it."""
        assert self._publisher.stdin is not None
        assert self._publisher.stdout is not None
        first = self._published
        self._published += total
        self._publisher.stdin.write(f"{rate} {total}\n")
        self._publisher.stdin.flush()
        seen = self._watch(self._published)
        sent: Sequence[float] = json.loads(self._publisher.stdout.readline())
        found, place = [], 0
        # One client's QoS 1 messages are recorded in the order of sending (MQTT 5, 4.6): event i is row i.
        for number, at in enumerate(sent, start=first):
            while seen[place][1] <= number:
                place += 1
            found.append(seen[place][0] - at)
        return found

    def _watch(self, until: int) -> list[tuple[float, int]]:
        """Return when each new place of the tables was seen by a reader of the database."""
        wait_for(self._has_tables, deadline_seconds=_DEADLINE_SECONDS, what="the tables")
        deadline = time.monotonic() + _DEADLINE_SECONDS
        seen = [(time.time(), 0)]
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as reader:
            while seen[-1][1] < until:
                rows = reader.execute("SELECT next_offset FROM progress").fetchall()
                if rows and rows[0][0] > seen[-1][1]:
                    seen.append((time.time(), int(rows[0][0])))
                assert time.monotonic() < deadline, f"{seen[-1][1]} of {until} events are in the tables"
                time.sleep(_POLL_SECONDS)
        return seen

    def _has_tables(self) -> bool:
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as reader:
                reader.execute("SELECT next_offset FROM progress")
        except sqlite3.OperationalError:
            return False
        return True

    def batch_ms(self, since: float) -> float:
        """Return the median duration of Spark's batches since then."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as reader:
            found = reader.execute("SELECT duration_ms FROM health WHERE updated_at > ?", [since]).fetchall()
        return statistics.median(row[0] for row in found) if found else float("nan")

    @staticmethod
    def _expect_ready(process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"


def measure_freshness(consumer: str, seconds: float, warm_up: float) -> Table:
    """Measure from publish to row, at each rate, after `warm_up` seconds in which the JVM compiles."""
    rows = {}
    with Memory(os.getpid()) as memory, MosquittoServer() as server:
        stage = Stage(server.home, consumer)
        with stage.running():
            stage.delays(RATES[0], int(RATES[0] * warm_up) + 1)
            for rate in RATES:
                begin = time.time()
                delays = [delay * 1000 for delay in stage.delays(rate, int(rate * seconds))]
                cuts = statistics.quantiles(delays, n=100)
                found = {"p50 ms": cuts[49], "p95 ms": cuts[94], "load": round(os.getloadavg()[0], 1)}
                rows[f"{consumer}, {rate:,} events/s"] = found
                if consumer == SPARK:
                    found["batch median ms"] = stage.batch_ms(begin)
    MEMORY[f"live, {consumer}"] = memory.peak_mib()
    return Table("publish to row in the tables", rows)


MEMORY: dict[str, dict[str, float]] = {}


def _load(word: str, *words: object) -> list[str]:
    return [sys.executable, str(HERE / "metrics_load.py"), word, *map(str, words)]


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """Run a process with pipes; end it with SIGTERM, its input closed."""
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=_DEADLINE_SECONDS)


def _print(table: Table) -> None:
    columns = list(dict.fromkeys(column for row in table.rows.values() for column in row))
    print(f"\n{table.title}\n{'':34}" + "".join(f"{column:>24}" for column in columns))
    for name, row in table.rows.items():
        cells = (f"{row[column]:>24,.2f}" if column in row else " " * 24 for column in columns)
        print(f"{name:34}" + "".join(cells), flush=True)


def _save(result: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _measure(args: argparse.Namespace) -> Iterator[Table]:
    """Yield each table as soon as it is measured."""
    if "source" in args.parts:
        with tempfile.TemporaryDirectory(prefix="jobwire-metrics-bench-") as folder:
            home = Path(folder)
            store(home, args.events)
            yield measure_source(home, args.rounds, min(BATCH_ROWS, args.events))
    if "catch-up" in args.parts:
        yield measure_catch_up(args.catch_up, args.active)
    if "live" in args.parts:
        yield measure_freshness(SPARK, args.seconds, args.warm_up)
        yield measure_freshness(PLAIN, args.seconds, 1.0)
    yield Table(
        "peak memory, MiB",
        {
            name: {part: held[name] for part, held in MEMORY.items() if name in held}
            for name in sorted({name for held in MEMORY.values() for name in held})
        },
    )


def main() -> int:
    """Measure, print, and keep what is measured after each step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="events in the journal (1000000)")
    parser.add_argument("--catch-up", type=int, default=400_000, help="events of each catch-up (400000)")
    parser.add_argument("--active", type=int, nargs="+", default=ACTIVE, help="jobs active at once there")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the source comparison (3)")
    parser.add_argument("--seconds", type=float, default=12.0, help="seconds at each rate (12)")
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds before the first rate (30)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="only some of the parts")
    args = parser.parse_args()
    # Of some parts only: the others' figures stay.
    result: dict[str, Any] = {} if set(args.parts) == set(PARTS) else json.loads(RESULTS.read_text())
    result |= {
        "what": "The metrics pipeline beside a plain Python loop that computes the same tables",
        "taken_at": utc_timestamp(time.time()),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}",
        "load_average_before": os.getloadavg()[0],
        "events": args.events,
        "rounds": args.rounds,
        "seconds_at_each_rate": args.seconds,
        "seconds_of_warm_up": args.warm_up,
        "trigger_seconds": TRIGGER_SECONDS,
        "targets": TARGETS,
    }
    for table in _measure(args):
        _print(table)
        rows = result.setdefault(table.title, {})
        for name, row in table.rows.items():
            rows[name] = rows.get(name, {}) | row
        result["load_average_after"] = os.getloadavg()[0]
        _save(result)
    return 0


TARGETS = {
    "mqtt of text, at least": 0.9,
    "batch median ms at 50 events/s, under": 100,
    "publish to row p95 ms, under": 500,
    "rows/s with SQLite at 50 / 100,000 / 1,000,000 active, at least": "110,000 / 65,000 / 45,000",
}
PARTS = ("source", "catch-up", "live")
CATCH_UP = "catch-up"
ACTIVE = (50, 10_000, 100_000, 1_000_000)
# Shards x processors.
WAYS = ("1x2", "2x2")

if __name__ == "__main__":
    sys.exit(main())
