"""What more shards, more processors and PostgreSQL make of the metrics pipeline.

    python bench/metrics_scaling_bench.py [--events 400000]

Journal to tables in steady state, the tables equal to a plain loop's: one shard on one processor and two
shards on two, all processes of Spark held to them, since JVM and Python overlap; the same on a standalone
cluster of one and of two workers with a core each; and with the tables in a PostgreSQL that flushes.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from metrics_active import compared, store  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.testing.postgres import new_database, postgres_server

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "metrics_scaling.json"
CLUSTER = HERE.parent / "examples" / "cluster.py"
ACTIVE = (50, 100_000, 1_000_000)
POSTGRES_ACTIVE = 100_000
# How much quicker two are than one, at least; rows a second with PostgreSQL, at least.
SCALING, POSTGRES_RATE = 1.6, 35_000
_CLUSTER_ROWS = 100_000


def pinned(events: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the rates of one shard on one processor and of two on two, and how they compare."""
    for active in ACTIVE:
        found = [figures["rows/s"] for _, figures in compared(events, active, ("1x1", "2x2"), plain=False)]
        yield f"{active:,} active", _beside(found)


def on_clusters(events: int, active: int) -> tuple[str, dict[str, float]]:
    """Return the same for clusters of one worker and of two."""
    with tempfile.TemporaryDirectory(prefix="jobwire-scaling-") as name:
        home = Path(name, ".hermes")
        home.mkdir()
        store(home / "journal", events, active)
        words = ["--home", str(home), "--max-rows", str(_CLUSTER_ROWS), "--json"]
        done = subprocess.run([sys.executable, str(CLUSTER), *words], check=True, stdout=subprocess.PIPE)
    return f"{active:,} active", _beside([one["rows_per_second"] for one in json.loads(done.stdout)])


def with_postgres(events: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the rates with the tables in PostgreSQL, which shares the processors."""
    with postgres_server(durable=True) as url:
        for way in ("1x2", "2x2"):
            sink = new_database(url)
            yield from compared(events, POSTGRES_ACTIVE, (way,), sink=sink, plain=False)


def _beside(found: list[float]) -> dict[str, float]:
    one, two = found
    return {
        "one, rows/s": one,
        "two, rows/s": two,
        "times": round(two / one, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=400_000, help="events in each journal (400000)")
    args = parser.parse_args()
    result = {
        "what": "Journal to tables with one and two of them, and with PostgreSQL; steady state, equal tables",
        "events": args.events,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "targets": {"times, at least": SCALING, "PostgreSQL, rows/s, at least": POSTGRES_RATE},
        "shards, each on a processor": dict(pinned(args.events)),
        "workers of a standalone cluster, each with a processor": dict(
            on_clusters(args.events, active) for active in ACTIVE
        ),
        "PostgreSQL": dict(with_postgres(args.events)),
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
