"""What an autopilot costs beside the bare command, and how many tasks it works off.

Overhead: N messages to one agent whose command is `true`, one after the other, beside N runs of `true` by the
same process. Chain: each task waits for the one before. Fan: one task, then all others at once, for eight
agents. Every task is a job: registered, claimed, started, its output kept, completed, its receipt sent.

    python bench/autopilot_bench.py [OVERHEAD] [TASKS]
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.registry.layout import HomeLayout

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "autopilot.json"
OVERHEAD, TASKS = 100, 1000
AGENTS = 8
TARGET_MS = 300.0


def new_home(folder: Path, name: str) -> CoordinationStore:
    """Return the store of a new home with a lead."""
    home = folder / name / ".hermes"
    HomeLayout(str(home)).make_layout()
    store = CoordinationStore(str(home))
    with store.changing() as change:
        agents.join(change, "lead", Joining(kind="lead"))
    return store


def fly(store: CoordinationStore, names: list[str]) -> float:
    """Run an autopilot until nothing is left; return the seconds that it took."""
    words = [sys.executable, "-m", "jobwire.cli.main", "--home", store.home, "autopilot"]
    begun = time.perf_counter()
    subprocess.run(
        [*words, "--agents", ",".join(names), "--until-idle", "--json", "--", "true"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun


def overhead(folder: Path, count: int) -> dict[str, float]:
    """Return milliseconds a task: of the bare command, and with the autopilot."""
    store = new_home(folder, "overhead")
    fly(store, ["agent"])  # its own start counts for itself
    idle = fly(store, ["agent"])
    for number in range(count):
        send(store, NewMessage("lead", ("agent",), kind="task", summary=f"task {number}"))
    flown = fly(store, ["agent"]) - idle
    begun = time.perf_counter()
    for _ in range(count):
        subprocess.run(["true"], check=True)
    bare = time.perf_counter() - begun
    return {"bare_ms": 1000 * bare / count, "autopilot_ms": 1000 * flown / count}


def plan_of(folder: Path, name: str, count: int) -> float:
    """Return tasks a second of a chain or a fan."""
    store = new_home(folder, name)
    owners = [f"agent{number}" for number in range(AGENTS)]
    plan = Tasks(store, "lead")
    plan.add_all(
        [
            NewTask(
                f"task {number}",
                task_id=f"t{number}",
                owner=owners[number % AGENTS],
                needs=() if not number else (f"t{number - 1}" if name == "chain" else "t0",),
            )
            for number in range(count)
        ]
    )
    seconds = fly(store, owners)
    ended = {str(view.task.status) for view in plan.graph()}
    if ended != {"completed"}:
        raise SystemExit(f"autopilot: a task of the {name} is {ended}")
    return count / seconds


def main() -> int:
    """Measure, print and keep; return 1 where the target is missed."""
    os.environ.pop("JOBWIRE_HOME", None)
    given = [int(word) for word in sys.argv[1:3]]
    few, many = (*given, OVERHEAD, TASKS)[:2] if len(given) != 1 else (given[0], TASKS)
    load = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, float] = overhead(Path(folder), few)
        found["overhead_ms"] = found["autopilot_ms"] - found["bare_ms"]
        for name in ("chain", "fan"):
            found[f"{name}_tasks_per_s"] = plan_of(Path(folder), name, many)
    print(f"bare command      {found['bare_ms']:8.1f} ms a task")
    print(f"with autopilot    {found['autopilot_ms']:8.1f} ms a task")
    print(f"overhead          {found['overhead_ms']:8.1f} ms a task (target {TARGET_MS:.0f})")
    print(f"chain of {many}     {found['chain_tasks_per_s']:8.1f} tasks/s")
    print(f"fan of {many}       {found['fan_tasks_per_s']:8.1f} tasks/s, {AGENTS} agents")
    body = {
        "what": "What an autopilot adds to a command that does nothing, and tasks/s of a chain and of a fan",
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load_at_the_beginning": load,
        "tasks": many,
        "agents": AGENTS,
        "target_ms": TARGET_MS,
        **{name: round(value, 2) for name, value in found.items()},
    }
    RESULTS.write_text(json.dumps(body, indent=1) + "\n")
    return int(found["overhead_ms"] > TARGET_MS)


if __name__ == "__main__":
    sys.exit(main())
