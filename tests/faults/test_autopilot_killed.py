"""Autopilot, workers, commands, senders and the process that keeps house, killed at random points of a plan.

At the end every message was handled, each attempt of a job ran its command once at most, each directive was
sent once, and nothing is dead without a reason. Seeds are printed; JOBWIRE_FAULTS=long runs twenty of them.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from jobwire.coordination import agents, reading, taking
from jobwire.coordination.agents import Joining
from jobwire.coordination.store import CoordinationStore
from jobwire.registry.layout import HomeLayout
from jobwire.testing.waiting import wait_for

LONG = os.environ.get("JOBWIRE_FAULTS") == "long"
SEEDS = range(20 if LONG else 2)
MESSAGES = 16 if LONG else 4
KILLS = 24 if LONG else 4
NAMES = ("builder", "tester")
# Killed before it has said anything, a command is tried again for as long as anybody kills.
OPTIONS = ("--max-tries", "500", "--retry-delays", "0.05", "--lease", "3")
AUTOPILOT = (sys.executable, "-m", "jobwire.cli.main", "autopilot", "--agents", ",".join(NAMES), *OPTIONS)
COMMAND = """
echo "$JOBWIRE_JOB.$JOBWIRE_ATTEMPT $JOBWIRE_THREAD" >> ran
number=$(head -1 "$JOBWIRE_MESSAGE" | tr -dc 0-9)
sleep 0.0$((number % 7))
test $((number % 3)) -ne 0 -o -e "tried$number" || { touch "tried$number"; exit 1; }
echo "::bus-send{to=\\"reviewer\\" intent=\\"review\\" message=\\"see $number\\"}"
"""
SENDER = """
import sys
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
store = CoordinationStore(sys.argv[1])
for number in range(int(sys.argv[2])):
    to = ("builder", "tester")[number % 2]
    send(store, NewMessage("boss", (to,), kind="task", id=f"plan-{number}", summary=f"do {number}"))
"""
# What the registry process does for threads; it needs no broker for that.
KEEPER = """
import sys, time
from jobwire.coordination.companions import Housekeeping
from jobwire.core.clock import SystemClock
keeper = Housekeeping(sys.argv[1], SystemClock())
while True:
    keeper.step()
    time.sleep(0.02)
"""


class Storm:
    """The processes of one round, and what may be killed of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.home = folder / ".hermes"
        self.chance = random.Random(seed)  # noqa: S311 - to be repeated
        HomeLayout(str(self.home)).make_layout()
        self.store = CoordinationStore(str(self.home))
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("JOBWIRE_")},
            "JOBWIRE_HOME": str(self.home),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def keep_up(self) -> None:
        """Start what does not run: the senders until they are through."""
        for name, words in (
            ("sender", (sys.executable, "-c", SENDER, str(self.home), str(MESSAGES))),
            ("keeper", (sys.executable, "-c", KEEPER, str(self.home))),
            ("autopilot", (*AUTOPILOT, "--", "sh", "-c", COMMAND)),
        ):
            before = self.started.get(name)
            if before is None or (before.poll() is not None and before.returncode != 0):
                self.started[name] = self.start(words)

    def start(self, words: tuple[str, ...]) -> "subprocess.Popen[bytes]":
        """Start a process of the round, quietly."""
        with (self.folder / "stderr").open("ab") as errors:
            return subprocess.Popen(
                words, cwd=self.folder, env=self.environ, stdout=subprocess.DEVNULL, stderr=errors
            )

    def kill_one(self) -> None:
        """Kill one of the processes of this round, whichever it is."""
        found = {process.pid: name for name, process in self.started.items() if process.poll() is None}
        found |= dict.fromkeys(self.offspring(), "worker or command")
        if not found:
            return
        try:
            os.kill(self.chance.choice(sorted(found)), signal.SIGKILL)
        except ProcessLookupError:
            return

    def offspring(self) -> list[int]:
        """Return workers and commands: what has this home in its environment and is nobody we started."""
        wanted = f"JOBWIRE_HOME={self.home}".encode()
        ours = {process.pid for process in self.started.values()} | {os.getpid()}
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) not in ours and wanted in _environment(entry)
        ]

    def end(self) -> None:
        """End all that is left."""
        for process in self.started.values():
            process.kill()
            process.wait()
        for pid in self.offspring():
            os.kill(pid, signal.SIGKILL)
        self.store.close()


def _environment(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_nothing_twice(tmp_path: Path, seed: int) -> None:
    """Whatever is killed when: all is handled, no attempt ran twice, each directive was sent once."""
    storm = Storm(tmp_path, seed)
    try:
        with storm.store.changing() as change:
            agents.join(change, "boss", Joining(kind="lead", incarnation="1"))
            agents.join(change, "reviewer", Joining(incarnation="1"))
        for _ in range(KILLS):
            storm.keep_up()
            time.sleep(storm.chance.uniform(0.05, 1.0))
            storm.kill_one()

        def over() -> bool:
            storm.keep_up()
            return _all_done(storm.store)

        wait_for(over, deadline_seconds=240, step_seconds=0.2, what=f"the end of seed {seed}")
        _check(storm)
    finally:
        storm.end()


def _all_done(store: CoordinationStore) -> bool:
    found = [store.rows("message", {"id": f"plan-{number}"}) for number in range(MESSAGES)]
    return all(rows and reading.thread_of(store, rows[0][10]).status == "done" for rows in found) and not any(
        taking.may_take(store, name) for name in NAMES
    )


def _check(storm: Storm) -> None:
    ran = [line.split() for line in (storm.folder / "ran").read_text().splitlines()]
    assert max(Counter(attempt for attempt, _ in ran).values()) == 1
    threads = {reading.message_of(storm.store, f"plan-{number}").thread_id for number in range(MESSAGES)}
    assert {thread for _, thread in ran} == threads
    asked = Counter(
        reading.message_of(storm.store, row[1]).summary
        for row in storm.store.rows(
            "open_deliveries", {"agent_id": "reviewer", "through": 2**62, "limit": 10_000}
        )
    )
    assert asked == {f"see {number}": 1 for number in range(MESSAGES)}
    for thread in threads:
        kinds = [one.kind for one in reading.messages_of(storm.store, thread)]
        assert kinds.count("task") == 1
    assert all(one.delivery.last_error for one in taking.dead_of(storm.store))
    assert storm.store.rows("prepared_jobs") == []
