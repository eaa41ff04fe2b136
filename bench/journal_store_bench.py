"""What a growing journal is kept in: its segments, beside the same blocks in a SQLite database.

    python bench/journal_store_bench.py [--rounds 5]

In turns, with a flush a batch: segments of blocks; SQLite (WAL, synchronous=FULL) with a row of one BLOB a
batch that holds the same block; and the same with an Arrow IPC stream instead of it. Then reading to Arrow.
Then damage: one bit of a file is flipped, and the kindest reader of each counts what it still finds; SQLite's
asks for each row by its key, so that what is lost in one place ends no other query.
"""

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c
import pyarrow as pa
from journal_bench import (  # type: ignore[import-not-found]  # Python finds it beside this script
    _TOPICS,
    _directory,
    _entries,
)

from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError
from jobwire.core.override import override
from jobwire.journal.arrow import SCHEMA, record_batches
from jobwire.journal.block import check_body, encode_block, parse_header
from jobwire.journal.entry import Entry
from jobwire.journal.errors import BadBlockError
from jobwire.journal.reader import JournalReader
from jobwire.journal.scan import Span, load_span
from jobwire.journal.verify import verify
from jobwire.journal.writer import JournalWriter

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "journal_store.json"
SIZES = (1, 10, 100, 1000)
_BATCHES = {1: 1500, 10: 1500, 100: 300, 1000: 200}
_SPAN_BYTES = 4 << 20
_TABLE = "CREATE TABLE block (first INTEGER PRIMARY KEY, body BLOB NOT NULL)"
_FLIPS, _DAMAGED_BATCHES = 300, 2000
# Not ru_maxrss, which a process inherits over exec (getrusage(2)).
_LOADING = """
import time
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
least, begun = resident(), time.perf_counter()
import pyarrow
print((time.perf_counter() - begun) * 1000, (resident() - least) / 1024)
"""

Batches = Sequence[Sequence[Entry]]


class Segments:
    """The journal as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, batches: Batches) -> None:
        """Make each batch durable."""
        with JournalWriter(self.folder, clock=SystemClock()) as writer:
            for batch in batches:
                writer.append(batch)

    def rows(self, total: int) -> int:
        """Read all of it into Arrow."""
        with JournalReader(self.folder) as reader:
            return sum(
                batch.num_rows
                for span in reader.scan(0, total)
                for batch in record_batches(load_span(self.folder, span), span, topics=_TOPICS)
            )

    def file(self) -> Path:
        """Return the file of the entries."""
        return next(self.folder.glob("*.seg"))

    def found(self, total: int) -> int:  # noqa: ARG002 - the journal knows how many there were
        """Return how many entries can still be read."""
        try:
            return verify(self.folder).entries
        except JobwireError:
            return 0


class Database:
    """The same blocks in SQLite, a row each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, batches: Batches) -> None:
        """Make each batch durable."""
        db = self._open()
        db.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {_TABLE}")
        first = 0
        for batch in batches:
            db.execute("INSERT INTO block VALUES (?, ?)", (first, self.encode(first, batch)))
            first += len(batch)
        db.close()

    def encode(self, first: int, batch: Sequence[Entry]) -> bytes:
        """Return the body of a row."""
        return encode_block(first, batch)

    def count(self, bodies: list[bytes], first: int, end: int) -> int:
        """Return how many entries the rows of these offsets give to Arrow, checked."""
        data = b"".join(bodies)
        span = Span("", 0, "db", 0, len(data), first, end)
        return sum(batch.num_rows for batch in record_batches(data, span, topics=_TOPICS))

    def rows(self, total: int) -> int:
        """Read all of it into Arrow, in parts of the size that the journal's readers take."""
        db = self._open()
        counted = begin = size = 0
        bodies: list[bytes] = []
        for first, body in db.execute("SELECT first, body FROM block ORDER BY first"):
            if size >= _SPAN_BYTES:
                counted += self.count(bodies, begin, first)
                bodies, begin, size = [], first, 0
            bodies.append(body)
            size += len(body)
        db.close()
        return counted + self.count(bodies, begin, total)

    def file(self) -> Path:
        """Return the file of the entries."""
        return self.folder / "db"

    def found(self, total: int) -> int:
        """Return how many entries can still be read: where a query for all fails, each row is asked for."""
        db = self._open()
        try:
            return sum(_sound(body) for (body,) in db.execute("SELECT body FROM block"))
        except sqlite3.DatabaseError:
            return sum(self._row(db, first) for first in range(0, total, total // _DAMAGED_BATCHES))
        finally:
            db.close()

    def _row(self, db: sqlite3.Connection, first: int) -> int:
        try:
            return sum(
                _sound(body) for (body,) in db.execute("SELECT body FROM block WHERE first = ?", (first,))
            )
        except sqlite3.DatabaseError:
            return 0  # this row is lost

    def _open(self) -> sqlite3.Connection:
        self.folder.mkdir(exist_ok=True)
        return sqlite3.connect(self.folder / "db", isolation_level=None)


def _sound(body: bytes) -> int:
    """Return how many entries a block holds, 0 for one that is damaged."""
    try:
        header = parse_header(body)
        check_body(body, header)
    except BadBlockError:
        return 0
    return header.end_offset - header.base_offset


class ArrowDatabase(Database):
    """An Arrow IPC stream as a row: read as it is, written by a process that has loaded Arrow."""

    @override
    def encode(self, first: int, batch: Sequence[Entry]) -> bytes:
        """Return the columns of `arrow.SCHEMA` as a stream, checksum in front."""
        times, topics, payloads, retained, verdicts, *_ = zip(*batch, strict=True)
        jobs = [address.job_id if (address := _TOPICS.parse(topic)) else None for topic in topics]
        columns = (
            range(first, first + len(batch)),
            times,
            topics,
            jobs,
            retained,
            retained,
            verdicts,
            payloads,
        )
        rows = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as stream:
            stream.write_batch(rows)
        body: bytes = sink.getvalue().to_pybytes()
        return int(google_crc32c.value(body)).to_bytes(4, "little") + body

    @override
    def count(self, bodies: list[bytes], first: int, end: int) -> int:
        """See `Database.count`."""
        del first, end  # they stand in the streams
        counted = 0
        for body in bodies:
            stream = memoryview(body)[4:]
            if google_crc32c.value(bytes(stream)) != int.from_bytes(body[:4], "little"):
                continue
            with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
                counted += sum(batch.num_rows for batch in reader)
        return counted


KINDS: dict[str, Callable[[Path], Any]] = {
    "segments": Segments,
    "SQLite, a block a row": Database,
    "SQLite, an Arrow stream a row": ArrowDatabase,
}


def rates(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return entries a second by batch: appended durably, and read into Arrow; medians of rounds in turns."""
    appended: dict[str, dict[str, float]] = {}
    read: dict[str, dict[str, float]] = {}
    for size in SIZES:
        batches = [_entries(number * size, size) for number in range(_BATCHES[size])]
        total = size * len(batches)
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
        for _ in range(rounds):
            for name, kind in KINDS.items():
                with _directory() as folder:
                    store = kind(folder)
                    begun = time.perf_counter()
                    store.append(batches)
                    written = time.perf_counter()
                    assert store.rows(total) == total
                    took[name].append((written - begun, time.perf_counter() - written))
        for table, place in ((appended, 0), (read, 1)):
            table[f"{size:,} a flush"] = {
                name: round(total / statistics.median(one[place] for one in found))
                for name, found in took.items()
            }
    return {"appended, entries/s": appended, "read into Arrow, entries/s": read}


def loading() -> dict[str, float]:
    """Return what a process pays that writes Arrow streams: the import in ms, and MiB of memory."""
    done = subprocess.run([sys.executable, "-c", _LOADING], check=True, stdout=subprocess.PIPE, text=True)
    ms, mib = map(float, done.stdout.split())
    return {"ms": round(ms), "MiB": round(mib)}


def damage() -> dict[str, dict[str, float]]:
    """Return what a flipped bit costs, in entries of each 10,000: at random places, and in the first page."""
    batches = [_entries(number * 10, 10) for number in range(_DAMAGED_BATCHES)]
    total = 10 * len(batches)
    answer = {}
    for name in ("segments", "SQLite, a block a row"):
        with _directory() as folder:
            store = KINDS[name](folder)
            store.append(batches)
            assert store.found(total) == total
            path = store.file()
            whole = path.read_bytes()
            random = Random(1)  # noqa: S311 - the same places at each run
            anywhere = [_lost(store, whole, random.randrange(len(whole)), total) for _ in range(_FLIPS)]
            begin = [_lost(store, whole, place, total) for place in range(0, 4096, 64)]
            path.write_bytes(whole)
        answer[name] = {
            "mean": round(statistics.fmean(anywhere) * 10_000 / total, 2),
            "most": max(anywhere) * 10_000 / total,
            "more than a batch, % of flips": round(100 * sum(lost > 10 for lost in anywhere) / _FLIPS, 2),
            "most, in the first 4 KiB": max(begin) * 10_000 / total,
        }
    return answer


def _lost(store: Any, whole: bytes, place: int, total: int) -> int:
    damaged = bytearray(whole)
    damaged[place] ^= 1 << place % 8
    store.file().write_bytes(damaged)
    return total - int(store.found(total))


def main() -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the median counts (5)")
    args = parser.parse_args()
    result = {
        "what": "A growing journal in segments, beside the same blocks in SQLite; what one flipped bit costs",
        "rounds": args.rounds,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_average": round(os.getloadavg()[0], 2),
        **rates(args.rounds),
        "loading Arrow": loading(),
        "a flipped bit, entries lost of 10,000": damage(),
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
