"""Sessions: from `jobwire submit` to the agent's first byte, the list and the reconcile of 200 panes.

Submit: a stand-in agent notes when the first byte of its instructions comes; each turn once into a new
session, once into the pane that is there, beside a registry process and without. A bare `tmux new-session` of
the same agent with `send-keys` is what it costs by hand. List and reconcile: 200 real panes.

    python bench/sessions_bench.py [ROUNDS] [PANES]
"""

import json
import os
import platform
import secrets
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jobwire.coordination.sessions.stored import SessionRow
from jobwire.runner.tmux import Tmux
from jobwire.sessions.known_agents import InstructionsBy, KnownAgent
from jobwire.sessions.listing import Sessions
from jobwire.sessions.opening import NewSession, Opener
from jobwire.sessions.reconciling import Reconciler
from jobwire.storage.process_life import life_of
from jobwire.testing import MosquittoServer

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "sessions.json"
ROUNDS, PANES = 10, 200
TARGETS = {"submit_ms": 1500.0, "submit_beside_serve_ms": 1000.0, "list_ms": 200.0, "reconcile_ms": 300.0}
AGENT = """\
import sys, time
sys.stdout.write("> "); sys.stdout.flush()
while line := sys.stdin.readline():
    with open(sys.argv[1], "a") as told:
        told.write(f"{time.time()}\\n")
    sys.stdout.write("> "); sys.stdout.flush()
"""


def first_byte(told: Path, seen: int, begin: float) -> float:
    """Wait until the agent has noted one time more; return the milliseconds since `begin`."""
    until = time.time() + 60
    while time.time() < until:
        times = told.read_text().split() if told.exists() else []
        if len(times) > seen:
            return (float(times[seen]) - begin) * 1000
        time.sleep(0.002)
    raise TimeoutError


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """Run the registry process for the block."""
    command = [str(Path(sys.executable).parent / "jobwire"), "--home", str(home), "serve", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        process.communicate()


def submits(home: Path, folder: Path, server: str, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of a submit into a new session, and into one that is there."""
    script = folder / "agent.py"
    script.write_text(AGENT)
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    samples: dict[str, list[float]] = {"a new session": [], "a pane that is there": [], "by hand": []}
    command = str(Path(sys.executable).parent / "jobwire")
    for _ in range(rounds + 1):
        name = f"s{secrets.token_hex(3)}"
        told = folder / name
        agent = shlex.join([sys.executable, str(script), str(told)])
        words = [command, "--home", str(home), "submit", "--agent-session", name, "--detach"]
        words += ["--tmux-socket", server]
        for kind, seen in (("a new session", 0), ("a pane that is there", 1)):
            begin = time.time()
            line = [*words, "--agent-command", agent, "--deliver", "line", "do it"]
            job = subprocess.run(line, env=environ, check=True, capture_output=True, text=True).stdout.strip()
            samples[kind].append(first_byte(told, seen, begin))
            done = [command, "--home", str(home), "publish", "--job", job, "--event", "completed"]
            subprocess.run(done, env=environ, check=True, capture_output=True)
            Reconciler(str(home)).run(name)
        begin = time.time()
        tmux = ["tmux", "-L", server]
        by_hand = f"{name}h"
        subprocess.run([*tmux, "new-session", "-d", "-s", by_hand, f"{agent}h"], check=True)
        subprocess.run([*tmux, "send-keys", "-t", by_hand, "do it", "Enter"], check=True)
        samples["by hand"].append(first_byte(folder / f"{name}h", 0, begin))
        subprocess.run([*tmux, "kill-session", "-t", by_hand], check=True)
    # The first turn compiles.
    return {kind: round(statistics.median(found[1:]), 1) for kind, found in samples.items()}


def timed(action: Callable[[], object], rounds: int) -> float:
    """Return the median milliseconds of an action."""
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter()
        action()
        samples.append((time.perf_counter() - begin) * 1000)
    return round(statistics.median(samples), 1)


def crowd(home: Path, folder: Path, server: str, panes: int) -> dict[str, float]:
    """Measure the list and the reconcile of many panes, and one bare `tmux list-panes`."""
    new = NewSession("first", KnownAgent("cat", InstructionsBy.LINE, ""), ["cat"], str(folder), socket=server)
    opener = Opener(str(home))
    first = opener.create(new)
    tmux = Tmux(socket=server)
    for number in range(1, panes):
        pane = tmux.open_window(f"crowd{number % 20}", "cat", ["cat"], directory=folder)
        row = first._replace(name=f"crowd{number}", pane=pane.pane, pid=pane.pid, life=life_of(pane.pid))
        opener.inventory.begin(SessionRow(*row))
    sessions, reconciler = Sessions(str(home)), Reconciler(str(home))
    assert sum(view.alive for view in sessions.list()) >= panes
    assert reconciler.run() == []
    command = [str(Path(sys.executable).parent / "jobwire"), "--home", str(home), "sessions", "list"]
    environ = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    listing = ["tmux", "-L", server, "list-panes", "-a"]
    return {
        "list": timed(sessions.list, 20),
        "list with 5 lines each": timed(lambda: sessions.list(lines=5), 5),
        "jobwire sessions list, from cold": timed(
            lambda: subprocess.run(command, env=environ, check=True, capture_output=True), 10
        ),
        "reconcile": timed(reconciler.run, 20),
        "bare tmux list-panes": timed(lambda: subprocess.run(listing, check=True, capture_output=True), 20),
    }


def main() -> int:
    """Measure, print and write; return 1 where a target is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    panes = int(sys.argv[2]) if len(sys.argv) > 2 else PANES
    name = f"jobwire-bench-{os.getpid()}"
    try:
        with MosquittoServer() as server, tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            alone = submits(server.home, folder, name, rounds)
            with serving(server.home):
                beside = submits(server.home, folder, name, rounds)
            subprocess.run(["tmux", "-L", name, "kill-server"], check=False, capture_output=True)
            Reconciler(str(server.home)).run()
            many = crowd(server.home, folder, name, panes)
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], check=False, capture_output=True)
    found = {
        "submit_ms": alone["a new session"],
        "submit_beside_serve_ms": beside["a new session"],
        "list_ms": many["list"],
        "reconcile_ms": many["reconcile"],
    }
    missed = [target for target, value in found.items() if value > TARGETS[target]]
    result = {
        "what": f"`jobwire submit` to the agent's first byte; {panes} panes listed, reconciled; medians, ms",
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": rounds,
        "missed": ", ".join(missed) or "none",
        "submit": {"without serve": alone, "beside serve": beside},
        "panes": many,
        "targets": TARGETS,
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
