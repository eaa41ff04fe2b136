"""Where a small batch of the metrics query spends its time: Spark's phases, and processor time a process.

    python bench/metrics_batches.py [--rows 25] [--batches 60] [--java FLAGS] [--conf NAME=VALUE,...]

Batches back to back from a journal, so that nothing waits for a trigger. Each `--conf` takes turns with
the product's own settings in one JVM; `--java` replaces the product's flags for all of it ("" for none).
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from metrics_bench import store  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.core.clock import SystemClock
from jobwire.metrics.pipeline import Pipeline, open_journals
from jobwire.metrics.session import QUERY_SETTINGS, QUICK_JAVA, SparkSettings, start_session
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import AllShards

_TICK = os.sysconf("SC_CLK_TCK")
_PHASES = ("triggerExecution", "addBatch", "queryPlanning", "walCommit", "commitOffsets")
_REPORTS = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
OWN = "as the product"


def processor_ms() -> dict[str, float]:
    """Return the processor time so far, in ms, of this process and all below it, by kind."""
    children: dict[int, list[int]] = {}
    found: dict[int, tuple[float, str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat, command = (path / "stat").read_text(), (path / "cmdline").read_text()
        except OSError:  # gone meanwhile
            continue
        fields = stat.rsplit(")", 1)[1].split()  # proc(5): state, ppid, ...; utime and stime are 12 and 13
        children.setdefault(int(fields[1]), []).append(int(path.name))
        found[int(path.name)] = ((int(fields[11]) + int(fields[12])) * 1000 / _TICK, command)
    total = {"driver": found[os.getpid()][0], "JVM": 0.0, "workers": 0.0}
    waiting = list(children.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        spent, command = found[pid]
        total["JVM" if "java" in command.split("\0")[0] else "workers"] += spent
    return total


def measure(spark: Any, home: Path, folder: Path, rows: int) -> dict[str, float]:
    """Take the journal through the query once; return medians of phases and means of processor time."""
    settings = MetricsSettings(
        home=folder,
        journals=(home / "journal",),
        sink=str(folder / "metrics.db"),
        history=None,
        max_rows=rows,
    )
    AllShards(settings.sink, clock=SystemClock()).prepare(1)
    pipeline = Pipeline(session=spark, settings=settings, journals=open_journals(settings, {}))
    before = processor_ms()
    query = pipeline.start(available_now=True)
    query.awaitTermination()
    after = processor_ms()
    reports = [json.loads(progress.json) for progress in query.recentProgress]
    reports = [report for report in reports if report["numInputRows"]]
    result = {
        f"{phase} ms": statistics.median(report["durationMs"].get(phase, 0) for report in reports)
        for phase in _PHASES
    }
    return result | {f"cpu {name} ms": (after[name] - before[name]) / len(reports) for name in after}


def _settings(text: str) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE."""
    pairs = (item.partition("=") for item in text.split(","))
    return {name: value for name, _, value in pairs}


def main() -> int:
    """Measure each variant in each round and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=25, help="events a batch (25)")
    parser.add_argument("--batches", type=int, default=60, help="batches a round (60)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the first is a cold JVM (3)")
    parser.add_argument("--java", default=QUICK_JAVA, help=f"flags of the JVM ({QUICK_JAVA})")
    parser.add_argument("--conf", action="append", default=[], help="settings beside the product's own")
    args = parser.parse_args()
    variants = {OWN: {}, **{text: _settings(text) for text in args.conf}}
    with tempfile.TemporaryDirectory(prefix="jobwire-batches-") as name:
        folder = Path(name)
        store(folder, args.rows * args.batches)
        extra = {**QUERY_SETTINGS, **_REPORTS}
        spark = start_session(SparkSettings(log_file=folder / "spark.log", java=args.java, extra=extra))
        try:
            for number in range(args.rounds):
                for variant, conf in variants.items():
                    for key, value in conf.items():
                        spark.conf.set(key, value)
                    place = folder / f"{number}-{time.monotonic_ns()}"
                    place.mkdir()
                    found = measure(spark, folder, place, args.rows)
                    for key in conf:
                        spark.conf.set(key, extra[key]) if key in extra else spark.conf.unset(key)
                    cells = ", ".join(f"{key} {value:.0f}" for key, value in found.items())
                    print(f"round {number}, {variant}: {cells}; load {os.getloadavg()[0]:.1f}", flush=True)
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
