"""How long the page of metrics and `jobwire metrics show` take, with a million jobs in the tables.

    python bench/metrics_page_bench.py [--jobs 1000000] [--days 7] [--rounds 5]

Three events a job; the figures of each range that the page offers, and of `show` for an hour
and for all days, by a reader of the SQLite file as the page has it.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from jobwire.core.clock import SystemClock
from jobwire.dashboard.figures import STEPS, JournalEnd
from jobwire.dashboard.report import Live, report
from jobwire.metrics.database import open_database, open_tables
from jobwire.metrics.rows import SCHEMA, Rows, rows_of
from jobwire.metrics.show import tables
from jobwire.metrics.sink import MetricsSink

RESULTS = Path(__file__).resolve().parent / "results" / "metrics_page.json"
# Jobs that one batch brings.
_BLOCK = 25_000
_NOW = 1_767_225_600
_EVENTS = ("started", "progress", "completed")
_SESSIONS = 20
TARGET_MS = 300


def rows(block: int, blocks: int, jobs: int, days: float) -> Rows:
    """Return the jobs that begin and end in one of so many blocks of time; most take minutes, some hours."""
    random = np.random.default_rng(block)
    length_us = int(days * 86_400e6) // blocks
    begun = np.sort(random.integers(0, length_us // 2, jobs))
    took = np.minimum(random.lognormal(19.5, 1.5, jobs).astype(np.int64), length_us // 2 - 1)
    received = np.concatenate([begun, begun + took // 2, begun + took])
    order = np.argsort(received, kind="stable")
    kind = np.repeat(np.arange(3), jobs)[order]
    job = np.tile(np.arange(jobs), 3)[order] + block * jobs
    at_us = _NOW * 1_000_000 - int(days * 86_400e6) + block * length_us + received[order]
    columns = {
        "offset": np.arange(3 * jobs) + block * 3 * jobs,
        "received_us": at_us,
        "job_id": [f"{number * 2_654_435_761 % (1 << 32):08x}" for number in job.tolist()],
        "seq": kind + 1,
        "label": [_EVENTS[number] for number in kind.tolist()],
        "sent_us": at_us - 1500,
        "note": pa.nulls(3 * jobs, pa.string()),
    }
    return rows_of(pa.table({name: pa.array(values) for name, values in columns.items()}).cast(SCHEMA))


def fill(path: Path, jobs: int, days: float) -> None:
    """Fold the jobs in."""
    blocks = max(1, jobs // _BLOCK)
    with MetricsSink(
        open_database(str(path)), clock=SystemClock(), session_of=lambda job: f"s{int(job, 16) % _SESSIONS}"
    ) as sink:
        sink.prepare()
        for block in range(blocks):
            sink.apply(rows(block, blocks, jobs // blocks, days), "bench")


def taken_ms(action: Callable[[], object], rounds: int) -> dict[str, float]:
    """Return the median and the longest of so many rounds, in milliseconds."""
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        action()
        found.append((time.perf_counter() - begun) * 1000)
    return {"median ms": statistics.median(found), "longest ms": max(found)}


def main() -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    live = Live({}, [], JournalEnd())
    result: dict[str, object] = {
        "what": "The page of metrics and `jobwire metrics show` over the tables of so many jobs",
        "jobs": args.jobs,
        "days": args.days,
        "rounds": args.rounds,
        "load_average": os.getloadavg()[0],
        "target, page, ms": TARGET_MS,
    }
    with tempfile.TemporaryDirectory(prefix="jobwire-page-") as folder:
        path = Path(folder) / "metrics.db"
        fill(path, args.jobs, args.days)
        asked = open_tables(str(path))
        counted = asked.rows("SELECT COUNT(*) FROM job_totals WHERE outcome = 'completed'")[0][0]
        assert counted == args.jobs, f"{counted} of {args.jobs} jobs are in the tables"
        found = {
            f"page, {seconds // 60:,} minutes": taken_ms(
                partial(report, asked, live, seconds=seconds, now=_NOW), args.rounds
            )
            for seconds in STEPS
        }
        asked.close()
        for name, minutes in (("an hour", 60.0), (f"{args.days:g} days", args.days * 1440)):
            show = partial(tables, str(path), now=_NOW, minutes=minutes, home=Path(folder))
            found[f"show, {name}"] = taken_ms(show, args.rounds)
    for name, figures in found.items():
        print(f"{name:24} median {figures['median ms']:8.1f} ms, longest {figures['longest ms']:8.1f} ms")
    RESULTS.write_text(json.dumps(result | {"figures": found}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
