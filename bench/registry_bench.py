"""What the registry costs: durable transitions against SQLite, and picking among many jobs.

A transition is one event folded into its job: the same decoding, fold, history line and record for
each way, on the disk before the next one begins. The ways take turns, a few transitions each:

    registry         RecordStore: the files that README and SPEC promise
    its calls, bare  only the system calls of that promise, on prepared bytes, one after the other: append
                     and fdatasync the line; write and fsync a temporary file, rename, fsync the directory
    SQLite           line and record in two tables, WAL, synchronous=FULL, its checkpoints included

once one at a time; once as the registry process does it, the events of so many jobs at once with one wait
for all (SQLite: one commit); and once as workers do it, so many threads at once, each for its own jobs and
with a wait for each event (SQLite: a connection each).

`pick` and `register` are measured in directories of 100, 10,000 and 100,000 jobs, nearly all finished; the
directories take turns as well.

    python bench/registry_bench.py [--rounds N] [--jobs N ...]
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from registry_ways import JOBS, STAMP, Bare, InFiles, InSqlite, Spoken, Way, records, story  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, encode_record
from jobwire.registry.pending import POSITION
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.durable import change_durably
from jobwire.storage.files import StrPath, SystemFiles

RESULTS = Path(__file__).resolve().parent / "results" / "registry.json"
SIZES = (100, 10_000, 100_000)
# Transitions at once, and rounds of JOBS transitions for each.
BATCHES = (1, 8, 64)
WORKERS = (1, 4, 16)
ROUNDS = 12
PICKS = 60
_TARGET_RATIO = 0.5
_TARGET_FLAT = 2.0
_FILL_AT_ONCE = 1000


class Cost(NamedTuple):
    """Seconds, by the wall clock and of the processor, for some transitions."""

    wall: float
    processor: float


def cost_of(way: Way, parts: Sequence[Sequence[Spoken]]) -> Cost:
    """Return what it takes to apply these parts."""
    wall, processor = time.perf_counter(), time.process_time()
    for part in parts:
        way.apply(part)
    return Cost(time.perf_counter() - wall, time.process_time() - processor)


def in_turns(items: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield (round, item), the items of a round in random order: no neighbour is always the same."""
    for number in range(rounds):
        for item in random.sample(items, len(items)):
            yield number, item


def transitions(folder: Path, rounds: int) -> list[dict[str, float]]:
    """Return a row for each batch size: transitions a second of each way, and their ratios."""
    rows = []
    for batch in BATCHES:
        jobs = records()
        place = folder / f"batch-{batch}"
        place.mkdir()
        ways: dict[str, Way] = {
            "registry": InFiles(place, jobs),
            "bare": Bare(place, jobs),
            "sqlite": InSqlite(place, jobs),
        }
        spoken = story(jobs, JOBS * (rounds + 1))
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for number, name in in_turns(list(ways), rounds + 1):
            begin = number * JOBS
            parts = [spoken[first : first + batch] for first in range(begin, begin + JOBS, batch)]
            cost = cost_of(ways[name], parts)
            if number:  # the first round warms up
                costs[name].append(cost)
        rows.append(row_of(batch, costs))
    return rows


def row_of(batch: int, costs: dict[str, list[Cost]]) -> dict[str, float]:
    """Return the medians of one batch size."""
    wall = {name: statistics.median(cost.wall for cost in found) for name, found in costs.items()}
    busy = {name: statistics.median(cost.processor for cost in found) for name, found in costs.items()}
    return {
        "at_once": batch,
        **{f"{name}_per_second": round(JOBS / seconds) for name, seconds in wall.items()},
        "registry_to_sqlite": round(wall["sqlite"] / wall["registry"], 2),
        "bare_to_sqlite": round(wall["sqlite"] / wall["bare"], 2),
        "registry_to_bare": round(wall["bare"] / wall["registry"], 2),
        **{f"{name}_processor_us": round(seconds / JOBS * 1e6) for name, seconds in busy.items()},
    }


def workers(folder: Path, rounds: int) -> list[dict[str, float]]:
    """Return a row for each number of workers that speak at the same time, each for its own jobs."""
    rows = []
    for number in WORKERS:
        place = folder / f"workers-{number}"
        place.mkdir()
        jobs = records()
        in_files, in_sqlite = InFiles(place, jobs), InSqlite(place, jobs)
        ways: dict[str, list[Way]] = {
            "registry": [in_files] * number,
            "sqlite": [in_sqlite.another() for _ in range(number)],
        }
        spoken = story(jobs, JOBS * (rounds + 1))
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn, name in in_turns(list(ways), rounds + 1):
            part = spoken[turn * JOBS : (turn + 1) * JOBS]
            found = at_once(ways[name], [part[first::number] for first in range(number)])
            if turn:
                seconds[name].append(found)
        wall = {name: statistics.median(found) for name, found in seconds.items()}
        rows.append(
            {
                "workers": number,
                **{f"{name}_per_second": round(JOBS / taken) for name, taken in wall.items()},
                "registry_to_sqlite": round(wall["sqlite"] / wall["registry"], 2),
            }
        )
    return rows


def at_once(ways: Sequence[Way], parts: Sequence[Sequence[Spoken]]) -> float:
    """Return the seconds until every thread has applied its part, one event at a time."""
    threads = [
        threading.Thread(target=cost_of, args=[way, [[spoken] for spoken in part]])
        for way, part in zip(ways, parts, strict=True)
    ]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


class Unflushed(SystemFiles):
    """The system's files without waiting: a directory of many jobs is only scenery."""

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Flush nothing."""

    @override
    def sync_directory(self, path: StrPath) -> None:
        """Flush nothing."""


def fill(store: RecordStore, finished: int) -> None:
    """Write finished jobs by the registry's durable write, without its waits and without histories."""
    store.make_layout()
    files = Unflushed()
    for first in range(0, finished, _FILL_AT_ONCE):
        numbers = range(first, min(first + _FILL_AT_ONCE, finished))
        for record in [finished_job(number) for number in numbers]:
            replace = [(store.record_path(record.job_id), encode_record(record))]
            change_durably(replace=replace, files=files)


def finished_job(number: int) -> JobRecord:
    """Return a completed job."""
    return JobRecord(
        f"{number:08x}",
        "t" * 43,
        STAMP,
        STAMP,
        status=Status.COMPLETED,
        started_at=STAMP,
        finished_at=STAMP,
        extra={POSITION: number},
    )


def picking(folder: Path, sizes: Sequence[int]) -> list[dict[str, float]]:
    """Return for each size the median milliseconds of the operations, and what reindexing takes."""
    queues, reindexed = {}, {}
    for size in sizes:
        store = RecordStore(folder / f"home-{size}")
        queues[size] = JobQueue(store, warn=lambda message: print(message, file=sys.stderr))
        fill(store, size - PICKS)
        reindexed[size] = milliseconds(queues[size].reindex) / 1000
    found: dict[int, dict[str, list[float]]] = {size: {} for size in sizes}
    for _ in range(PICKS):
        for size in random.sample(sizes, len(sizes)):
            for name, figure in operations(queues[size]).items():
                found[size].setdefault(name, []).append(figure)
    return [
        {
            "jobs": size,
            **{name: round(statistics.median(figures), 2) for name, figures in found[size].items()},
            "reindex_s": round(reindexed[size], 2),
        }
        for size in sizes
    ]


def operations(queue: JobQueue) -> dict[str, float]:
    """Do each once; return the milliseconds."""
    registered = milliseconds(lambda: queue.register(JobSpec(title="next")))
    busy = time.process_time()
    picked = milliseconds(lambda: queue.pick(LeaseGrant("bench")))
    busy = time.process_time() - busy
    return {
        "register_ms": registered,
        "pick_ms": picked,
        "pick_processor_ms": busy * 1000,
        "list_ms": milliseconds(lambda: queue.list(limit=20)),
        "show_ms": milliseconds(lambda: queue.store.get("00000000")),
    }


def milliseconds(call: Callable[[], object]) -> float:
    """Return how long `call` took."""
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1000


def table(rows: Sequence[dict[str, float]], titles: dict[str, str]) -> str:
    """Return the rows below their titles."""
    lines = ["".join(f"{title:>14}" for title in titles.values())]
    lines += ["".join(f"{row[name]:>14,}" for name in titles) for row in rows]
    return "\n".join(lines)


TRANSITION_TITLES = {
    "at_once": "at once",
    "registry_per_second": "registry/s",
    "bare_per_second": "bare calls/s",
    "sqlite_per_second": "SQLite/s",
    "registry_to_sqlite": "reg./SQLite",
    "bare_to_sqlite": "bare/SQLite",
    "registry_to_bare": "reg./bare",
    "registry_processor_us": "reg. cpu us",
    "bare_processor_us": "bare cpu us",
    "sqlite_processor_us": "SQLite cpu us",
}
WORKER_TITLES = {
    "workers": "workers",
    "registry_per_second": "registry/s",
    "sqlite_per_second": "SQLite/s",
    "registry_to_sqlite": "reg./SQLite",
}
PICK_TITLES = {
    "jobs": "jobs",
    "register_ms": "register ms",
    "pick_ms": "pick ms",
    "pick_processor_ms": "pick cpu ms",
    "list_ms": "list ms",
    "show_ms": "show ms",
    "reindex_s": "reindex s",
}


def main() -> int:
    """Measure, print and write; return 0: a missed target is a figure, not a failure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, nargs="+", default=list(SIZES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jobwire-bench-") as name:
        moved = transitions(Path(name), args.rounds)
        print(table(moved, TRANSITION_TITLES), flush=True)
        spoken = workers(Path(name), args.rounds)
        print(f"\n{table(spoken, WORKER_TITLES)}\n", flush=True)
        picked = picking(Path(name), args.jobs)
    flat = max(row["pick_ms"] for row in picked) / min(row["pick_ms"] for row in picked)
    ratio = moved[0]["registry_to_sqlite"]
    met = {"ratio": ratio >= _TARGET_RATIO, "flat": flat <= _TARGET_FLAT}
    print(f"one at a time: {ratio} of SQLite (target {_TARGET_RATIO})\n")
    print(table(picked, PICK_TITLES))
    print(f"slowest pick / fastest pick: {flat:.2f} (target {_TARGET_FLAT})")
    RESULTS.parent.mkdir(exist_ok=True)
    body = {
        "what": "folded events made durable, against SQLite WAL FULL; picking among finished jobs",
        "transitions": moved,
        "workers": spoken,
        "pick": picked,
        "pick_slowest_to_fastest": round(flat, 2),
        "targets_met": met,
        "rounds": args.rounds,
        "load_average": os.getloadavg()[0],
        "machine": {"processors": os.cpu_count(), "python": platform.python_version()},
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
