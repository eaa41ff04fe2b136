"""Tasks: whether the size of a plan costs anything, and what a completion that unlocks many takes.

Flat: claiming and completing among 100 and among 100,000 tasks. Unlock: the completion that makes 1,000
dependants ready. Then 1,000 tasks that do nothing, in a chain and in a fan: tasks a second.

    python bench/tasks_bench.py [ROUNDS] [MANY]
"""

import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from jobwire import Home
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "tasks.json"
ROUNDS, FEW, MANY = 40, 100, 100_000
UNLOCKED, IDLE = 1000, 1000
TARGETS = {"flat": 1.3, "unlock_s": 1.0}
AT_ONCE = 20_000


def tasks_in(folder: Path, name: str) -> Tasks:
    """Return the tasks of a home of its own."""
    home = Home.make(folder / name)
    return Tasks(CoordinationStore(str(home.path)), "builder", environ={})


def timed(act: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def done(tasks: Tasks, task_id: str) -> object:
    """Complete a task."""
    return tasks.complete(task_id, NewMessage("builder", kind="result", summary="done"))


def filled(folder: Path, count: int) -> Tasks:
    """Return a plan of so many tasks, of which every tenth waits for the one before."""
    tasks = tasks_in(folder, f"flat{count}")
    news = [
        NewTask(
            f"task {number}",
            f"n{number}",
            owner="builder",
            needs=(f"n{number - 1}",) if number % 10 == 9 else (),
        )
        for number in range(count)
    ]
    for first in range(0, count, AT_ONCE):
        tasks.add_all(news[first : first + AT_ONCE])
    return tasks


def flat(folder: Path, rounds: int, many: int) -> dict[str, dict[str, float]]:
    """Measure claim and complete among few and many, in turns."""
    plans = {FEW: filled(folder, FEW), many: filled(folder, many)}
    found: dict[int, dict[str, list[float]]] = {count: {} for count in plans}
    for number in range(min(rounds, FEW * 9 // 10 - 2)):
        task_id = f"n{number + number // 9}"
        for count, tasks in plans.items():
            acts = (
                ("claim", partial(tasks.claim, task_id)),
                ("complete", partial(done, tasks, task_id)),
                ("next", partial(tasks.ready, limit=1)),
            )
            for name, act in acts:
                found[count].setdefault(name, []).append(timed(act))
    return {
        name: {
            "few_ms": 1000 * statistics.median(found[FEW][name]),
            "many_ms": 1000 * statistics.median(found[many][name]),
            "ratio": statistics.median(found[many][name]) / statistics.median(found[FEW][name]),
        }
        for name in ("claim", "complete", "next")
    }


def unlock(folder: Path) -> float:
    """Return the seconds of the completion that makes many tasks ready."""
    tasks = tasks_in(folder, "unlock")
    first = NewTask("first", "first", owner="builder")
    tasks.add_all(
        [first, *(NewTask(f"t{n}", f"t{n}", owner="builder", needs=("first",)) for n in range(UNLOCKED))]
    )
    tasks.claim("first")
    seconds = timed(lambda: done(tasks, "first"))
    assert len(tasks.ready(limit=UNLOCKED + 1)) == UNLOCKED
    return seconds


def idle(folder: Path, shape: str) -> float:
    """Return how many tasks a second are claimed and completed."""
    tasks = tasks_in(folder, shape)
    names = [f"t{number}" for number in range(IDLE)]
    before = ["", *names] if shape == "chain" else ["", *[names[0]] * IDLE]
    tasks.add_all(
        [
            NewTask(name, name, owner="builder", needs=(need,) if need else ())
            for name, need in zip(names, before, strict=False)
        ]
    )

    def work() -> None:
        for name in names:
            tasks.claim(name)
            done(tasks, name)

    return IDLE / timed(work)


def main() -> int:
    """Measure, print and keep; 1 where a bound is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    many = int(sys.argv[2]) if len(sys.argv) > 2 else MANY
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        figures: dict[str, object] = {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "many": many,
            "unlock_s": unlock(place),
            "chain_per_s": idle(place, "chain"),
            "fan_per_s": idle(place, "fan"),
            "flat": flat(place, rounds, many),
        }
    print(json.dumps(figures, indent=2))
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    flats = figures["flat"]
    assert isinstance(flats, dict)
    good = (
        flats["claim"]["ratio"] <= TARGETS["flat"] and float(str(figures["unlock_s"])) <= TARGETS["unlock_s"]
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
