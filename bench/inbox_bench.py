"""The inbox beside bare SQLite: sending, commands from cold, and whether size costs anything.

Each turn sends the same rows: through the Python API, and as one bare `sqlite3` transaction (WAL, FULL) on a
store of the same tables. Cold: `inbox send --json` and a script of the standard library that makes that
transaction. Flat: fetch, claim and show among 100 and 100,000 threads. Search: words among a million
messages.

    python bench/inbox_bench.py [ROUNDS] [MESSAGES]
"""

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from jobwire import Home
from jobwire.coordination import reading, sending
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "inbox.json"
ROUNDS, MESSAGES = 400, 1_000_000
COLD_ROUNDS = 30
FEW, MANY = 100, 100_000
BODY = "the parser breaks on empty files; " * 8
# What is measured, by what, and the bound of the ratio.
TARGETS = {"send": 0.7, "cold": 1.6, "flat": 1.3, "search_ms": 50.0}

MESSAGE = (
    "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, thread_id, kind, summary, body, recipients,"
    " digest, indexed) VALUES (?, ?, 'lead', 'builder', 'task', ?, 'task', ?, ?, '[\"builder\"]', ?, 1)"
)
THREAD = (
    "INSERT INTO threads (thread_id, subject, created_by, assigned_to, addressed_to, created_at, updated_at,"
    " work, position, changed) VALUES (?, ?, 'lead', 'builder', 'builder', ?, ?, 1, ?, ?)"
)
WORDS = "INSERT INTO message_words (rowid, summary, body, type) VALUES (?, ?, ?, 'task')"
DELIVERY = "INSERT INTO deliveries (agent_id, seq, thread_id) VALUES ('builder', ?, ?)"
PRAGMAS = ("trusted_schema = OFF", "synchronous = FULL", "foreign_keys = ON")


def bare(connection: sqlite3.Connection, number: int) -> None:
    """Send one message as a bare transaction does it: the same rows."""
    name, at = f"b{number}", "2026-01-01T00:00:00.000Z"
    connection.execute("BEGIN IMMEDIATE")
    seq = connection.execute("SELECT coalesce(max(event_id), 0) + 1 FROM events").fetchone()[0]
    connection.execute(THREAD, (f"t{name}", "fix it", at, at, seq, seq))
    connection.execute(MESSAGE, (name, 1_800_000_000_000, f"t{name}", "fix it", BODY, name * 8))
    connection.execute(WORDS, (seq, "fix it", BODY))
    connection.execute(DELIVERY, (seq, f"t{name}"))
    connection.execute("COMMIT")


SCRIPT = f"""
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for pragma in {PRAGMAS!r}:
    connection.execute("PRAGMA " + pragma)
name, at = sys.argv[2], "2026-01-01T00:00:00.000Z"
connection.execute("BEGIN IMMEDIATE")
seq = connection.execute("SELECT coalesce(max(event_id), 0) + 1 FROM events").fetchone()[0]
connection.execute({THREAD!r}, ("t" + name, "fix it", at, at, seq, seq))
connection.execute({MESSAGE!r}, (name, 1800000000000, "t" + name, "fix it", sys.argv[3], name * 8))
connection.execute({WORDS!r}, (seq, "fix it", sys.argv[3]))
connection.execute({DELIVERY!r}, (seq, "t" + name))
connection.execute("COMMIT")
print(json.dumps({{"ok": True, "event_id": seq}}))
"""  # noqa: S608 - statements of this file


def plain(path: str) -> sqlite3.Connection:
    """Return a bare connection."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def timed(action: Callable[[], object]) -> float:
    """Return how many milliseconds the action took."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def median(actions: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, float]:
    """Return the medians of the actions in milliseconds; they take turns."""
    samples: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds):
        for name, action in actions.items():
            samples[name].append(timed(lambda do=action, n=number: do(n)))  # type: ignore[misc]
    return {name: statistics.median(found[len(found) // 10 :]) for name, found in samples.items()}


def sends(home: Home, rounds: int) -> dict[str, float]:
    """Compare the Python API with bare transactions."""
    inbox = home.inbox("lead")
    connection = plain(inbox.store.path)
    inbox.send("builder", "first")
    return median(
        {
            "send through Home.inbox": lambda _: inbox.send("builder", "fix it", body=BODY),
            "bare sqlite3": lambda number: bare(connection, number),
        },
        rounds,
    )


def colds(home: Home) -> dict[str, float]:
    """Compare commands from cold."""
    environ = {**os.environ, "JOBWIRE_HOME": str(home.path), "JOBWIRE_AGENT": "lead"}
    # As installed: byte code is there.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ["PYTHONPYCACHEPREFIX"] = str(home.path / "bytecode")
    command = str(Path(sys.executable).parent / "inbox")
    words = [command, "send", "--json", "--to", "builder", "--subject", "fix it", "--body", BODY]
    path = home.inbox("lead").store.path

    def run(line: list[str]) -> None:
        subprocess.run(line, check=True, env=environ, stdout=subprocess.DEVNULL)

    return median(
        {
            "inbox send --json": lambda _: run(words),
            "bare script": lambda number: run([sys.executable, "-c", SCRIPT, path, f"c{number}", BODY]),
        },
        COLD_ROUNDS,
    )


def flats(folder: Path, count: int) -> dict[str, float]:
    """Measure fetch, claim and show among `count` threads."""
    home = Home.make(folder / str(count))
    store = CoordinationStore(str(home.path))
    store.latest_event()
    connection = plain(store.path)
    connection.execute("PRAGMA synchronous = OFF")
    for number in range(count):
        bare(connection, number)
    work = ThreadWork(store, "builder", environ={})
    threads = reading.fetch(store, "builder", limit=60)
    return median(
        {
            "fetch": lambda _: reading.fetch(store, "builder"),
            "show": lambda number: reading.messages_of(store, threads[number].thread_id),
            "claim": lambda number: work.claim(threads[number].thread_id),
        },
        50,
    )


def searches(folder: Path, count: int) -> dict[str, float]:
    """Measure search among `count` messages: a word that stands in all, in some, in one."""
    store = CoordinationStore(str(Home.make(folder / "search").path))
    thread = sending.send(store, NewMessage("lead", ("builder",), summary="first")).thread_id
    connection = plain(store.path)
    connection.execute("PRAGMA synchronous = OFF")
    for start in range(0, count, 10_000):
        connection.execute("BEGIN IMMEDIATE")
        seq = connection.execute("SELECT max(event_id) FROM events").fetchone()[0]
        for number in range(start, min(start + 10_000, count)):
            seq += 1
            body = f"message {number} of many, group{number % 1000}"
            connection.execute(MESSAGE, (f"s{number}", 1, thread, "word", body, "x"))
            connection.execute(WORDS, (seq, "word", body))
        connection.execute("COMMIT")
    words = {
        "in all": "word",
        "in each thousandth": "group7",
        "in one": f"{count // 2}",
        "two": "many group9",
    }
    return median({name: partial(_search, store, text) for name, text in words.items()}, 30)


def _search(store: CoordinationStore, words: str, _: int) -> object:
    return reading.search(store, words)


def main() -> int:
    """Measure, print, write; return 1 where a target was missed."""
    numbers = [int(word) for word in sys.argv[1:]]
    rounds, messages = [*numbers, *(ROUNDS, MESSAGES)[len(numbers) :]]
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        home = Home.make(folder / "home")
        send, cold = sends(home, rounds), colds(home)
        few, many = flats(folder, FEW), flats(folder, MANY)
        search = searches(folder, messages)
    ratios = {
        "send": send["bare sqlite3"] / send["send through Home.inbox"],
        "cold": cold["inbox send --json"] / cold["bare script"],
        "flat": max(many[one] / few[one] for one in few),
        "search_ms": max(search.values()),
    }
    for title, part in (("send", send), ("cold", cold), (f"{FEW} threads", few), (f"{MANY} threads", many),
                        (f"search among {messages}", search)):  # fmt: skip
        print(f"{title}: " + ", ".join(f"{one} {value:.2f} ms" for one, value in part.items()))
    met = {
        "send": ratios["send"] >= TARGETS["send"],
        **{name: ratios[name] <= TARGETS[name] for name in ("cold", "flat", "search_ms")},
    }
    for name, value in ratios.items():
        print(f"{name}: {value:.2f} (target {TARGETS[name]}) {'ok' if met[name] else 'MISSED'}")
    body = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "load": os.getloadavg()[0],
        "rounds": rounds,
        "send": send,
        "cold": cold,
        "threads": {str(FEW): few, str(MANY): many},
        "search": {"messages": messages, **search},
        "ratios": ratios,
        "targets": TARGETS,
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
