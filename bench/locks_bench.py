"""File locks beside bare SQLite: taking and giving back, the handover in a queue, the look for deadlocks.

Acquire and release take turns with two bare `sqlite3` transactions (WAL, FULL) that write the same rows. In
the queue fifty agents, each with a connection of its own, want one path: a handover is the time from one's
release to the next one's return. The deadlock check is what a request pays that begins to wait behind a
thousand others; many locks is a turn beside ten thousand of them.

    python bench/locks_bench.py [ROUNDS]
"""

import contextlib
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from jobwire import Home
from jobwire.coordination.locks import changes
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "locks.json"
ROUNDS, CONTENDERS, WAITERS, MANY = 400, 50, 1000, 10_000
# What is measured, and the bound: a ratio, milliseconds.
TARGETS = {"acquire_release": 0.5, "handover_p99_ms": 50.0, "deadlock_check_ms": 5.0}
HOLD_SECONDS = 0.005
RUN = "default"

LOCK = (
    "INSERT OR REPLACE INTO file_locks (run_id, target, agent_id, mode, incarnation, job_id, token,"
    " lease_seconds, acquired_ms, lease_until_ms, break_by, break_reason)"
    " VALUES ('default', ?, ?, 'exclusive', '', '', ?, 1800.0, ?, ?, '', '')"
)
UNLOCK = "DELETE FROM file_locks WHERE run_id = 'default' AND target = ? AND agent_id = 'b'"
EVENT = (
    "INSERT INTO events (run_id, task_id, thread_id, source, event_type, summary, payload_json, created_at)"
    " VALUES ('default', '', '', 'b', ?, ?, '{}', '2026-01-01T00:00:00.000Z')"
)


def plain(path: str) -> sqlite3.Connection:
    """Return a bare connection."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("trusted_schema = OFF", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def bare(connection: sqlite3.Connection, target: str) -> None:
    """Take a lock and give it back as two bare transactions do it."""
    connection.execute("BEGIN IMMEDIATE")
    token = connection.execute(EVENT, ("FILE_LOCK", target)).lastrowid
    connection.execute(LOCK, (target, "b", token, 1_800_000_000_000, 1_800_001_800_000))
    connection.execute("COMMIT")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(UNLOCK, (target,))
    connection.execute(EVENT, ("FILE_UNLOCK", target))
    connection.execute("COMMIT")


def timed(action: Callable[[], object]) -> float:
    """Return how many milliseconds the action took."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def locks_of(home: str) -> Locks:
    """Return the locks by a connection of their own."""
    return Locks(CoordinationStore(home), job_ended=lambda _: False)


def turn(locks: Locks, target: str) -> None:
    """Take a lock and give it back."""
    locks.acquire(LockRequest("a", (target,)))
    locks.release("a", [target], run_id=RUN)


def turns(home: str, rounds: int) -> dict[str, float]:
    """Compare acquire and release with bare transactions; they take turns."""
    locks = locks_of(home)
    turn(locks, "first")
    connection = plain(CoordinationStore(home).path)
    ours, theirs = [], []
    for number in range(rounds):
        target = f"src/f{number % 7}.py"
        ours.append(timed(lambda: turn(locks, target)))  # noqa: B023 - called at once
        theirs.append(timed(lambda: bare(connection, target)))  # noqa: B023 - called at once
    return {
        "acquire and release": statistics.median(ours),
        "two bare transactions": statistics.median(theirs),
    }


def handovers(home: str, contenders: int) -> dict[str, float]:
    """Let agents queue for one path; return how long handovers took, and whether the order was kept."""
    holder = locks_of(home)
    holder.acquire(LockRequest("holder", ("hot",)))
    got: list[tuple[str, float]] = []
    given: list[float] = []

    def contend(name: str) -> None:
        own = locks_of(home)
        own.acquire(LockRequest(name, ("hot",)), wait_seconds=300)
        got.append((name, time.perf_counter()))
        time.sleep(HOLD_SECONDS)
        given.append(time.perf_counter())
        own.release(name, ["hot"], run_id=RUN)

    names = [f"c{number:02}" for number in range(contenders)]
    threads = []
    for number, name in enumerate(names, 1):
        threads.append(threading.Thread(target=contend, args=(name,)))
        threads[-1].start()
        while len(holder.state(RUN).waits) < number:
            time.sleep(0.002)
    given.append(time.perf_counter())
    holder.release("holder", ["hot"], run_id=RUN)
    for thread in threads:
        thread.join()
    waits = sorted((at - since) * 1000 for (_, at), since in zip(got, given, strict=False))
    return {
        "in order": float([name for name, _ in got] == names),
        "p50": statistics.median(waits),
        "p99": waits[int(len(waits) * 0.99)],
    }


def deadlock_checks(home: str, waiters: int, rounds: int) -> dict[str, float]:
    """Measure a request that closes a circle, and the list of circles, among waiters in two shapes.

    In the queue all wait for the path of one holder, who then asks for what the first of them holds. In the
    chain each waits for the next one, and the last asks for what the first holds: all are in the circle.
    Nothing of it is written: the request is refused.
    """
    found: dict[str, float] = {}
    shapes = {
        "queue": (["hot"] * waiters, {"hot": "holder", "path0": "w0"}, "holder"),
        "chain": (
            [f"path{number + 1}" for number in range(waiters)],
            {f"path{number}": f"w{number}" for number in range(waiters + 1)},
            f"w{waiters}",
        ),
    }
    for shape, (wanted, holds, asker) in shapes.items():
        set_up(CoordinationStore(home), wanted, holds)
        locks, closing = locks_of(home), LockRequest(asker, ("path0",))

        def refused(locks: Locks = locks, closing: LockRequest = closing) -> None:
            with contextlib.suppress(ConflictError):
                locks.acquire(closing, wait_seconds=0.001)

        found[f"request, {shape}"] = statistics.median(timed(refused) for _ in range(rounds))
        found[f"all circles, {shape}"] = statistics.median(timed(locks.deadlocks) for _ in range(rounds))
        connection = plain(CoordinationStore(home).path)
        connection.execute("DELETE FROM lock_waits")
        connection.execute("DELETE FROM file_locks")
    return found


def set_up(store: CoordinationStore, wanted: list[str], holds: dict[str, str]) -> None:
    """Let agents w0, w1 ... wait for these paths, and agents hold those."""
    with store.changing() as change:
        for number, target in enumerate(wanted):
            wait = changes.begin_to_wait(change, LockRequest(f"w{number}", (target,)))
            change.execute("see_lock_wait", {"wait_id": wait.wait_id, "now_ms": change.now_ms + 10**9})
    connection = plain(store.path)
    for number, (target, agent) in enumerate(holds.items()):
        connection.execute(LOCK, (target, agent, number + 1, 1, 4_000_000_000_000))


def crowded(home: str, count: int, rounds: int) -> dict[str, float]:
    """Measure a turn beside `count` locks, and taking and giving back all of them."""
    locks = locks_of(home)
    names = [f"src/d{number % 100}/f{number}.py" for number in range(count)]
    parts = [tuple(names[start : start + 1000]) for start in range(0, count, 1000)]
    taken = timed(lambda: [locks.acquire(LockRequest("crowd", part)) for part in parts])
    one = statistics.median(timed(lambda: turn(locks, "other.py")) for _ in range(rounds))
    given = timed(lambda: locks.release("crowd", run_id=RUN))
    return {"take all": taken, "a turn beside them": one, "give all back": given}


def main() -> int:
    """Measure, print, write; return 1 where a target was missed."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        home = str(Home.make(Path(name) / "home").path)
        parts = {
            "acquire and release": turns(home, rounds),
            f"{CONTENDERS} contenders": handovers(home, CONTENDERS),
            f"{WAITERS} waiters": deadlock_checks(home, WAITERS, max(5, rounds // 20)),
            f"{MANY} locks": crowded(home, MANY, max(5, rounds // 20)),
        }
    one, queue, graph, _ = parts.values()
    ratios = {
        "acquire_release": one["two bare transactions"] / one["acquire and release"],
        "handover_p99_ms": queue["p99"],
        "deadlock_check_ms": max(graph.values()),
    }
    for title, part in parts.items():
        print(f"{title}: " + ", ".join(f"{key} {value:.2f}" for key, value in part.items()))
    met = {
        "acquire_release": ratios["acquire_release"] >= TARGETS["acquire_release"],
        "handover_p99_ms": ratios["handover_p99_ms"] <= TARGETS["handover_p99_ms"] and queue["in order"] == 1,
        "deadlock_check_ms": ratios["deadlock_check_ms"] <= TARGETS["deadlock_check_ms"],
    }
    for key, value in ratios.items():
        print(f"{key}: {value:.2f} (target {TARGETS[key]}) {'ok' if met[key] else 'MISSED'}")
    body = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load": ", ".join(f"{load:.1f}" for load in os.getloadavg()) + " (1, 5, 15 minutes)",
        "rounds": rounds,
        **parts,
        "ratios": ratios,
        "targets": TARGETS,
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
