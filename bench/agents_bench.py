"""What a hook costs an agent: a command on its own, beside a bare Python, with the registry process running.

The agent stands still while its hook runs. Measured are, in turn: a Python that does nothing, a hook outside
of a job, and in a job a tool that ran (an event that is kept and handed over), an edit that nobody holds and
the same with a store of other agents.

    python bench/agents_bench.py [ROUNDS]
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jobwire.coordination.store import CoordinationStore
from jobwire.hooks.injection import hook_words
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer
from jobwire.testing.homes import new_home
from jobwire.testing.waiting import wait_for

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "agents.json"
ROUNDS, WARM_UP = 60, 5
TARGET_MS = 50.0
TOOL: dict[str, object] = {"session_id": "c", "tool_name": "Bash", "tool_input": {"command": "make"}}
EDIT: dict[str, object] = {"session_id": "c", "tool_name": "Edit", "tool_input": {"file_path": "a.py"}}


def measured(words: list[str], body: dict[str, object], environ: dict[str, str]) -> float:
    """Run it once; return milliseconds."""
    given = json.dumps(body).encode()
    began = time.perf_counter()
    subprocess.run(words, input=given, env=environ, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000


def figures(samples: list[float]) -> dict[str, float]:
    """Return median and 99th percentile."""
    ordered = sorted(samples)
    return {
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 1),
    }


def main() -> int:
    """Measure, print and write; 1 where the target is missed."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    with tempfile.TemporaryDirectory() as folder, MosquittoServer() as server:
        home = new_home(Path(folder) / ".hermes")
        settings = server.settings("registry")
        broker = {
            "MQTT_BROKER": settings.host,
            "MQTT_PORT": str(settings.port),
            "MQTT_CA_CERTS": str(settings.ca_certs),
            "MQTT_USERNAME": str(settings.username),
            "MQTT_PASSWORD": str(settings.password),
        }
        bare = {"PATH": os.environ["PATH"], "HOME": folder}
        serve = subprocess.Popen(
            [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), "serve"],
            env={**bare, **broker},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for((home / "serve.sock").exists, what="the registry process", deadline_seconds=60)
            result = compare(home, bare, rounds)
        finally:
            serve.terminate()
            serve.wait(30)
    print(json.dumps(result, indent=1))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["met"] else 1


def compare(home: Path, bare: dict[str, str], rounds: int) -> dict[str, object]:
    """Run all kinds in turn, so that the machine's moods meet each."""
    queue = JobQueue(RecordStore(home), warn=print)
    job_id = queue.register(JobSpec(title="bench")).record.job_id
    inside = {**bare, "JOBWIRE_HOME": str(home), "JOBWIRE_JOB": job_id}
    hook = hook_words("claude")
    begun = {"hook_event_name": "SessionStart", "source": "startup", **TOOL}
    measured(hook, begun, inside)
    after = {"hook_event_name": "PostToolUse", **TOOL}
    before = {"hook_event_name": "PreToolUse", **EDIT}
    store = CoordinationStore(str(home))
    store.latest_event()
    store.close()
    kinds = {
        "bare python": ([sys.executable, "-P", "-c", "pass"], after, bare),
        "outside of a job": (hook, after, bare),
        "a tool ran": (hook, after, inside),
        "an edit": (hook, before, inside),
        "an edit, as an agent with a name": (hook, before, {**inside, "JOBWIRE_AGENT": "builder"}),
    }
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + WARM_UP):
        for name, what in kinds.items():
            taken = measured(*what)
            if number >= WARM_UP:
                samples[name].append(taken)
    found = {name: figures(taken) for name, taken in samples.items()}
    cost = found["a tool ran"]["p50_ms"]
    return {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "rounds": rounds,
        "hooks": found,
        "times_bare_python": round(cost / found["bare python"]["p50_ms"], 2),
        "target_ms": TARGET_MS,
        "met": cost <= TARGET_MS,
    }


if __name__ == "__main__":
    sys.exit(main())
