"""Waiting for messages: how soon a waiter is woken, what a hundred of them cost while nothing happens.

A waiter is a process of its own. Woken: from the call of `send`, its flush included, to the waiter's having
read the message; on this host, and elsewhere through a Mosquitto and `jobwire serve`. Idle: processor time of
100 waiters in 20 processes, of one core. Answered: from the click on the page to the end of `jobwire ask`.

    python bench/inbox_waiting_bench.py [ROUNDS] [SECONDS]
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
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jobwire import Home
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.jobs.requests import open_requests
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "inbox_waiting.json"
ROUNDS, SECONDS = 200, 20.0
WARM_UP = 5
PROCESSES, THREADS = 20, 5
GAP_SECONDS = 0.03
# Milliseconds, and hundredths of a core.
TARGETS = {"p50": 5.0, "p99": 30.0, "remote_p99": 150.0, "answer_p99": 300.0, "idle_percent": 2.0}

LOCAL = """
import sys, time
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.waiting import wait_reply
store, thread, after = CoordinationStore(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
while True:
    waited = wait_reply(store, agent="worker", thread_id=thread, seconds=600, after=after)
    after = waited.next_event_id
    print(after, time.monotonic_ns(), flush=True)
"""
# What the system itself takes: one row in a transaction of `sqlite3`, a touched file, and who watches that.
BARE = """
import os, sqlite3, sys, time
from inotify_simple import INotify
connection, events, seen = sqlite3.connect(sys.argv[1] + "/bare.db"), INotify(), 0
events.add_watch(sys.argv[1] + "/bare.touched", 4)
print("ready", flush=True)
while True:
    events.read()
    last = connection.execute("SELECT max(number) FROM said").fetchone()[0] or 0
    if last > seen:
        seen = last
        print(seen, time.monotonic_ns(), flush=True)
"""
REMOTE = """
import sys, time
from jobwire.coordination.remote_agent import RemoteAgent
agent, thread, after = RemoteAgent(sys.argv[1]), sys.argv[2], int(sys.argv[3])
agent.call("agents", {})
print("ready", flush=True)
while True:
    found = agent.wait("wait-reply", {"thread_id": thread, "after": after}, 600)
    after = found["next_event_id"]
    print(after, time.monotonic_ns(), flush=True)
"""
IDLE = """
import sys, threading
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.waiting import wait_reply
store = CoordinationStore(sys.argv[1])
wait = lambda: wait_reply(store, agent="worker", thread_id=sys.argv[2], seconds=600, after=int(sys.argv[3]))
threads = [threading.Thread(target=wait, daemon=True) for _ in range(int(sys.argv[4]))]
for thread in threads:
    thread.start()
print("ready", flush=True)
threads[0].join()
"""


@contextmanager
def waiter(script: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a waiter that is ready."""
    process = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def latencies(rounds: int, answer: Callable[[], int], process: "subprocess.Popen[str]") -> dict[str, float]:
    """Return how long each answer took to arrive, in milliseconds."""
    found: list[float] = []
    assert process.stdout is not None
    for _ in range(WARM_UP + rounds):
        time.sleep(GAP_SECONDS)
        begun = time.monotonic_ns()
        event_id = answer()
        seen, at = 0, 0
        while seen < event_id:
            seen, at = map(int, process.stdout.readline().split())
        found.append((at - begun) / 1e6)
    # A process that waits for the first time loads what it needs for that meanwhile.
    cuts = statistics.quantiles(found[WARM_UP:], n=100)
    return {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2), "p99": round(cuts[98], 2)}


def question(store: CoordinationStore) -> tuple[str, int]:
    """Ask, and return the thread and the event of the question."""
    asked = send(store, NewMessage("worker", ("lead",), "question", summary="which port?"))
    return asked.thread_id, asked.event_id


def answering(store: CoordinationStore, thread_id: str) -> Callable[[], int]:
    """Return what answers once more."""
    new = NewMessage("lead", ("worker",), "answer", summary="8883", thread_id=thread_id)
    return lambda: send(store, new).event_id


def bare(home: str, rounds: int) -> dict[str, float]:
    """Return the latencies of the least that a flushed row and a file event take."""
    connection = sqlite3.connect(f"{home}/bare.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
        connection.execute(statement)
    connection.execute("CREATE TABLE said (number INTEGER PRIMARY KEY, body TEXT)")
    touched = Path(home, "bare.touched")
    touched.touch()

    def answer() -> int:
        number = connection.execute("INSERT INTO said (body) VALUES ('8883')").lastrowid
        os.utime(touched)
        return number or 0

    with waiter(BARE, home) as process:
        found = latencies(rounds, answer, process)
    connection.close()
    return found


def processor_seconds(pids: list[int]) -> float:
    """Return what the processes have used so far (proc(5): utime and stime)."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def idle(home: str, thread_id: str, after: int, seconds: float) -> float:
    """Return hundredths of a core that the waiters take while nothing happens."""
    words = (home, thread_id, str(after), str(THREADS))
    waiters = [waiter(IDLE, *words) for _ in range(PROCESSES)]
    processes = [one.__enter__() for one in waiters]
    try:
        time.sleep(10)
        pids = [process.pid for process in processes]
        before, begun = processor_seconds(pids), time.monotonic()
        time.sleep(seconds)
        return round((processor_seconds(pids) - before) / (time.monotonic() - begun) * 100, 2)
    finally:
        for one in waiters:
            one.__exit__(None, None, None)


def remote(rounds: int) -> dict[str, float]:
    """Return the latencies of a waiter that has a ticket alone."""
    with MosquittoServer() as server, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jobwire.cli.main"]
        ticket = str(Path(folder) / "worker.ticket")
        written = [*command, "agent", "ticket", "worker", "--out", ticket, "--home", str(server.home)]
        subprocess.run(written, check=True, capture_output=True)
        serve = subprocess.Popen(
            [*command, "serve", "--home", str(server.home), "--json"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert serve.stdout is not None
            serve.stdout.readline()
            store = CoordinationStore(str(server.home))
            thread_id, after = question(store)
            with waiter(REMOTE, ticket, thread_id, str(after)) as process:
                return latencies(rounds, answering(store, thread_id), process)
        finally:
            serve.terminate()
            serve.communicate()


def answers(rounds: int) -> dict[str, float]:
    """Return how long `jobwire ask` runs on after the page was told the answer, in milliseconds."""
    command = [sys.executable, "-m", "jobwire.cli.main"]
    with tempfile.TemporaryDirectory() as folder:
        home = str(Home.make(Path(folder) / ".hermes").path)
        store = CoordinationStore(home)
        asked = send(store, NewMessage("lead", ("worker",), "task", summary="fix it"))
        job = ThreadWork(store, "worker", environ={}).claim(asked.thread_id, 3600.0).token.job_id
        line = [*command, "dashboard", "--home", home, "--port", "0", "--allow-actions", "--json"]
        page = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        try:
            assert page.stdout is not None
            page.stdout.readline()
            opened = json.loads(next(Path(home, "dashboard").glob("*.json")).read_text())
            found = [_answered(home, job, f"q{number}", opened) for number in range(rounds)]
        finally:
            page.terminate()
            page.communicate()
    cuts = statistics.quantiles(found, n=100)
    return {"p50": round(cuts[49], 2), "p95": round(cuts[94], 2), "p99": round(cuts[98], 2)}


def _answered(home: str, job: str, request: str, opened: dict[str, str]) -> float:
    url = opened["url"].split("/?")[0].rstrip("/")
    line = [sys.executable, "-m", "jobwire.cli.main", "ask", "push?", "--home", home, "--job", job]
    asker = subprocess.Popen([*line, "--request", request], stdout=subprocess.DEVNULL)
    records = RecordStore(home)
    while not any(one.id == request for one in open_requests(records.get(job).requests)):
        time.sleep(0.01)
    time.sleep(0.2)  # it sleeps by now
    body = json.dumps({"request": request, "text": "yes"}).encode()
    head = {"Authorization": f"Bearer {opened['token']}", "Origin": url, "Content-Type": "application/json"}
    begun = time.monotonic()
    pressed = urllib.request.Request(f"{url}/api/jobs/{job}/answer", body, head)  # noqa: S310 - our own page
    with urllib.request.urlopen(pressed) as said:  # noqa: S310 - as above
        assert said.status == 200
    assert asker.wait(60) == 0
    return (time.monotonic() - begun) * 1000


def main() -> int:
    """Measure, print and write; return 1 where a target is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    with tempfile.TemporaryDirectory() as home:
        store = CoordinationStore(home)
        thread_id, after = question(store)
        with waiter(LOCAL, home, thread_id, str(after)) as process:
            here = latencies(rounds, answering(store, thread_id), process)
        floor = bare(home, rounds)
        busy = idle(home, thread_id, store.latest_event(), seconds)
    elsewhere = remote(max(20, rounds // 2))
    asked = answers(max(20, rounds // 4))
    missed = [
        name
        for name, value in (
            ("p50", here["p50"]),
            ("p99", here["p99"]),
            ("remote_p99", elsewhere["p99"]),
            ("answer_p99", asked["p99"]),
            ("idle_percent", busy),
        )
        if value > TARGETS[name]
    ]
    result = {
        "what": "From `send` to a waiter that has read the message, in ms; 100 idle waiters, in % of a core",
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load": os.getloadavg()[0],
        "rounds": rounds,
        "idle_percent": busy,
        "missed": ", ".join(missed) or "none",
        "woken_ms": {
            "bare sqlite3 and inotify": floor,
            "on this host": here,
            "on another, over MQTT": elsewhere,
            "answer on the page, jobwire ask has ended": asked,
        },
        "targets": TARGETS,
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
