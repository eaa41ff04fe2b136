"""Figures about the journal: `python bench/journal_bench.py [--events N] [--rounds N] [--json]`.

Everything is measured in one run on the same files and the same 259-byte events, as medians of
`--rounds`: the journal's blocks against plain length-prefixed records, against the disk's own limit
(the same bytes, one fdatasync a batch) and against SQLite (WAL, synchronous=FULL, one commit a batch).
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import statistics
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa

from jobwire.core.clock import SystemClock
from jobwire.core.override import override
from jobwire.core.ports import Incoming, Message
from jobwire.core.topics import Topics
from jobwire.jobs.admission import JobView
from jobwire.jobs.event import compose, encode_signed
from jobwire.journal.arrow import record_batches
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.recorder import Recorder
from jobwire.journal.scan import load_span
from jobwire.journal.writer import JournalWriter
from jobwire.testing.keyed_admission import Admission

_TOPICS = Topics()
_JOBS = 1000
_START_US = 1_767_225_600_000_000
_TOKEN = "t" * 43
_PLAIN = struct.Struct("<IQqBBHI")


def _payload(number: int, size: int = 259) -> bytes:
    return (b'{"schema_version":1,"seq":%d,"detail":"' % number).ljust(size - 2, b"x") + b'"}'


def _entries(start: int, count: int) -> list[Entry]:
    return [
        Entry(_START_US + i, _TOPICS.events(f"{i % _JOBS:08x}"), _payload(i), False, "accepted")
        for i in range(start, start + count)
    ]


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="journal-bench-", dir=Path.cwd()))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _median(rounds: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(rounds))


# Appending: each function stores `batches` durably, one flush a batch, and returns entries a second.


def _append_journal(batches: list[list[Entry]]) -> float:
    with _directory() as path, JournalWriter(path, clock=SystemClock()) as writer:
        begin = time.perf_counter()
        for batch in batches:
            writer.append(batch)
        return sum(map(len, batches)) / (time.perf_counter() - begin)


def _plain_record(offset: int, entry: Entry) -> bytes:
    topic = entry.topic.encode()
    head = _PLAIN.pack(
        _PLAIN.size + len(topic) + len(entry.payload) + 4,
        offset,
        entry.received_at_us,
        0,
        0,
        len(topic),
        len(entry.payload),
    )
    data = head + topic + entry.payload
    return data + int(google_crc32c.value(data)).to_bytes(4, "little")


def _append_plain(batches: list[list[Entry]]) -> float:
    def data() -> Iterator[bytes]:
        offset = 0
        for batch in batches:
            yield b"".join(_plain_record(offset + i, entry) for i, entry in enumerate(batch))
            offset += len(batch)

    return _append_bytes(data(), sum(map(len, batches)))


def _append_raw(batches: list[list[Entry]]) -> float:
    from jobwire.journal.block import encode_block  # noqa: PLC0415 - only for the same bytes

    ready = [encode_block(0, batch) for batch in batches]
    return _append_bytes(iter(ready), sum(map(len, batches)))


def _append_bytes(parts: Iterator[bytes], entries: int) -> float:
    with _directory() as path:
        descriptor = os.open(path / "file", os.O_CREAT | os.O_WRONLY)
        begin = time.perf_counter()
        for part in parts:
            os.write(descriptor, part)
            os.fdatasync(descriptor)
        took = time.perf_counter() - begin
        os.close(descriptor)
        return entries / took


def _append_sqlite(batches: list[list[Entry]]) -> float:
    with _directory() as path:
        db = sqlite3.connect(path / "db", isolation_level=None)
        db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE entry (offset INTEGER PRIMARY KEY, received_at INTEGER, topic TEXT,"
            " payload BLOB, retained INTEGER, verdict TEXT, redelivered INTEGER);"
        )
        begin = time.perf_counter()
        for batch in batches:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "INSERT INTO entry (received_at, topic, payload, retained, verdict, redelivered)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                batch,
            )
            db.execute("COMMIT")
        took = time.perf_counter() - begin
        db.close()
        return sum(map(len, batches)) / took


# Reading: entries a second from files in the page cache.


def _read_rows(path: Path, total: int) -> float:
    begin, offset = time.perf_counter(), 0
    with JournalReader(path) as reader:
        while rows := reader.read(offset, max_rows=10_000, max_bytes=64 << 20):
            offset = rows[-1].offset + 1
    assert offset == total
    return total / (time.perf_counter() - begin)


def _read_arrow(path: Path, total: int) -> float:
    begin = time.perf_counter()
    with JournalReader(path) as reader:
        rows = sum(
            batch.num_rows
            for span in reader.scan(0, total)
            for batch in record_batches(load_span(path, span), span, topics=_TOPICS)
        )
    assert rows == total
    return total / (time.perf_counter() - begin)


def _read_plain_arrow(data: bytes, total: int) -> float:
    """Read length-prefixed records into the same Arrow columns: each record is taken apart in Python."""
    begin = time.perf_counter()
    at = rows = 0
    while at < len(data):
        columns: list[list[Any]] = [[], [], [], [], [], []]
        while at < len(data) and len(columns[0]) < 100_000:
            length, offset, received, _, _, topic_length, payload_length = _PLAIN.unpack_from(data, at)
            end = at + length
            if google_crc32c.value(data[at : end - 4]) != int.from_bytes(data[end - 4 : end], "little"):
                raise ValueError("damaged")
            text = at + _PLAIN.size
            topic = data[text : text + topic_length].decode()
            address = _TOPICS.parse(topic)
            values = (
                offset,
                received,
                topic,
                address.job_id if address else None,
                data[text + topic_length : text + topic_length + payload_length],
                "accepted",
            )
            for column, value in zip(columns, values, strict=True):
                column.append(value)
            at = end
        arrays = [pa.array(column) for column in columns]
        rows += len(arrays[0])
    assert rows == total
    return total / (time.perf_counter() - begin)


class _Feed:
    """A transport that brings `messages`, as many at once as are asked for."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = iter(messages)
        self.acknowledged = 0

    def receive_many(self, max_items: int, timeout_seconds: float) -> list[Incoming]:  # noqa: ARG002
        return list(islice(self._messages, max_items))

    def acknowledge_many(self, messages: list[Message]) -> None:
        self.acknowledged += len(messages)


class _Views(dict[str, JobView]):
    def view(self, job_id: str) -> JobView | None:
        return self.get(job_id)


def _signed(total: int) -> list[Message]:
    messages = []
    for i in range(total):
        seq, job = i // _JOBS + 1, f"{i % _JOBS:08x}"
        kind = "started" if seq == 1 else "progress"
        event = compose(
            seq=seq, job_id=job, event=kind, timestamp="2026-01-01T00:00:00Z", detail="x" * 40, data={}
        )
        messages.append(Message(_TOPICS.events(job), encode_signed(event, _TOKEN), False, 1, i))
    return messages


def _record(messages: list[Message], batch: int) -> float:
    clock = SystemClock()
    views = _Views({f"{job:08x}": JobView(token=_TOKEN) for job in range(_JOBS)})
    with _directory() as path, JournalWriter(path, clock=clock) as writer:
        feed = _Feed(messages)
        recorder = Recorder(
            transport=feed,  # type: ignore[arg-type]  # only what a step uses
            writer=writer,
            admit=Admission(topics=_TOPICS, views=views),
            filters=[],
            clock=clock,
            batch_messages=batch,
            linger_seconds=0.0,
        )
        begin = time.perf_counter()
        while recorder.step(0.0, lambda: False):
            pass
        assert recorder.progress().verdicts == {"accepted": feed.acknowledged}
        return feed.acknowledged / (time.perf_counter() - begin)


def _memory_kib(events: int) -> tuple[int, int]:
    """Return the peak resident size before and after `events` are written and read."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with _directory() as path:
        with JournalWriter(path, clock=SystemClock()) as writer:
            for start in range(0, events, 1000):
                writer.append(_entries(start, 1000))
        _read_rows(path, events)
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _checksums() -> Iterator[dict[str, object]]:
    for size in (300, 4096, 300_000):
        data = os.urandom(size)
        for name, function in (("zlib crc32", zlib.crc32), ("crc32c", google_crc32c.value)):
            count = max(20, 20_000_000 // size)
            begin = time.perf_counter()
            for _ in range(count):
                function(data)
            took = (time.perf_counter() - begin) / count
            yield {
                "checksum": name,
                "bytes": size,
                "µs": round(took * 1e6, 2),
                "GB/s": round(size / took / 1e9, 1),
            }


def _appends(events: int, rounds: int) -> Iterator[dict[str, object]]:
    for size in (1, 10, 100, 1000):
        count = max(10, min(events // size, 1500 if size < 100 else 300))
        batches = [_entries(start * size, size) for start in range(count)]
        row: dict[str, object] = {"append, entries a batch": size}
        for name, function in (
            ("journal/s", _append_journal),
            ("plain records/s", _append_plain),
            ("raw bytes/s", _append_raw),
            ("SQLite/s", _append_sqlite),
        ):
            row[name] = round(_median(rounds, lambda: function(batches)))  # noqa: B023 - called at once
        row["of raw"] = round(int(str(row["journal/s"])) / int(str(row["raw bytes/s"])), 2)
        yield row


def _reads(events: int, rounds: int) -> Iterator[dict[str, object]]:
    for size in (1, 10, 100, 1000):
        total = min(events, 20_000 * size) // size * size
        with _directory() as path:
            with JournalWriter(path, clock=SystemClock(), files=_NoSync()) as writer:
                for start in range(0, total, size):
                    writer.append(_entries(start, size))
            plain = b"".join(map(_plain_record, range(total), _entries(0, total)))
            yield {
                "read, entries a batch": size,
                "rows/s": round(_median(rounds, lambda: _read_rows(path, total))),  # noqa: B023 - called at once
                "Arrow rows/s": round(_median(rounds, lambda: _read_arrow(path, total))),  # noqa: B023
                "plain to Arrow/s": round(_median(rounds, lambda: _read_plain_arrow(plain, total))),  # noqa: B023
                "bytes an entry": round(sum(p.stat().st_size for p in path.glob("*.seg")) / total),
                "plain bytes": round(len(plain) / total),
            }


def _records(events: int, rounds: int) -> Iterator[dict[str, object]]:
    messages = _signed(min(events, 100_000))
    for size in (1, 10, 100, 1000):
        part = messages[: max(1000, min(len(messages), 1000 * size))]
        rate = _median(rounds, lambda: _record(part, size))  # noqa: B023 - called at once
        yield {"recorder, messages a batch": size, "verified durable events/s": round(rate)}


def _NoSync() -> Any:  # noqa: N802 - stands for a class that is only needed here
    from jobwire.storage.files import SystemFiles  # noqa: PLC0415 - as above

    class NoSync(SystemFiles):
        @override
        def sync_all(self, descriptors: Sequence[int]) -> None:
            """Skip the flush: only the files matter here, not how they came to be."""

    return NoSync()


def _table(rows: list[dict[str, object]]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names)]
    lines += [[f"{v:,}" if isinstance(v, int) else str(v) for v in row.values()] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Run all measurements and print them as Markdown tables, or as one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000, help="events of a measurement (200000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the median counts (3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    before, after = _memory_kib(args.events)
    memory: list[dict[str, object]] = [
        {"events": args.events, "peak RSS before, MiB": before >> 10, "after, MiB": after >> 10}
    ]
    results = {
        "memory": memory,
        "checksums": list(_checksums()),
        "appends": list(_appends(args.events, args.rounds)),
        "reads": list(_reads(args.events, args.rounds)),
        "recorder": list(_records(args.events, args.rounds)),
    }
    print(json.dumps(results) if args.json else "\n\n".join(map(_table, results.values())))
    stored = Path(__file__).resolve().parent / "results" / "journal.json"
    stored.parent.mkdir(exist_ok=True)
    stored.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
