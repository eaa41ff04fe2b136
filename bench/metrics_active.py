"""Journal to tables by how many jobs are active at once, by shards and by processors.

    python bench/metrics_active.py [--events 400000] [--active 50 100000] [--ways 1x2 1x1 2x2] [--sink URL]
    python bench/metrics_active.py --tasks 1 2 [--active 50 100000]

Each event is of a job that chance picks among so many; a job has ten events, then another takes its place.
A way is SHARDSxPROCESSORS: Spark with all its processes is held to so many processors (sched_setaffinity),
since JVM and Python overlap. Steady state: from the end of the first batch to that of the last. Processor
time is that of all processes together, which other work on the machine changes little. `plain` is one Python
process and one loop over the same journal; all tables must be equal. --tasks measures without Spark what the
task of one of so many shards does: its processor time for a batch of 100,000 rows in steady state.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from metrics_batches import processor_ms  # type: ignore[import-not-found]  # Python finds it beside this script
from metrics_bench import BATCH_ROWS, _load  # type: ignore[import-not-found]  # as above

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.settings import load_metrics_settings
from jobwire.metrics.shards import AllShards, open_shard
from jobwire.metrics.source.fold_form import rows_in
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import plan
from jobwire.metrics.supervisor import Supervisor

_EVENTS = 10
_STEP_US = 1_000
_BEGIN_US = 1_767_225_600_000_000


def entries(total: int, active: int) -> Iterator[Entry]:
    """Yield accepted events of so many jobs at a time."""
    random = Random(active)  # noqa: S311 - the same journal at each run
    topics = Topics()
    slots: dict[int, tuple[str, int]] = {}
    for number in range(total):
        slot = random.randrange(active)
        job_id, seq = slots.get(slot) or (f"{random.getrandbits(32):08x}", 0)
        seq += 1
        event = {1: "started", _EVENTS: "completed"}.get(seq, "progress")
        received_us = _BEGIN_US + number * _STEP_US
        text = json.dumps(
            {
                "data": {"files": seq, "hmac_sig": "0" * 64},
                "detail": f"{seq} files of many, as a worker would say",
                "event": event,
                "job_id": job_id,
                "schema_version": 1,
                "seq": seq,
                "timestamp": utc_timestamp(received_us / 1e6 - 0.01),
            },
            separators=(",", ":"),
        )
        yield Entry(received_us, topics.events(job_id), text.encode(), False, "accepted")
        if seq == _EVENTS:
            slots.pop(slot, None)
        else:
            slots[slot] = job_id, seq


def store(journal: Path, total: int, active: int) -> None:
    """Write the journal."""
    with JournalWriter(journal, clock=SystemClock()) as writer:
        part: list[Entry] = []
        for entry in entries(total, active):
            part.append(entry)
            if len(part) == 1000:
                writer.append(part)
                part = []
        if part:
            writer.append(part)


def spark(home: Path, sink: str, shards: int, cores: int) -> dict[str, float]:
    """Take the journal through the query; return rows a second."""
    given = {"sink": sink, "history": "", "shards": shards, "master": f"local[{max(2, cores)}]"}
    settings = load_metrics_settings(home, given, {})
    ends: list[tuple[float, int, int]] = []
    spent: list[dict[str, float]] = []

    def note(report: dict[str, Any]) -> None:
        if report["kind"] == "batch":
            ends.append((time.perf_counter(), report["rows"], report["duration_ms"]))
            spent.append(processor_ms())
        elif report["kind"] == "note":
            print(report["text"], file=sys.stderr)

    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    try:
        Supervisor(settings=settings, on_report=note, stop=threading.Event()).run("once", tries=1)
    finally:
        os.sched_setaffinity(0, allowed)
    steady = ends[1:]
    rows = sum(count for _, count, _ in steady)
    return {
        "rows/s": round(rows * 1000 / sum(took for _, _, took in steady)),
        **{f"{name} µs/row": round((spent[-1][name] - spent[0][name]) * 1000 / rows, 1) for name in spent[0]},
        "first batch ms": ends[0][2],
        "load": round(os.getloadavg()[0], 1),
    }


def task(home: Path, shards: int) -> dict[str, float]:
    """Return the processor seconds of shard 0's task: to read, check and parse, and to fold and commit."""
    sink = str(home / f"{shards}-tasks" / "metrics.db")
    AllShards(sink, clock=SystemClock()).prepare(shards)
    options = SourceOptions(home / "journal", shards=shards)
    found = {}
    with (
        JournalReader(options.journal) as reader,
        open_shard(sink, 0, shards, clock=SystemClock(), session_of=lambda _: "") as tables,
    ):
        for start in range(0, reader.durable_offset, BATCH_ROWS):
            planned = next(plan(reader, options, start, min(start + BATCH_ROWS, reader.durable_offset)))
            for piece in planned.pieces:
                begun = time.process_time()
                rows = rows_in(options, piece, 0)
                read = time.process_time()
                tables.apply(rows, reader.identity)
                if piece.span.end_offset - piece.span.first_offset == BATCH_ROWS:
                    found = {"rows": rows.size, "read s": read - begun, "fold s": time.process_time() - read}
    return {name: round(value, 3) for name, value in found.items()}


def compared(
    events: int, active: int, ways: Sequence[str], *, sink: str = "", plain: bool = True
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the figures of each way, and of the plain loop, over one journal; the tables are equal."""
    with tempfile.TemporaryDirectory(prefix="jobwire-active-") as name:
        home = Path(name)
        store(home / "journal", events, active)
        digests: dict[str, dict[str, str]] = {}
        for way in ways:
            shards, cores = map(int, way.split("x"))
            place = sink or str(home / way / "metrics.db")
            found = spark(home, place, shards, cores)
            digests[way] = AllShards(place, clock=SystemClock()).digests()
            yield f"{active:,} active, {shards} shards, {cores} processors", found
        if plain:
            place = str(home / "plain.db")
            done = subprocess.run(_load("plain", home, place), check=True, stdout=subprocess.PIPE)
            told = json.loads(done.stdout)
            digests["plain"] = AllShards(place, clock=SystemClock()).digests()
            rate = round(told["rows"] / told["seconds"])
            yield f"{active:,} active, plain loop", {"rows/s": rate, "load": round(os.getloadavg()[0], 1)}
        assert len({json.dumps(found) for found in digests.values()}) == 1, "the tables differ"


def main() -> int:
    """Measure and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=400_000, help="events in each journal (400000)")
    parser.add_argument("--active", type=int, nargs="+", default=[50, 10_000, 100_000, 1_000_000])
    parser.add_argument("--ways", nargs="+", default=["1x2", "2x2"], help="SHARDSxPROCESSORS")
    parser.add_argument("--sink", default="", help="an empty PostgreSQL schema for one way (default: SQLite)")
    parser.add_argument("--tasks", type=int, nargs="+", help="numbers of shards; no Spark")
    parser.add_argument("--no-plain", action="store_true", help="leave the plain loop out")
    args = parser.parse_args()
    for active in args.active:
        if args.tasks:
            with tempfile.TemporaryDirectory(prefix="jobwire-active-") as name:
                store(Path(name) / "journal", args.events, active)
                for shards in args.tasks:
                    load = round(os.getloadavg()[0], 1)
                    print(f"{active:,} active, a task of {shards}: {task(Path(name), shards)}, load {load}")
            continue
        for way, found in compared(args.events, active, args.ways, sink=args.sink, plain=not args.no_plain):
            print(f"{way}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
