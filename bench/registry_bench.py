"""What the registry costs: durable transitions against SQLite, and picking among many jobs.

Both keep the same record and the same history line of the same folded event, on the disk before the
next one begins; they take turns, round by round. SQLite: WAL, synchronous=FULL, one commit each.

`pick` and `register` are measured in directories of 100, 10,000 and 100,000 jobs, nearly all finished.

    python bench/registry_bench.py [--rounds N] [--jobs N ...]
"""

import argparse
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.event import Event, compose, encode_signed
from jobwire.core.fold import LeaseGrant, apply_event
from jobwire.core.lifecycle import Status
from jobwire.core.record import JobRecord, decode_record, encode_record
from jobwire.core.signature import new_token
from jobwire.registry.audit import event_line
from jobwire.registry.pending import POSITION
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore, payload_digest

RESULTS = Path(__file__).resolve().parent / "results" / "registry.json"
SIZES = (100, 10_000, 100_000)
JOBS = 50
TRANSITIONS = 200
ROUNDS = 7
PICKS = 60
_STAMP = utc_timestamp(1_700_000_000.0)
_TARGET_RATIO = 0.5
_TARGET_FLAT = 2.0


class Spoken(NamedTuple):
    """One event and its signed bytes."""

    event: Event
    payload: bytes


def records() -> list[JobRecord]:
    """Return pending jobs."""
    return [JobRecord(f"{n:08x}", new_token(), _STAMP, _STAMP, title=f"job {n}") for n in range(JOBS)]


def story(jobs: Sequence[JobRecord], count: int) -> list[Spoken]:
    """Return `count` events of the jobs in turns."""
    spoken = []
    for number in range(count):
        job, seq = jobs[number % len(jobs)], number // len(jobs) + 1
        event = compose(
            seq=seq,
            job_id=job.job_id,
            event="started" if seq == 1 else "progress",
            timestamp=_STAMP,
            detail=f"step {seq} of many",
            data={"percent": seq % 100},
        )
        spoken.append(Spoken(event, encode_signed(event, job.auth_token)))
    return spoken


class InFiles:
    """The registry's own records."""

    def __init__(self, folder: Path, jobs: Sequence[JobRecord]) -> None:
        self._store = RecordStore(folder / "home")
        for job in jobs:
            self._store.create(job)

    def apply(self, spoken: Spoken) -> None:
        """Fold one event, durably."""
        self._store.apply(spoken.event.job_id, *spoken, source="bench")


class InSqlite:
    """The same in SQLite."""

    def __init__(self, folder: Path, jobs: Sequence[JobRecord]) -> None:
        self._db = sqlite3.connect(folder / "jobs.sqlite", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE records (job_id TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")
        self._db.execute("CREATE TABLE history (n INTEGER PRIMARY KEY, job_id TEXT, line BLOB)")
        for job in jobs:
            self._db.execute("INSERT INTO records VALUES (?, ?)", (job.job_id, encode_record(job)))

    def apply(self, spoken: Spoken) -> None:
        """Fold one event, durably, with the same decoding, fold, line and encoding."""
        event, payload = spoken
        now = time.time()
        self._db.execute("BEGIN IMMEDIATE")
        query = "SELECT body FROM records WHERE job_id = ?"
        before = decode_record(self._db.execute(query, (event.job_id,)).fetchone()[0])
        after = apply_event(before, event, now)
        line, _ = event_line(
            at=utc_timestamp(now),
            source="bench",
            verdict="accepted",
            attempt=after.attempt,
            seq=event.seq,
            digest=payload_digest(payload),
            payload=payload,
        )
        self._db.execute("INSERT INTO history (job_id, line) VALUES (?, ?)", (event.job_id, line))
        self._db.execute("UPDATE records SET body = ? WHERE job_id = ?", (encode_record(after), event.job_id))
        self._db.execute("COMMIT")


def per_second(apply: Callable[[Spoken], None], part: Sequence[Spoken]) -> float:
    """Return transitions a second over `part`."""
    begin = time.perf_counter()
    for spoken in part:
        apply(spoken)
    return len(part) / (time.perf_counter() - begin)


def transitions(folder: Path, rounds: int) -> dict[str, object]:
    """Let both ways take turns; return the medians."""
    jobs = records()
    ways: dict[str, InFiles | InSqlite] = {
        "registry": InFiles(folder, jobs),
        "sqlite": InSqlite(folder, jobs),
    }
    spoken = story(jobs, TRANSITIONS * (rounds + 1))
    figures: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        part = spoken[number * TRANSITIONS : (number + 1) * TRANSITIONS]
        for name, way in ways.items():
            figure = per_second(way.apply, part)
            if number:  # the first round warms up
                figures[name].append(figure)
    registry, sqlite = (statistics.median(figures[name]) for name in ("registry", "sqlite"))
    return {
        "registry_per_second": round(registry),
        "sqlite_per_second": round(sqlite),
        "ratio": round(registry / sqlite, 2),
        "rounds": rounds,
    }


def fill(store: RecordStore, finished: int) -> None:
    """Write finished jobs, without flushing: only their presence matters."""
    store.make_layout()
    for number in range(finished):
        record = JobRecord(
            f"{number:08x}",
            "t" * 43,
            _STAMP,
            _STAMP,
            status=Status.COMPLETED,
            started_at=_STAMP,
            finished_at=_STAMP,
            extra={POSITION: number},
        )
        Path(store.record_path(record.job_id)).write_bytes(encode_record(record))


def picking(folder: Path, size: int) -> dict[str, float]:
    """Return median milliseconds of `register` and `pick` among `size` jobs, and what reindexing takes."""
    queue = JobQueue(
        RecordStore(folder / f"home-{size}"), warn=lambda message: print(message, file=sys.stderr)
    )
    fill(queue.store, size - PICKS)
    begin = time.perf_counter()
    queue.reindex()
    reindexed = time.perf_counter() - begin
    registered = [milliseconds(lambda: queue.register(JobSpec(title="next"))) for _ in range(PICKS)]
    picked = [milliseconds(lambda: queue.pick(LeaseGrant("bench"))) for _ in range(PICKS)]
    listed = [milliseconds(lambda: queue.list(limit=20)) for _ in range(10)]
    return {
        "jobs": size,
        "register_ms": round(statistics.median(registered), 2),
        "pick_ms": round(statistics.median(picked), 2),
        "list_ms": round(statistics.median(listed), 2),
        "reindex_s": round(reindexed, 2),
    }


def milliseconds(call: Callable[[], object]) -> float:
    """Return how long `call` took."""
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1000


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
        picked = [picking(Path(name), size) for size in args.jobs]
    flat = max(row["pick_ms"] for row in picked) / min(row["pick_ms"] for row in picked)
    met = {"ratio": float(str(moved["ratio"])) >= _TARGET_RATIO, "flat": flat <= _TARGET_FLAT}
    print(f"{'durable transitions':<24}{'per second':>12}")
    print(f"{'registry (files)':<24}{moved['registry_per_second']:>12}")
    print(f"{'SQLite WAL FULL':<24}{moved['sqlite_per_second']:>12}")
    print(f"ratio {moved['ratio']} (target {_TARGET_RATIO})\n")
    print(f"{'jobs':>8}{'register ms':>13}{'pick ms':>10}{'list ms':>10}{'reindex s':>11}")
    for row in picked:
        print(
            f"{row['jobs']:>8.0f}{row['register_ms']:>13}{row['pick_ms']:>10}{row['list_ms']:>10}"
            f"{row['reindex_s']:>11}"
        )
    print(f"slowest pick / fastest pick: {flat:.2f} (target {_TARGET_FLAT})")
    RESULTS.parent.mkdir(exist_ok=True)
    body = {
        "what": "one folded event durable at a time, against SQLite WAL FULL; picking among finished jobs",
        "transitions": moved,
        "pick": picked,
        "pick_slowest_to_fastest": round(flat, 2),
        "targets_met": met,
        "machine": {"processors": os.cpu_count(), "python": platform.python_version()},
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
