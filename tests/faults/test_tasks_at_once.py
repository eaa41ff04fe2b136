"""Eight processes add tasks to a run, others work on it and are killed: none is lost or doubled.

Sixty tasks a process with JOBWIRE_FAULTS=long, else a few.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from jobwire.coordination.marks import catch_up
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.registry.store import RecordStore
from jobwire.testing.waiting import wait_for

LONG = os.environ.get("JOBWIRE_FAULTS") == "long"
ADDS = 60 if LONG else 10
PROCESSES = 8
BEGIN = """
import json, sys
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.errors import ConflictError, NoWorkError
home, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
tasks = Tasks(CoordinationStore(home), name)
"""
ADDER = """
ids = [tasks.add(NewTask(f"{name} {number}")).view.task.task_id for number in range(count)]
print(json.dumps(ids))
"""
# Works on what is ready until it is told to stop; what it held when it was killed is its own again.
WORKER = """
import os, time
while not os.path.exists(home + "/over"):
    try:
        found = tasks.claim_next()
    except (NoWorkError, ConflictError):
        held = [one for one in tasks.graph() if one.task.worker == name and one.task.status == "in_progress"]
        if not held:
            time.sleep(0.01)
            continue
        found = tasks.claim(held[0].task.task_id)
    try:
        tasks.complete(found.task.task_id, NewMessage(name, kind="result", summary="done"))
    except ConflictError:
        pass
"""


def start(home: Path, text: str, name: str, count: int = 0) -> "subprocess.Popen[str]":
    """Start a process of the test."""
    words = [sys.executable, "-c", BEGIN + text, str(home), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def completed(tasks: Tasks) -> int:
    """Return how many tasks are completed."""
    return sum(one.task.status == "completed" for one in tasks.graph())


def wait_for_one_more(tasks: Tasks) -> None:
    """Wait until another task is completed."""
    before = completed(tasks)
    wait_for(lambda: completed(tasks) > before, deadline_seconds=300)


def test_eight_processes_add_and_nothing_is_lost(tmp_path: Path) -> None:
    """Row 30: as many tasks as adds, each with an id of its own."""
    CoordinationStore(str(tmp_path)).latest_event()
    running = [start(tmp_path, ADDER, f"p{number}", ADDS) for number in range(PROCESSES)]
    added = [one for process in running for one in json.loads(process.communicate(timeout=300)[0])]
    assert len(set(added)) == len(added) == PROCESSES * ADDS
    graph = Tasks(CoordinationStore(str(tmp_path)), "lead").graph()
    assert sorted(one.task.task_id for one in graph) == sorted(added)
    assert [one.task.number for one in graph] == list(range(1, PROCESSES * ADDS + 1))


def test_workers_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """Row 30: layers of tasks, each waiting for all of the layer before; workers die and come back."""
    store = CoordinationStore(str(tmp_path))
    width, depth = (6, 6) if LONG else (3, 3)
    layers = [[f"t{row}-{column}" for column in range(width)] for row in range(depth)]
    news = [
        NewTask(name, name, needs=tuple(layers[row - 1]) if row else (), owner="")
        for row, layer in enumerate(layers)
        for name in layer
    ]
    lead = Tasks(store, "lead")
    lead.add_all(news)
    workers = {f"w{number}": start(tmp_path, WORKER, f"w{number}") for number in range(3)}
    try:
        for name in ("w0", "w1", "w0") if LONG else ("w0",):
            wait_for_one_more(lead)
            workers[name].send_signal(signal.SIGKILL)
            workers[name].communicate()
            workers[name] = start(tmp_path, WORKER, name)
        wait_for(lambda: completed(lead) == len(news), deadline_seconds=300)
    finally:
        (tmp_path / "over").touch()
        ended = [process.wait(60) for process in workers.values()]
        for process in workers.values():
            process.communicate()
    assert ended == [0] * len(workers)
    catch_up(store)
    rows = store.rows("messages_after", {"after": 0, "limit": -1})
    asked = [one.task_id for one in map(InboxMessage._make, rows) if one.kind == "task"]
    assert sorted(map(str, asked)) == sorted(new.task_id for new in news)
    jobs = [job for one in lead.graph() for job in one.jobs]
    assert len(jobs) == len(set(jobs)) == len(news) == len(list(RecordStore(str(tmp_path)).job_ids()))
