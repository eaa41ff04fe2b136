"""What durability costs: events a second from the wire to the disk, against the disk itself and SQLite.

The same prepared events go, batch by batch, through each way of keeping them; the ways take turns and
each makes a batch durable with one flush:

    disk                 the journal's own bytes, written and flushed: nothing can be faster
    journal              JournalWriter.append
    recorder + fold      admission (signature included), journal, and the job's record in memory
    SQLite               the same rows, WAL, synchronous=FULL, one commit a batch
    SQLite, recorder     the same recorder and fold with SQLite in the journal's place

What is asked of `recorder + fold` is half of the disk's speed, and more than SQLite under the same recorder.
The larger the batch, the less the disk has to do with it: then each event costs what its signature, its
canonical form and its fold take of the processor, wherever the bytes go.

Then the time from `publish` to the record on the disk (`durability_latency.py`), and the memory and opening
time of a journal with one event and with a million.

    python bench/durability_bench.py [--events N] [--memory-events N]
"""

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from durability_latency import latencies  # type: ignore[import-not-found]  # Python finds it beside this script

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.ports import Incoming, Message
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs.admission import JobView
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.fold import apply_event
from jobwire.jobs.record import JobRecord
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.recorder import Recorded, Recorder
from jobwire.journal.writer import JournalWriter
from jobwire.testing.keyed_admission import Admission

RESULTS = Path(__file__).resolve().parent / "results" / "durability.json"
TOPICS = Topics("bench/jobs")
BATCHES = (1, 10, 100, 1000)
JOBS = 100
ROUNDS = 5
_NOW = utc_timestamp(1_700_000_000.0)
_LONG_AGO = 1


class Load(NamedTuple):
    """Prepared messages of some jobs, and the jobs' records before them."""

    records: dict[str, JobRecord]
    messages: list[Message]


def prepare(events: int) -> Load:
    """Return `events` signed messages, those of JOBS jobs in turns."""
    records = {f"{n:08x}": JobRecord(f"{n:08x}", new_token(), _NOW, _NOW) for n in range(JOBS)}
    messages = []
    for number in range(events):
        job_id, seq = f"{number % JOBS:08x}", number // JOBS + 1
        event = compose(
            seq=seq,
            job_id=job_id,
            event="started" if seq == 1 else "progress",
            timestamp=_NOW,
            detail=f"{seq} of many files",
            data={"percent": seq % 100, "files": seq},
        )
        payload = encode_signed(event, records[job_id].auth_token)
        messages.append(Message(TOPICS.events(job_id), payload, False, 1, number + 1))
    return Load(records, messages)


class Wire:
    """A transport that has everything at once: what is measured is not the network."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._next = 0
        self.acknowledged = 0

    def receive_many(self, max_items: int, timeout_seconds: float) -> list[Incoming]:  # noqa: ARG002 - a port
        """Return the next messages."""
        first, self._next = self._next, self._next + max_items
        return list(self._messages[first : self._next])

    def acknowledge_many(self, messages: Iterable[Message]) -> None:
        """Count them."""
        self.acknowledged += sum(1 for _ in messages)


class Fold:
    """The registry's side without its disk: views for admission, records for the fold."""

    def __init__(self, load: Load) -> None:
        self.records = dict(load.records)
        self._views = {job_id: JobView(token=record.auth_token) for job_id, record in load.records.items()}
        self._clock = SystemClock()

    def view(self, job_id: str) -> JobView | None:
        """Return the job's view."""
        return self._views.get(job_id)

    def __call__(self, batch: Sequence[Recorded]) -> None:
        """Fold a batch."""
        now = self._clock.now()
        for recorded in batch:
            event = recorded.judged.event
            if event is not None:
                self.records[event.job_id] = apply_event(self.records[event.job_id], event, now)


class SqliteJournal:
    """As much of JournalWriter as the recorder uses, on one SQLite table."""

    def __init__(self, directory: Path) -> None:
        self._connection = sqlite3.connect(directory / "journal.sqlite", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE journal (entry INTEGER PRIMARY KEY, received_at_us INTEGER, topic TEXT,"
            " payload BLOB, retained INTEGER, verdict TEXT)"
        )
        self.next_offset = 0

    def append(self, entries: Sequence[Entry]) -> int:
        """Insert the batch and commit."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO journal (received_at_us, topic, payload, retained, verdict) VALUES (?,?,?,?,?)",
            [entry[:5] for entry in entries],
        )
        self._connection.execute("COMMIT")
        self.next_offset += len(entries)
        return self.next_offset

    def roll_if_due(self) -> bool:
        """Do nothing."""
        return False

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def batches_of(items: Sequence[Entry], size: int) -> Iterator[Sequence[Entry]]:
    """Yield the items in batches."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def entries_of(load: Load) -> list[Entry]:
    """Return the load as the journal keeps it."""
    return [Entry(_LONG_AGO, m.topic, m.payload, m.retain, "accepted") for m in load.messages]


def disk_way(load: Load, size: int, directory: Path) -> float:
    """Write the bytes that the journal would write, one flush a batch; return the seconds."""
    with JournalWriter(directory / "sizes", clock=SystemClock()) as writer:
        for batch in batches_of(entries_of(load), size):
            writer.append(batch)
    blob = b"".join(path.read_bytes() for path in sorted((directory / "sizes").glob("*.seg*")))
    share = max(1, len(blob) * size // max(1, len(load.messages)))
    descriptor = os.open(directory / "raw", os.O_WRONLY | os.O_CREAT)
    begun = time.perf_counter()
    for first in range(0, len(blob), share):
        os.write(descriptor, blob[first : first + share])
        os.fdatasync(descriptor)
    seconds = time.perf_counter() - begun
    os.close(descriptor)
    return seconds


def journal_way(load: Load, size: int, directory: Path) -> float:
    """Append to a journal."""
    entries = entries_of(load)
    with JournalWriter(directory / "journal", clock=SystemClock()) as writer:
        begun = time.perf_counter()
        for batch in batches_of(entries, size):
            writer.append(batch)
        return time.perf_counter() - begun


def sqlite_way(load: Load, size: int, directory: Path) -> float:
    """Append to a table."""
    entries = entries_of(load)
    table = SqliteJournal(directory)
    begun = time.perf_counter()
    for batch in batches_of(entries, size):
        table.append(batch)
    seconds = time.perf_counter() - begun
    table.close()
    return seconds


def recorder_way(load: Load, size: int, directory: Path) -> float:
    """Record and fold into a journal."""
    with JournalWriter(directory / "recorded", clock=SystemClock()) as writer:
        return record(load, size, writer)


def sqlite_recorder_way(load: Load, size: int, directory: Path) -> float:
    """Record and fold into a table."""
    table = SqliteJournal(directory)
    seconds = record(load, size, table)  # type: ignore[arg-type]  # as much of it as the recorder uses
    table.close()
    return seconds


def record(load: Load, size: int, writer: JournalWriter) -> float:
    """Let the recorder take everything in; return the seconds."""
    fold = Fold(load)
    wire = Wire(load.messages)
    recorder = Recorder(
        transport=wire,  # type: ignore[arg-type]  # as much of it as `step` uses
        writer=writer,
        admit=Admission(topics=TOPICS, views=fold),
        filters=[TOPICS.events("+")],
        clock=SystemClock(),
        on_durable=fold,
        batch_messages=size,
    )
    begun = time.perf_counter()
    while recorder.step(0.0, lambda: False):
        pass
    seconds = time.perf_counter() - begun
    assert wire.acknowledged == len(load.messages)
    assert sum(record.last_seq for record in fold.records.values()) == len(load.messages)
    return seconds


WAYS: dict[str, Callable[[Load, int, Path], float]] = {
    "disk": disk_way,
    "journal": journal_way,
    "recorder + fold": recorder_way,
    "SQLite": sqlite_way,
    "SQLite, recorder": sqlite_recorder_way,
}


def speeds(events: int) -> dict[str, dict[str, int]]:
    """Return events a second by batch size and way: the median of ROUNDS, the ways in turns."""
    figures: dict[str, dict[str, int]] = {}
    for size in BATCHES:
        # One flush an event takes long enough with fewer of them.
        load = prepare(max(JOBS, min(events, size * 500)))
        seconds: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(ROUNDS):
            for name, way in WAYS.items():
                with tempfile.TemporaryDirectory(prefix="jobwire-bench-") as directory:
                    seconds[name].append(way(load, size, Path(directory)))
        figures[str(size)] = {
            name: round(len(load.messages) / statistics.median(values)) for name, values in seconds.items()
        }
    return figures


def memory_child(events: int) -> int:
    """Journal `events` events and print what this process then needs, and a reader of the last one."""
    load = prepare(min(events, 10_000))
    base = entries_of(load)
    with tempfile.TemporaryDirectory(prefix="jobwire-bench-") as name:
        directory = Path(name)
        with JournalWriter(directory, clock=SystemClock()) as writer:
            left = events
            while left > 0:
                for batch in batches_of(base[:left], 1000):
                    writer.append(batch)
                left -= len(base)
            writing = resident_mib()
            begun = time.perf_counter()
            with JournalReader(directory) as reader:
                rows = reader.read(events - 1)
            reading = time.perf_counter() - begun
            assert rows[0].offset == events - 1
            size = sum(path.stat().st_size for path in directory.iterdir())
        begun = time.perf_counter()
        JournalWriter(directory, clock=SystemClock()).close()
        opening = time.perf_counter() - begun
    body = {
        "events": events,
        "resident_mib": round(writing, 1),
        "resident_after_reading_mib": round(resident_mib(), 1),
        "read_last_ms": round(reading * 1000, 2),
        "open_for_writing_ms": round(opening * 1000, 2),
        "bytes_per_event": round(size / events),
    }
    print(json.dumps(body))
    return 0


def resident_mib() -> float:
    """Return what this process has in memory (statm in proc(5))."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(events: int) -> list[dict[str, float]]:
    """Return the figures at 1 and at `events` events, each in a process of its own."""
    found = []
    for count in (1, events):
        command = [sys.executable, __file__, "--child", str(count)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(answer.stdout))
    return found


def table(figures: dict[str, dict[str, int]]) -> str:
    """Return the speeds as text."""
    lines = [f"{'events a second, by batch':26}" + "".join(f"{size:>12}" for size in figures)]
    lines += [f"{name:26}" + "".join(f"{row[name]:>12,}" for row in figures.values()) for name in WAYS]
    for name, by_size in ratios(figures).items():
        lines.append(f"{name:26}" + "".join(f"{ratio:>11.2f}x" for ratio in by_size.values()))
    return "\n".join(lines)


def ratios(figures: dict[str, dict[str, int]]) -> dict[str, dict[str, float]]:
    """Return, by batch size, what the targets are about: against the disk, and the same work on SQLite."""
    mine = "recorder + fold"
    return {
        f"to {other}": {size: round(row[mine] / row[other], 2) for size, row in figures.items()}
        for other in ("disk", "SQLite, recorder", "SQLite")
    }


def main() -> int:
    """Measure, print, write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000, help="at most so many a way and round")
    parser.add_argument("--memory-events", type=int, default=1_000_000, help="events in the large journal")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return memory_child(args.child)
    figures = speeds(args.events)
    print(table(figures), flush=True)
    waits = latencies()
    for row in waits:
        print(", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in row.items()), flush=True)
    memories = memory(args.memory_events)
    for row in memories:
        print(", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in row.items()))
    body = {
        "what": "events a second made durable, one flush a batch; median of rounds in turns",
        "rounds": ROUNDS,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "events_a_second": figures,
        "recorder_and_fold": ratios(figures),
        "from_publish_to_record": waits,
        "memory": memories,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
