"""What a hook costs an agent, and how soon a person sees its question and it has the answer.

The agent stands still while its hook runs. Cost: whole processes in turns, beside a bare Python, with the
registry process running and without. Asked: from the start of a PermissionRequest hook to the page's stream
that tells of it; answered: from the click to the hook's end, its decision printed. Told: a message that was
sent is in what the agent's next hook prints.

    python bench/agents_bench.py [ROUNDS]
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.delivery.call import SOCKET_FILE
from jobwire.hooks.injection import hook_words
from jobwire.jobs.requests import open_requests
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.waiting import wait_for

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "agents.json"
ROUNDS, WARM_UP = 60, 5
# Milliseconds.
TARGETS = {"hook_p50": 50.0, "asked_p99": 150.0, "answered_p99": 300.0}
TOOL: dict[str, object] = {
    "session_id": "c",
    "cwd": "/",
    "tool_name": "Bash",
    "tool_input": {"command": "make"},
}
EDIT: dict[str, object] = {**TOOL, "tool_name": "Edit", "tool_input": {"file_path": "a.py"}}
AFTER = {"hook_event_name": "PostToolUse", **TOOL}
BEFORE = {"hook_event_name": "PreToolUse", **EDIT}
HOOK = hook_words("claude")
TURN = "a tool ran"


def run_hook(words: list[str], body: dict[str, object], environ: dict[str, str]) -> tuple[float, str]:
    """Run it once; return milliseconds, and what it printed."""
    begun = time.perf_counter()
    done = subprocess.run(
        words, input=json.dumps(body), env=environ, check=True, capture_output=True, text=True
    )
    return (time.perf_counter() - begun) * 1000, done.stdout


def figures(samples: list[float]) -> dict[str, float]:
    """Return median and 99th percentile, in milliseconds."""
    cuts = statistics.quantiles(samples, n=100)
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def costs(bare: dict[str, str], inside: dict[str, str], rounds: int) -> dict[str, dict[str, float]]:
    """Run all kinds in turn, so that the machine's moods meet each."""
    kinds = {
        "bare Python": ([sys.executable, "-P", "-c", "pass"], AFTER, bare),
        "outside of a job": (HOOK, AFTER, bare),
        TURN: (HOOK, AFTER, inside),
        "an edit": (HOOK, BEFORE, inside),
        "an edit, as an agent with a name": (HOOK, BEFORE, {**inside, "JOBWIRE_AGENT": "builder"}),
    }
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + WARM_UP):
        for name, what in kinds.items():
            taken, _ = run_hook(*what)
            if number >= WARM_UP:
                samples[name].append(taken)
    return {name: figures(taken) for name, taken in samples.items()}


class Feed:
    """What the page's stream of the fleet has told so far, each line with its time."""

    def __init__(self, page: DashboardProcess) -> None:
        head = {"Authorization": page.authorization}
        asked = urllib.request.Request(f"{page.url}api/stream", headers=head)  # noqa: S310 - our own page
        self._stream = urllib.request.urlopen(asked)  # noqa: S310 - as above
        self._lines: list[tuple[float, bytes]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            self._lines.append((time.perf_counter(), line))

    def told(self, text: str) -> float:
        """Wait until a line has `text`, and return when it came."""
        place = 0
        while True:
            for at, line in self._lines[place:]:
                place += 1
                if text.encode() in line:
                    return at
            time.sleep(0.0005)


def asked(
    page: DashboardProcess, home: Path, inside: dict[str, str], rounds: int
) -> dict[str, dict[str, float]]:
    """Ask and answer again and again; return how long each way took."""
    job_id, records, feed = inside["JOBWIRE_JOB"], RecordStore(home), Feed(page)
    shown: list[float] = []
    given: list[float] = []
    for number in range(WARM_UP + rounds):
        command = f"touch file{number:04}"
        body = {"hook_event_name": "PermissionRequest", **TOOL, "tool_input": {"command": command}}
        begun = time.perf_counter()
        hook = subprocess.Popen(HOOK, env=inside, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(body))
        hook.stdin.close()
        shown.append((feed.told(command) - begun) * 1000)
        (request,) = [one.id for one in open_requests(records.get(job_id).requests)]
        time.sleep(0.1)  # it sleeps by now
        clicked = time.perf_counter()
        press(page, job_id, request)
        assert hook.stdout is not None
        assert '"allow"' in hook.stdout.read()
        assert hook.wait(60) == 0
        given.append((time.perf_counter() - clicked) * 1000)
    return {
        "asked, on the page": figures(shown[WARM_UP:]),
        "answered, the agent goes on": figures(given[WARM_UP:]),
    }


def press(page: DashboardProcess, job_id: str, request: str) -> None:
    """Allow it, as the button on the page does."""
    body = json.dumps({"request": request, "text": "allow"}).encode()
    origin = page.url.rstrip("/")
    head = {"Authorization": page.authorization, "Origin": origin, "Content-Type": "application/json"}
    click = urllib.request.Request(f"{origin}/api/jobs/{job_id}/answer", body, head)  # noqa: S310 - our own page
    with urllib.request.urlopen(click) as said:  # noqa: S310 - as above
        assert said.status == 200


def told(home: Path, inside: dict[str, str], rounds: int) -> int:
    """Return how many messages were in what the agent's next hook printed."""
    store = CoordinationStore(str(home))
    agent = {**inside, "JOBWIRE_AGENT": "builder"}
    found = 0
    for number in range(rounds):
        words = f"mind gap {number}"
        send(store, NewMessage("lead", ("builder",), "event", message_class="interrupt", summary=words))
        found += words in run_hook(HOOK, AFTER, agent)[1]
    store.close()
    return found


def main() -> int:
    """Measure, print and write; return 1 where a target is missed."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    with MosquittoServer() as server:
        home = server.home
        CoordinationStore(str(home)).latest_event()
        queue = JobQueue(RecordStore(home), warn=print)
        job_id = queue.register(JobSpec(title="bench")).record.job_id
        bare = {"PATH": os.environ["PATH"], "HOME": str(home)}
        inside = {**bare, "JOBWIRE_HOME": str(home), "JOBWIRE_JOB": job_id}
        run_hook(HOOK, {"hook_event_name": "SessionStart", "source": "startup", **TOOL}, inside)
        alone = costs(bare, inside, rounds)
        command = [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), "serve"]
        serve = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for((home / SOCKET_FILE).exists, what="the registry process", deadline_seconds=60)
            served = costs(bare, inside, rounds)
            with DashboardProcess(home, "--allow-actions") as page:
                ways = asked(page, home, inside, rounds)
            messages = told(home, inside, rounds)
            assert serve.poll() is None
        finally:
            serve.terminate()
            serve.wait(30)
    measured = {
        "hook_p50": served[TURN]["p50"],
        "asked_p99": ways["asked, on the page"]["p99"],
        "answered_p99": ways["answered, the agent goes on"]["p99"],
    }
    missed = [name for name, value in measured.items() if value > TARGETS[name]]
    result = {
        "what": "A hook's cost beside a bare Python, a question's way to the page and back, in ms",
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "told_at_the_next_hook": f"{messages} of {rounds} messages",
        "missed": ", ".join(missed) or "none",
        "with_serve": served,
        "without_serve": alone,
        "ways": ways,
        "times_bare_python": round(served[TURN]["p50"] / served["bare Python"]["p50"], 2),
        "targets": TARGETS,
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if missed or messages < rounds else 0


if __name__ == "__main__":
    sys.exit(main())
