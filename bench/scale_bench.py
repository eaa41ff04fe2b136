"""Many jobs in one directory, many of them at work: whether the registry process keeps up.

100,000 finished and 10,000 pending jobs lie in the directory; 1,000 running ones send one event a second
each, over Mosquitto, as workers on other hosts do (so that only the registry process writes records).
Watched each second: how far journal and records are behind, memory and processor time of `serve`, and
how long `list`, `show`, `register` and `pick` take meanwhile.

    python bench/scale_bench.py [--finished N] [--pending N] [--running N] [--seconds S]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.lease import LeaseGrant
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, encode_record
from jobwire.journal.reader import JournalReader
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import MosquittoServer, wait_for
from jobwire.testing.raw_mqtt import PINGREQ, PINGRESP, RawClient, client_context

RESULTS = Path(__file__).resolve().parent / "results" / "scale.json"
ROLE = "claude-worker"
_BURST = 20
_FINISHED, _PENDING, _RUNNING = 0x10000000, 0x20000000, 0x30000000
_CATCH_UP_SECONDS = 300.0
_COMMAND_SECONDS = 5.0


class Sizes(NamedTuple):
    """How many jobs, and for how long."""

    finished: int
    pending: int
    running: int
    seconds: float


class Second(NamedTuple):
    """One look at the system."""

    at: float
    sent: int
    journaled: int
    unfolded: int
    resident_mib: float
    processor_seconds: float


def fill(store: RecordStore, sizes: Sizes) -> dict[str, str]:
    """Write the records, without histories; return the tokens of the running jobs."""
    store.make_layout()
    now = utc_timestamp(time.time())
    tokens = {f"{_RUNNING + n:08x}": new_token() for n in range(sizes.running)}
    for first, count, status in (
        (_FINISHED, sizes.finished, Status.COMPLETED),
        (_PENDING, sizes.pending, Status.PENDING),
        (_RUNNING, sizes.running, Status.PENDING),
    ):
        for number in range(count):
            job_id = f"{first + number:08x}"
            record = JobRecord(job_id, tokens.get(job_id) or new_token(), now, now, status=status)
            if status is Status.COMPLETED:
                record = record._replace(last_seq=9, confirmed_seq=9, started_at=now, finished_at=now)
            if first == _RUNNING:
                record = record._replace(agent_session="elsewhere")
            path = Path(store.record_path(job_id))
            path.touch(mode=0o600)
            path.write_bytes(encode_record(record))
    # All at once; else the disk would still be writing them when the load begins.
    os.sync()
    return tokens


class Senders:
    """Sends one event a second for each job, in order, over one connection, from a thread."""

    def __init__(self, server: MosquittoServer, tokens: dict[str, str]) -> None:
        settings = server.settings(ROLE)
        self._topics = Topics(settings.topic_root)
        self._tokens = tokens
        password = Path(str(settings.password_file)).read_text(encoding="utf-8").strip()
        self._client = RawClient(settings.host, settings.port, client_context(server.ca_certs))
        self._client.connect("senders", username=ROLE, password=password)
        self.sent = 0
        self.latest_start = 0.0

    def run(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Send for so many whole seconds, or until it is `enough`; blocks."""
        begun = time.monotonic()
        for turn in range(int(seconds)):
            if enough():
                break
            late = time.monotonic() - begun - turn
            self.latest_start = max(self.latest_start, late)
            if late < 0:
                time.sleep(-late)
            for number, job_id in enumerate(self._tokens):
                # Spread over the second, as a thousand workers are.
                due = begun + turn + number / len(self._tokens)
                if number % _BURST == 0:
                    time.sleep(max(0.0, due - time.monotonic()))
                self._send(job_id, turn + 1)
                if number % _BURST == _BURST - 1:
                    self._client.send(PINGREQ)
                    self._client.expect(PINGRESP)
        self._client.send(PINGREQ)
        self._client.expect(PINGRESP)
        self._client.disconnect()

    def _send(self, job_id: str, seq: int) -> None:
        event = compose(
            seq=seq,
            job_id=job_id,
            event="started" if seq == 1 else "progress",
            timestamp=utc_timestamp(time.time()),
            detail=f"step {seq}",
            data={"percent": seq % 100},
        )
        payload = encode_signed(event, self._tokens[job_id])
        self._client.publish(self._topics.events(job_id), payload, wait=False)
        self.sent += 1


def look(process: subprocess.Popen[bytes], home: Path, sent: int, begun: float) -> Second:
    """Return the figures of this moment (stat and statm in proc(5), and the health file)."""
    proc = Path(f"/proc/{process.pid}")
    pages = int((proc / "statm").read_text(encoding="ascii").split()[1])
    # The name in parentheses may hold blanks: count from behind it.
    fields = (proc / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    with JournalReader(home / "journal") as reader:
        journaled = reader.durable_offset
    health = json.loads((home / "serve.json").read_bytes())
    return Second(
        at=round(time.monotonic() - begun, 2),
        sent=sent,
        journaled=journaled,
        unfolded=health["lag"],
        resident_mib=round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        processor_seconds=ticks / os.sysconf("SC_CLK_TCK"),
    )


def timed(action: Callable[[], object]) -> float:
    """Return how many milliseconds `action` takes."""
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def operations(home: Path, running: list[str]) -> dict[str, Callable[[], object]]:
    """Return what people and workers do meanwhile: as commands, and from Python."""
    command = [str(Path(sys.executable).with_name("jobwire")), "--home", str(home), "registry"]
    job_queue = JobQueue(RecordStore(home), warn=lambda _: None)

    def run(*arguments: str) -> None:
        subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)

    return {
        "list (command)": lambda: run("list", "--limit", "20", "--json"),
        "list --status running (command)": lambda: run("list", "--status", "running", "--limit", "20"),
        "show (command)": lambda: run("show", running[0], "--json"),
        "show (Python)": lambda: job_queue.store.get(running[0]),
        "list (Python)": lambda: job_queue.list(limit=20),
        "register (Python)": lambda: job_queue.register(JobSpec(title="one more")),
        "pick (Python)": lambda: job_queue.pick(LeaseGrant("bench", 3600.0)),
    }


def behind(store: RecordStore, jobs: list[str], seq: int) -> int:
    """Return how many events the records do not have yet."""
    return sum(seq - store.get(job_id).last_seq for job_id in jobs)


def measure(server: MosquittoServer, sizes: Sizes) -> dict[str, object]:
    """Fill the directory, run the load, watch; return the figures."""
    store = RecordStore(server.home)
    begun = time.monotonic()
    tokens = fill(store, sizes)
    filled = time.monotonic() - begun
    reindexing = timed(lambda: JobQueue(store, warn=lambda _: None).reindex())
    command = [str(Path(sys.executable).with_name("jobwire")), "--home", str(server.home)]
    log = (server.home / "serve.log").open("wb")
    begun = time.monotonic()
    process = subprocess.Popen([*command, "registry", "serve", "--json"], stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        starting = time.monotonic() - begun
        figures = under_load(server, process, store, tokens, sizes)
    finally:
        process.terminate()
        code = process.wait(60)
        log.close()
    return {
        "fill_seconds": round(filled, 1),
        "reindex_seconds": round(reindexing / 1000, 2),
        "start_seconds": round(starting, 2),
        "ready": bool(ready.get("ready")),
        "exit_code": code,
        **figures,
    }


def under_load(
    server: MosquittoServer,
    process: subprocess.Popen[bytes],
    store: RecordStore,
    tokens: dict[str, str],
    sizes: Sizes,
) -> dict[str, object]:
    """Send, look each second, time the operations, and wait until the records have everything."""
    senders = Senders(server, tokens)
    jobs = list(tokens)
    timings: dict[str, list[float]] = {name: [] for name in operations(server.home, jobs)}
    thread = threading.Thread(target=senders.run, args=[sizes.seconds])
    seconds: list[Second] = []
    begun = time.monotonic()
    thread.start()
    asked = begun
    while thread.is_alive():
        seconds.append(look(process, server.home, senders.sent, begun))
        if time.monotonic() - asked >= _COMMAND_SECONDS:
            asked = time.monotonic()
            for name, action in operations(server.home, jobs).items():
                timings[name].append(timed(action))
        thread.join(1.0)
    sent_at = time.monotonic()
    missing = behind(store, jobs, int(sizes.seconds))
    wait_for(
        lambda: behind(store, jobs, int(sizes.seconds)) == 0,
        deadline_seconds=_CATCH_UP_SECONDS,
        what="the last event in its record",
    )
    seconds.append(look(process, server.home, senders.sent, begun))
    return {
        "events": senders.sent,
        "events_a_second": round(senders.sent / (sent_at - begun)),
        "senders_late_seconds": round(senders.latest_start, 2),
        "journal_behind_at_most": max(second.sent - second.journaled for second in seconds),
        "records_behind_at_most": max(second.unfolded for second in seconds),
        "records_behind_at_the_end": missing,
        "caught_up_after_seconds": round(time.monotonic() - sent_at, 2),
        "resident_mib": [second.resident_mib for second in seconds],
        "records_behind": [second.unfolded for second in seconds],
        "processor_share": round(seconds[-1].processor_seconds / seconds[-1].at, 2),
        "milliseconds": {
            name: {"median": round(statistics.median(values), 1), "longest": round(max(values), 1)}
            for name, values in timings.items()
            if values
        },
    }


def quarters(values: list[float]) -> str:
    """Return the first value, those at each quarter, and the last."""
    last = len(values) - 1
    return ", ".join(str(values[last * part // 4]) for part in range(5))


def table(sizes: Sizes, figures: dict[str, object]) -> str:
    """Return the figures as text."""
    memory, lag = figures["resident_mib"], figures["records_behind"]
    assert isinstance(memory, list)
    assert isinstance(lag, list)
    lines = [
        f"jobs: {sizes.finished:,} finished, {sizes.pending:,} pending, {sizes.running:,} running",
        f"serve memory in MiB, over time: {quarters(memory)}",
        f"events journaled and not yet in their records, over time: {quarters(lag)}",
    ]
    lines += [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in figures.items()
        if not isinstance(value, (dict, list))
    ]
    timings = figures["milliseconds"]
    assert isinstance(timings, dict)
    lines += [f"{name:34}{row['median']:>9} ms median{row['longest']:>9} ms" for name, row in timings.items()]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--finished", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=120.0)
    args = parser.parse_args()
    sizes = Sizes(args.finished, args.pending, args.running, args.seconds)
    with MosquittoServer() as server:
        figures = measure(server, sizes)
    print(table(sizes, figures))
    body = {
        "what": "one registry directory under load; Mosquitto, TLS 1.3, QoS 1",
        "taken_at": utc_timestamp(SystemClock().now()),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "sizes": sizes._asdict(),
        "figures": figures,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
