"""What the page asks of the agents' store, with few threads and with many.

Each is what one request of an open page costs in the server: the store is opened, read and closed. The
first page of the list, one far behind, a conversation of 1,000 messages, agents, figures for Prometheus.

    python bench/conversations_bench.py [THREADS]
"""

import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from jobwire.api.home import Home
from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.store import CoordinationStore
from jobwire.core.clock import SystemClock
from jobwire.dashboard.coordination.agents import agent_rows
from jobwire.dashboard.coordination.conversation import conversation, found_page
from jobwire.dashboard.coordination.figures import store_figures
from jobwire.dashboard.coordination.looking import looking
from jobwire.dashboard.coordination.threads import ThreadQuery, thread_page

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "conversations.json"
FEW, MANY, LONG, ROUNDS = 100, 10_000, 1000, 30
AGENTS = 20
# Of the first page and of a conversation, which an open page asks for at each change.
MOST_RATIO, MOST_MS = 1.5, 50.0
INSERT = """
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, kind, thread_id, summary, body)
VALUES (?, ?, ?, ?, 'note', ?, ?, ?, ?)
"""


def fill(folder: Path, threads: int) -> Path:
    """Return a home with so many threads of two messages each, and one long one."""
    home = Path(str(Home.make(folder / f"home{threads}").path))
    store = CoordinationStore(str(home))
    with store.changing() as change:
        for number in range(AGENTS):
            agents.join(change, f"agent{number}", Joining())
    store.close()
    now = int(time.time() * 1000)
    with sqlite3.connect(home / "coordination.db") as link:
        link.execute("PRAGMA synchronous = OFF")
        rows = [(f"t{number % threads}", number) for number in range(2 * threads)]
        rows += [("long", 2 * threads + number) for number in range(LONG)]
        for thread, number in rows:
            sender, other = f"agent{number % AGENTS}", f"agent{(number + 1) % AGENTS}"
            said = (f"m{number}", now, sender, other, "event", thread, f"note {number}", "words " * 40)
            link.execute(INSERT, said)
        link.execute("UPDATE threads SET status = 'blocked' WHERE thread_id IN ('t1', 't2', 't3')")
    link.close()
    return home


def measure(home: Path, threads: int) -> dict[str, float]:
    """Return milliseconds by what is asked for, each the median of ROUNDS."""
    clock = SystemClock()

    def look(ask: Callable[[CoordinationStore], object]) -> Callable[[], object]:
        def once() -> object:
            with looking(home) as store:
                assert store is not None
                return ask(store)

        return once

    behind = ThreadQuery(below=threads)
    questions = {
        "first page": look(lambda store: thread_page(store, ThreadQuery(), me="agent1")),
        "page far behind": look(lambda store: thread_page(store, behind, me="agent1")),
        "blocked only": look(lambda store: thread_page(store, ThreadQuery("blocked"), me="agent1")),
        "conversation": look(lambda store: conversation(store, "long", me="agent1")),
        "search": look(lambda store: found_page(store, "note", None)),
        "agents": look(lambda store: agent_rows(store, clock.now())),
        "figures": lambda: store_figures(home, clock),
    }
    return {name: median(question) for name, question in questions.items()}


def median(question: Callable[[], object]) -> float:
    """Return its milliseconds of processor time."""
    question()
    times = []
    for _ in range(ROUNDS):
        # Of the processor: nothing is waited for, and on a shared machine the clock measures the neighbours.
        begun = time.process_time()
        question()
        times.append((time.process_time() - begun) * 1000)
    return statistics.median(times)


def main() -> int:
    """Measure, print, write; return 1 where a target was missed."""
    many = int(sys.argv[1]) if sys.argv[1:] else MANY
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        measured = {str(count): measure(fill(Path(name), count), count) for count in (FEW, many)}
    few, most = measured[str(FEW)], measured[str(many)]
    ratios = {one: most[one] / few[one] for one in few}
    for count, part in measured.items():
        print(f"{count} threads: " + ", ".join(f"{one} {value:.2f} ms" for one, value in part.items()))
    asked_often = ("first page", "conversation")
    met = all(ratios[one] <= MOST_RATIO for one in asked_often) and max(most.values()) <= MOST_MS
    print("ratios: " + ", ".join(f"{one} {value:.2f}" for one, value in ratios.items()))
    targets = f"{MOST_RATIO} for {' and '.join(asked_often)}, {MOST_MS:g} ms for all"
    print(f"targets: {targets}: {'ok' if met else 'MISSED'}")
    body = {
        "what": "What one request of an open page costs in the server: ms of processor time, by threads",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": ROUNDS,
        "threads": measured,
        "ratios": ratios,
        "targets": {"ratio": MOST_RATIO, "ms": MOST_MS},
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
