"""A plan with dependencies, worked off by an autopilot, while anything is killed at seeded points.

Killed are the adders of the plan, the autopilot, its workers and commands, and `jobwire serve`.
At the end every task has its right state, every command ran at least once and at most once an
attempt, every unlock and every directive was sent once. Seeds are printed; JOBWIRE_FAULTS=long runs twenty.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.marks import catch_up
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.stored import TaskView
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.testing import MosquittoServer
from jobwire.testing.waiting import wait_for

LONG = os.environ.get("JOBWIRE_FAULTS") == "long"
SEEDS = range(20 if LONG else 2)
# A diamond, again and again: the last of one is what the next waits for.
DIAMONDS = 4 if LONG else 1
KILLS = 24 if LONG else 3
NAMES = ("builder", "tester")
ADD = """
import sys
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
tasks = Tasks(CoordinationStore(sys.argv[1]), "boss", environ={})
half, diamonds = int(sys.argv[2]), int(sys.argv[3])
more = {"max_attempts": 500, "retry_delays": (0.05,)}
for number in range(diamonds):
    before = (f"last{number - 1}",) if number else ()
    plan = {
        "first": ("builder", before),
        "left": ("builder", (f"first{number}",)),
        "right": ("tester", (f"first{number}",)),
        "last": ("tester", (f"left{number}", f"right{number}")),
    }
    # Two say the same plan, task by task: each is in it once.
    for name, (owner, needs) in plan.items():
        tasks.add(NewTask(f"do {name}{number}", f"{name}{number}", owner=owner, needs=needs, **more))
# One that never works: it fails for good, and stands in the way of what needs it.
tasks.add(NewTask("do broken", "broken", owner="tester", max_attempts=1))
tasks.add(NewTask("do after", "after", owner="builder", needs=("broken",)))
tasks.add(NewTask("do beside", "beside", owner="builder", needs=("broken",), on_failed_dependency="fail"))
"""
# The environment tells which attempt of which job; what a task is called stands in its message.
COMMAND = """
name=$(head -1 "$JOBWIRE_MESSAGE" | sed 's/^# do \\([a-z0-9]*\\).*/\\1/')
echo "$JOBWIRE_JOB.$JOBWIRE_ATTEMPT $name" >> ran
sleep 0.0$(($$ % 7))
test "$name" != broken || exit 1
echo "::bus-send{to=\\"reviewer\\" intent=\\"review\\" message=\\"see $name\\"}"
"""
PROGRAM = (sys.executable, "-m", "jobwire.cli.main")


class PlanStorm:
    """The processes of one round, and what may be killed of them."""

    def __init__(self, folder: Path, home: Path, seed: int) -> None:
        self.folder, self.home = folder, home
        self.chance = random.Random(seed)  # noqa: S311 - to be repeated
        self.store = CoordinationStore(str(home))
        self.tasks = Tasks(self.store, "boss", environ={})
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("JOBWIRE_")},
            "JOBWIRE_HOME": str(home),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        add = (sys.executable, "-c", ADD, str(home))
        # Killed before it has said anything, a command is tried again for as long as anybody kills.
        agents_of = (
            "--agents",
            ",".join(NAMES),
            "--max-tries",
            "500",
            "--retry-delays",
            "0.05",
            "--lease",
            "3",
        )
        self.lines: dict[str, tuple[str, ...]] = {
            "serve": (*PROGRAM, "serve"),
            "adder": (*add, "0", str(DIAMONDS)),
            "other adder": (*add, "1", str(DIAMONDS)),
            "autopilot": (*PROGRAM, "autopilot", *agents_of, "--", "sh", "-c", COMMAND),
        }
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def keep_up(self) -> None:
        """Start what does not run: the adders until they are through."""
        for name, words in self.lines.items():
            before = self.started.get(name)
            if before is None or (before.poll() is not None and before.returncode != 0):
                with (self.folder / "stderr").open("ab") as errors:
                    self.started[name] = subprocess.Popen(
                        words, cwd=self.folder, env=self.environ, stdout=subprocess.DEVNULL, stderr=errors
                    )

    def kill_one(self) -> None:
        """Kill one of the processes of this round, whichever it is."""
        found = [process.pid for process in self.started.values() if process.poll() is None]
        found += self.offspring()
        if found:
            _kill(self.chance.choice(sorted(found)))

    def offspring(self) -> list[int]:
        """Return workers and commands: what has this home in its environment and is nobody we started."""
        wanted = f"JOBWIRE_HOME={self.home}".encode()
        ours = {process.pid for process in self.started.values()} | {os.getpid()}
        pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
        return [pid for pid in pids if pid not in ours and wanted in _environment(pid)]

    def end(self) -> None:
        """End all that is left."""
        for process in self.started.values():
            process.kill()
            process.wait()
        for pid in self.offspring():
            _kill(pid)
        self.store.close()


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _wanted() -> dict[str, str]:
    names = [f"{name}{number}" for number in range(DIAMONDS) for name in ("first", "left", "right", "last")]
    return dict.fromkeys(names, "completed") | {"broken": "failed", "after": "pending", "beside": "failed"}


@pytest.mark.mosquitto
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_ends_right_whatever_is_killed(
    fresh_mosquitto: MosquittoServer, tmp_path: Path, seed: int
) -> None:
    """Each task has its state; each command ran, once an attempt; each unlock and directive was sent once."""
    storm = PlanStorm(tmp_path, Path(fresh_mosquitto.home), seed)
    try:
        with storm.store.changing() as change:
            agents.join(change, "boss", Joining(kind="lead", incarnation="1"))
            agents.join(change, "reviewer", Joining(incarnation="1"))
        for _ in range(KILLS):
            storm.keep_up()
            time.sleep(storm.chance.uniform(0.05, 0.7))
            storm.kill_one()

        def over() -> bool:
            storm.keep_up()
            catch_up(storm.store)
            return {one.task.task_id: str(one.task.status) for one in storm.tasks.graph()} == _wanted()

        wait_for(over, deadline_seconds=240, step_seconds=0.2, what=f"the end of seed {seed}")
        wait_for(
            lambda: all(storm.started[name].poll() == 0 for name in ("adder", "other adder")),
            what="the end of the adders",
        )
        _check(storm)
    finally:
        storm.end()


def _check(storm: PlanStorm) -> None:
    views = {one.task.task_id: one for one in storm.tasks.graph()}
    ran = [line.split() for line in (storm.folder / "ran").read_text().splitlines()]
    assert max(Counter(attempt for attempt, _ in ran).values()) == 1
    # Killed before it said anything, the one that never works has not run: it has failed all the same.
    finished = {name for name, view in views.items() if view.task.status == "completed"}
    assert finished <= {name for _, name in ran} <= finished | {"broken"}
    said = [InboxMessage(*row) for row in storm.store.rows("messages_after", {"after": 0, "limit": -1})]
    _check_unlocks(views, said)
    asked = Counter(one.summary for one in said if "reviewer" in one.to)
    assert asked == {f"see {name}": 1 for name in finished}
    assert all(views[name].task.reason for name in ("broken", "beside"))
    assert views["after"].task.stuck
    assert storm.store.rows("prepared_jobs") == []


def _check_unlocks(views: dict[str, TaskView], said: list[InboxMessage]) -> None:
    """Each task was sent once for each time it was given, and what waits in vain never."""
    sent = Counter(one.task_id for one in said if one.kind == "task" and one.thread_id[:1] == "t")
    assert sent == {name: view.task.rounds for name, view in views.items() if view.task.rounds}
    ids = Counter(one.id for one in said)
    for name, view in views.items():
        assert (view.task.rounds > 0) == (name not in {"after", "beside"})
        assert ids[f"k{view.task.thread_id[1:]}-1"] == min(view.task.rounds, 1)
        failed = sum(json.loads(one.payload or "{}")["task_id"] == name for one in said if _is_alert(one))
        assert failed == (name == "broken")


def _is_alert(one: InboxMessage) -> bool:
    return one.type == "alert" and "task_id" in json.loads(one.payload or "{}")
