"""Cold start of `publish_event` against `mosquitto_pub` and a plain paho script.

Same Mosquitto, TLS 1.3, MQTT 5, QoS 1, a new process and a new connection each time; all take turns in
one run. What publish_event does besides: number, sign and keep the event (three flushes). Beside
`jobwire serve` it hands over: no connection of its own, and the answer is a confirmation. The floor is a
Python that appends one line to a file, flushed.

    python bench/publish_bench.py [ROUNDS]
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.signature import new_token
from jobwire.jobs.record import JobRecord
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "publish.json"
ROUNDS = 30
WARM_UP = 3
JOB_ID = "0a1b2c3d"
OURS, PAHO, NATIVE = "publish_event", "plain paho script", "mosquitto_pub"
HANDED, FLOOR = "publish_event beside serve", "Python, one line flushed"
SERVED_ID = "0a1b2c3e"
# Of the medians: what is measured, what it is measured by, and at most how often it may be that.
TARGETS = ((OURS, PAHO, 1.1), (HANDED, PAHO, 0.75), (HANDED, FLOOR, 3.0))
APPEND = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(file, b"one line of the size of an event" * 10 + b"\\n")
os.fsync(file)
"""
_P95 = 18  # the 19th of 20 quantiles' cuts


class Sample(NamedTuple):
    """One process: wall and processor milliseconds."""

    wall: float
    cpu: float


def contestants(server: MosquittoServer) -> dict[str, list[str]]:
    """Return the command line of each."""
    settings = server.settings("claude-worker")
    topic = f"{settings.topic_root}/{JOB_ID}/events"
    payload = json.dumps(
        {"event": "progress", "detail": "12 of 30 files", "data": {"percent": 40}, "pad": "x" * 200}
    )
    password_file = str(settings.password_file)
    password = Path(password_file).read_text(encoding="utf-8").strip()
    where = [settings.host, str(settings.port), str(settings.ca_certs), str(settings.username)]
    ours = Path(sys.executable).with_name("publish_event")
    said = ["--event", "progress", "--detail", "12 of 30 files", "--data", "percent=40"]
    return {
        OURS: [str(ours), "--home", str(server.home), "--job", JOB_ID, *said, "--direct"],
        HANDED: [str(ours), "--home", str(server.home), "--job", SERVED_ID, *said],
        FLOOR: [sys.executable, "-c", APPEND, str(server.home / "line")],
        PAHO: [sys.executable, str(HERE / "plain_paho_publish.py"), *where, password_file, topic, payload],
        NATIVE: ["mosquitto_pub", "-h", where[0], "-p", where[1], "--cafile", where[2], "-u", where[3],
                 "-P", password, "--tls-version", "tlsv1.3", "-V", "mqttv5", "-q", "1", "-t", topic,
                 "-m", payload],
    }  # fmt: skip


def run(command: list[str], environ: dict[str, str]) -> Sample:
    """Run one process to its end and return what it cost; wait4 tells it for this child alone."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environ)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        message = process.stderr.read().decode() if process.stderr else ""
        raise SystemExit(f"{command[0]} ended with {process.returncode}: {message}")
    if process.stderr:
        process.stderr.close()
    return Sample(wall * 1000, (usage.ru_utime + usage.ru_stime) * 1000)


def peak_memory(command: list[str], environ: dict[str, str]) -> float:
    """Run one process untimed and return the MiB it had at most.

    From /proc: wait4's ru_maxrss starts with the size of the process that forked (getrusage(2) counts
    what was there before exec), which here is larger than mosquitto_pub.
    """
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environ) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            for line in status.read_text(encoding="ascii").splitlines():
                if line.startswith("VmHWM:"):
                    peak = max(peak, int(line.split()[1]))
            time.sleep(0.001)
    return peak / 1024


def measure(commands: dict[str, list[str]], environ: dict[str, str], rounds: int) -> dict[str, list[Sample]]:
    """Return the samples of each contestant, taken in turns."""
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for turn in range(WARM_UP + rounds):
        for name, command in commands.items():
            sample = run(command, environ)
            if turn >= WARM_UP:
                samples[name].append(sample)
    return samples


def summarise(samples: list[Sample], memory: float) -> dict[str, float]:
    """Return medians, and the 95th percentile of the wall time."""
    walls = [sample.wall for sample in samples]
    return {
        "wall_median_ms": round(statistics.median(walls), 1),
        "wall_p95_ms": round(statistics.quantiles(walls, n=20, method="inclusive")[_P95], 1),
        "cpu_median_ms": round(statistics.median(sample.cpu for sample in samples), 1),
        "peak_memory_mib": round(memory, 1),
    }


def table(figures: dict[str, dict[str, float]]) -> str:
    """Return the figures as text, with ratios to the plain paho script."""
    base = figures[PAHO]["wall_median_ms"]
    lines = [f"{'':28}{'wall median':>12}{'p95':>9}{'cpu':>9}{'memory':>10}{'ratio':>8}"]
    for name, row in figures.items():
        walls = f"{row['wall_median_ms']:>9.1f} ms{row['wall_p95_ms']:>6.1f} ms"
        costs = f"{row['cpu_median_ms']:>6.1f} ms{row['peak_memory_mib']:>6.1f} MiB"
        lines.append(f"{name:28}{walls}{costs}{row['wall_median_ms'] / base:>7.2f}x")
    return "\n".join(lines)


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """Run the registry process of `home` for the block."""
    command = [str(Path(sys.executable).with_name("jobwire")), "--home", str(home), "serve", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                raise SystemExit("the registry process did not start")
            yield
        finally:
            process.terminate()


def main() -> int:
    """Measure, print, write the results."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with MosquittoServer() as server:
        # Without byte code files every start would compile: that is no installation's normal state.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        commands = contestants(server)
        now = utc_timestamp(time.time())
        for job_id in (JOB_ID, SERVED_ID):
            RecordStore(server.home).create(JobRecord(job_id, new_token(), now, now))
        # What is measured without a registry process must not find its file: it waits for confirmations.
        alone = {name: command for name, command in commands.items() if name != HANDED}
        run(["started" if word == "progress" else word for word in commands[OURS]], environ)
        samples = measure(alone, environ, rounds)
        with serving(server.home):
            run(["started" if word == "progress" else word for word in commands[HANDED]], environ)
            served = measure({name: commands[name] for name in (HANDED, PAHO, FLOOR)}, environ, rounds)
            memory = {name: peak_memory(command, environ) for name, command in commands.items()}
    figures = {name: summarise(samples[name], memory[name]) for name in alone}
    beside = {name: summarise(served[name], memory[name]) for name in served}
    print(f"cold publish of one event, {rounds} rounds in turns: Mosquitto, TLS 1.3, MQTT 5, QoS 1")
    print(table(figures))
    print("beside a registry process")
    print(table(beside))
    ratios: dict[str, dict[str, float]] = {}
    for name, base, most in TARGETS:
        run_of = beside if name == HANDED else figures
        ratio = round(run_of[name]["wall_median_ms"] / run_of[base]["wall_median_ms"], 2)
        ratios[f"{name} to {base}"] = {"measured": ratio, "target": most}
        print(f"target: {name} at most {most:g}x {base} (here {ratio:g}x)")
    body = {
        "what": "cold publish of one event; Mosquitto, TLS 1.3, MQTT 5, QoS 1; processes in turns",
        "rounds": rounds,
        "load_average_after": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "figures": figures,
        "beside_a_registry_process": beside,
        "ratios": ratios,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
