"""The ways in which `registry_bench.py` makes the same transitions durable."""

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.signature import new_token
from jobwire.jobs.event import Event, compose, encode_signed
from jobwire.jobs.fold import apply_event
from jobwire.jobs.record import JobRecord, decode_record, encode_record
from jobwire.registry.audit import event_line
from jobwire.registry.revision import Revision
from jobwire.registry.store import RecordStore, payload_digest
from jobwire.storage import file_lock

JOBS = 64
STAMP = utc_timestamp(1_700_000_000.0)


class Spoken(NamedTuple):
    """One event and its signed bytes."""

    event: Event
    payload: bytes


def records() -> list[JobRecord]:
    """Return pending jobs."""
    return [JobRecord(f"{n:08x}", new_token(), STAMP, STAMP, title=f"job {n}") for n in range(JOBS)]


def story(jobs: Sequence[JobRecord], count: int) -> list[Spoken]:
    """Return `count` events of the jobs in turns."""
    spoken = []
    for number in range(count):
        job, seq = jobs[number % len(jobs)], number // len(jobs) + 1
        event = compose(
            seq=seq,
            job_id=job.job_id,
            event="started" if seq == 1 else "progress",
            timestamp=STAMP,
            detail=f"step {seq} of many",
            data={"percent": seq % 100},
        )
        spoken.append(Spoken(event, encode_signed(event, job.auth_token)))
    return spoken


def folded(before: JobRecord, spoken: Spoken) -> tuple[JobRecord, bytes]:
    """Return the record after the event, and the history's line: the same work for each way."""
    now = time.time()
    after = apply_event(before, spoken.event, now)
    line, _ = event_line(
        at=utc_timestamp(now),
        source="bench",
        verdict="accepted",
        attempt=after.attempt,
        seq=spoken.event.seq,
        digest=payload_digest(spoken.payload),
        payload=spoken.payload,
    )
    return after, line


class InFiles:
    """The registry's own records."""

    def __init__(self, folder: Path, jobs: Sequence[JobRecord]) -> None:
        self._store = RecordStore(folder / "home")
        for job in jobs:
            self._store.create(job)

    def apply(self, part: Sequence[Spoken]) -> None:
        """Fold these events, each of another job."""
        if len(part) == 1:
            self._store.apply(part[0].event.job_id, *part[0], source="bench")
            return
        held = [file_lock.try_acquire(self._store.lock_path(spoken.event.job_id)) for spoken in part]
        revisions = []
        for spoken in part:
            before = self._store.read_locked(spoken.event.job_id)
            after, line = folded(before, spoken)
            revisions.append(Revision(before, after, [line]))
        self._store.write(revisions)
        for descriptor in held:
            assert descriptor is not None
            file_lock.release(descriptor)


class Bare:
    """The system calls that the durable write promises, and nothing else: no decoding, fold or lock."""

    def __init__(self, folder: Path, jobs: Sequence[JobRecord]) -> None:
        self._folder = str(folder / "bare")
        Path(self._folder).mkdir()
        self._record = {job.job_id: encode_record(job) for job in jobs}
        for job_id, record in self._record.items():
            for name in (f"{job_id}.json", f"{job_id}.log"):
                Path(self._folder, name).write_bytes(record)

    def apply(self, part: Sequence[Spoken]) -> None:
        """Write a line and a record of the usual size for each."""
        logs, temporaries = [], []
        for spoken in part:
            job_id = spoken.event.job_id
            log = os.open(f"{self._folder}/{job_id}.log", os.O_WRONLY | os.O_APPEND)
            os.write(log, spoken.payload)
            logs.append(log)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            temporary = os.open(f"{self._folder}/.{job_id}.tmp", flags, 0o600)
            os.write(temporary, self._record[job_id])
            temporaries.append(temporary)
        for log in logs:
            os.fdatasync(log)
        for temporary in temporaries:
            os.fsync(temporary)
        for spoken in part:
            job_id = spoken.event.job_id
            source = f"{self._folder}/.{job_id}.tmp"
            os.rename(source, f"{self._folder}/{job_id}.json")  # noqa: PTH104 - nothing but the call
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        for descriptor in (*logs, *temporaries, folder):
            os.close(descriptor)


class InSqlite:
    """The same in SQLite."""

    def __init__(self, folder: Path, jobs: Sequence[JobRecord]) -> None:
        self._path = folder / "jobs.sqlite"
        self._db = self._connect()
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records (job_id TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS history (n INTEGER PRIMARY KEY, job_id TEXT, line BLOB)")
        for job in jobs:
            self._db.execute("INSERT INTO records VALUES (?, ?)", (job.job_id, encode_record(job)))

    def another(self) -> "InSqlite":
        """Return the same database over a connection of its own: a connection is for one thread."""
        return InSqlite(self._path.parent, ())

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, timeout=60.0, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        return db

    def apply(self, part: Sequence[Spoken]) -> None:
        """Fold these events in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        for spoken in part:
            job_id = spoken.event.job_id
            row = self._db.execute("SELECT body FROM records WHERE job_id = ?", (job_id,)).fetchone()
            after, line = folded(decode_record(row[0]), spoken)
            self._db.execute("INSERT INTO history (job_id, line) VALUES (?, ?)", (job_id, line))
            body = encode_record(after)
            self._db.execute("UPDATE records SET body = ? WHERE job_id = ?", (body, job_id))
        self._db.execute("COMMIT")


Way = InFiles | Bare | InSqlite
