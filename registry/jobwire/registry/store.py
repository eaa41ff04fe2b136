"""The records on disk: read, lock, change, and keep the history.

On the path of every `publish_event`: no pydantic, dataclasses, asyncio or pathlib is imported here.
"""

from __future__ import annotations

import contextlib
import os
import os.path
from typing import TYPE_CHECKING

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.core.fold import apply_event
from jobwire.core.record import JobRecord, RecordFormatError, decode_record, encode_record
from jobwire.core.topics import check_job_id
from jobwire.registry import locks, quarantine
from jobwire.registry.audit import AuditLog, Line, event_line, status_line
from jobwire.registry.files import (
    TEMPORARY,
    FileSystem,
    SystemFiles,
    replace_durably,
    storage_failure,
    temporary_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jobwire.core.clock import Clock
    from jobwire.core.event import Event

JOBS = "jobs"
QUEUE = "queue"
TOUCHED = "touched"
LOCKS = "locks"
LOGS = "logs"
OUTBOX = "outbox"
# In the order of their making; the last one tells that all are there.
_FOLDERS = (JOBS, LOCKS, LOGS, OUTBOX, QUEUE, f"{QUEUE}/{TOUCHED}")
# A digest marks a message in history; it needs no more than admission's 128 bits.
_DIGEST_BYTES = 16


def payload_digest(payload: bytes) -> bytes:
    """Return what tells two payloads apart, as `admission.digest_of` does (which brings pydantic)."""
    import hashlib  # noqa: PLC0415 - loaded by the signature anyway; kept off plain reading

    return hashlib.sha256(payload).digest()[:_DIGEST_BYTES]


class RecordStore:
    """All jobs below one home directory. Safe for any number of processes and threads.

    Nothing is created before the first write. Methods raise InvalidInputError for what is no job id,
    NotFoundError for an unknown job, QuarantinedRecordError where its record could not be read, and
    StorageError for the disk.
    """

    def __init__(
        self, home: Path | str, *, clock: Clock | None = None, files: FileSystem | None = None
    ) -> None:
        self.home = os.fspath(home)
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.files: FileSystem = files if files is not None else SystemFiles()

    def get(self, job_id: str) -> JobRecord:
        """Return the record as it is now, without a lock."""
        path = self.record_path(job_id)
        try:
            return _read(path, job_id)
        except FileNotFoundError:
            raise self._missing(job_id) from None
        except OSError as error:
            raise storage_failure("read", path, error) from error
        except RecordFormatError:
            # Moving it is a write: under the lock, and only if it is still unreadable there.
            with self._lock(job_id, locks.DEFAULT_DEADLINE_SECONDS):
                return self._read_locked(job_id)

    def exists(self, job_id: str) -> bool:
        """Tell whether the job has a record."""
        return os.path.exists(self.record_path(job_id))

    @contextlib.contextmanager
    def locked(
        self, job_id: str, *, deadline_seconds: float = locks.DEFAULT_DEADLINE_SECONDS
    ) -> Iterator[LockedRecord]:
        """Hold the job's lock for the block and yield its record for changing.

        Blocks up to `deadline_seconds`, then raises LockTimeoutError naming the holder's pid.
        """
        if not self.exists(job_id):
            raise self._missing(job_id)
        with self._lock(job_id, deadline_seconds):
            yield LockedRecord(self, self._read_locked(job_id))

    def apply(self, job_id: str, event: Event, payload: bytes, *, source: str) -> JobRecord:
        """Fold one accepted event into the record, durably; the same record where it was applied before.

        `payload` is the signed message. Raises TransitionError where the lifecycle forbids it.
        """
        with self.locked(job_id) as locked:
            return locked.apply(event, payload, source=source)

    def create(self, record: JobRecord, *, cause: str = "registered", source: str = "registry") -> None:
        """Write the record, history and meta.json of a new job; raises ConflictError if the id is taken."""
        self.make_layout()
        with self._lock(record.job_id, locks.DEFAULT_DEADLINE_SECONDS):
            if self.exists(record.job_id):
                raise ConflictError(f"job {record.job_id} exists already", job_id=record.job_id)
            log = self.audit(record.job_id)
            log.begin(record)
            after = str(record.status)
            log.append(
                status_line(
                    at=record.created_at,
                    source=source,
                    attempt=record.attempt,
                    before=None,
                    after=after,
                    cause=cause,
                )
            )
            self.touch(record.job_id)
            replace_durably(self.record_path(record.job_id), encode_record(record), files=self.files)
            log.write_status(record)

    def job_ids(self) -> Iterator[str]:
        """Yield every job id that has a record, in no order; cost grows with their number."""
        try:
            with os.scandir(self._path(JOBS)) as entries:
                for entry in entries:
                    name = entry.name
                    if name.endswith(".json") and not name.startswith("."):
                        yield name.removesuffix(".json")
        except FileNotFoundError:
            return

    def audit(self, job_id: str) -> AuditLog:
        """Return the job's history."""
        return AuditLog(self.log_dir(job_id), files=self.files)

    def record_path(self, job_id: str) -> str:
        """Return `jobs/<job_id>.json`."""
        return self._path(JOBS, f"{check_job_id(job_id)}.json")

    def log_dir(self, job_id: str) -> str:
        """Return `logs/<job_id>`, which holds the history and the worker's output.log."""
        return self._path(LOGS, check_job_id(job_id))

    def outbox_path(self, job_id: str) -> str:
        """Return `outbox/<job_id>.ndjson`."""
        return self._path(OUTBOX, f"{check_job_id(job_id)}.ndjson")

    def lock_path(self, name: str) -> str:
        """Return `locks/<name>.lock`: a job id for its record, `queue`, or a component's own name."""
        return self._path(LOCKS, f"{name}.lock")

    def queue_path(self, *parts: str) -> str:
        """Return a path below `queue/`."""
        return self._path(QUEUE, *parts)

    def jobs_path(self) -> str:
        """Return `jobs/`."""
        return self._path(JOBS)

    def has_jobs(self) -> bool:
        """Tell whether anything was ever written here."""
        return os.path.isdir(self._path(JOBS))

    def make_layout(self) -> None:
        """Create the directories, mode 0700; existing ones are left as they are."""
        if os.path.isdir(self._path(_FOLDERS[-1])):
            return
        try:
            self._make_home(os.path.abspath(self.home))
            for name in _FOLDERS:
                self.files.make_directory(self._path(name))
            self.files.sync_directory(self._path(QUEUE))
            self.files.sync_directory(self.home)
        except OSError as error:
            raise storage_failure("create", self.home, error) from error

    def touch(self, job_id: str) -> None:
        """Tell the pending index that this job's status changes (pending.py says how it is used)."""
        marker = self.queue_path(TOUCHED, job_id)
        try:
            _create_empty(marker)
        except FileNotFoundError:
            self.make_layout()
            _create_empty(marker)
        except OSError as error:
            raise storage_failure("mark", marker, error) from error

    def sweep(self, job_id: str) -> None:
        """Remove the temporary file that a crash left of this record; a writer at work is left alone."""
        stale = temporary_name(self.record_path(job_id))
        if not os.path.exists(stale):
            return
        descriptor = locks.try_acquire(self.lock_path(job_id))
        if descriptor is None:
            return
        try:
            self.files.unlink(stale)
        except OSError as error:
            raise storage_failure("remove", stale, error) from error
        finally:
            locks.release(descriptor)

    def sweep_all(self) -> None:
        """Remove every temporary file that crashes left of records; cost grows with their number."""
        try:
            names = os.listdir(self._path(JOBS))
        except FileNotFoundError:
            return
        for name in names:
            if name.startswith(".") and name.endswith(f".json{TEMPORARY}"):
                self.sweep(name[1:].removesuffix(f".json{TEMPORARY}"))

    def _make_home(self, path: str) -> None:
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            self._make_home(parent)
        self.files.make_directory(path)

    def _path(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)

    def _lock(self, job_id: str, deadline_seconds: float) -> contextlib.AbstractContextManager[None]:
        return locks.held(
            self.lock_path(check_job_id(job_id)),
            clock=self.clock,
            deadline_seconds=deadline_seconds,
            what=f"job {job_id}",
        )

    def _read_locked(self, job_id: str) -> JobRecord:
        path = self.record_path(job_id)
        try:
            return _read(path, job_id)
        except FileNotFoundError:
            raise self._missing(job_id) from None
        except OSError as error:
            raise storage_failure("read", path, error) from error
        except RecordFormatError as error:
            at = utc_timestamp(self.clock.now())
            item = quarantine.move_aside(
                self.jobs_path(), job_id, reason=error.message, at=at, files=self.files
            )
            raise quarantine.error_for(item) from error

    def _missing(self, job_id: str) -> Exception:
        aside = quarantine.find(self.jobs_path(), job_id)
        if aside:
            return quarantine.error_for(aside[-1])
        return NotFoundError(
            f"no job {job_id} in {self.home}",
            hint="`jobwire registry list` shows the jobs; --home or JOBWIRE_HOME names another directory",
            job_id=job_id,
            home=self.home,
        )


class LockedRecord:
    """A record under its lock: `record` is what the disk holds; both methods move it on."""

    def __init__(self, store: RecordStore, record: JobRecord) -> None:
        self._store = store
        self.record = record

    def replace(self, new: JobRecord, *, cause: str, source: str = "registry") -> JobRecord:
        """Write `new`, durably; a new status or attempt first gets its line, with `cause`, in the history.

        Does nothing where `new` equals the present record. Raises StorageError: then the record is
        unchanged.
        """
        line = None
        if _state(new) != _state(self.record):
            line = status_line(
                at=self._now(),
                source=source,
                attempt=new.attempt,
                before=str(self.record.status),
                after=str(new.status),
                cause=cause,
            )
        return self._write(new, line)

    def apply(self, event: Event, payload: bytes, *, source: str) -> JobRecord:
        """Fold one accepted event, durably; does nothing where it was applied before.

        Raises TransitionError where the lifecycle forbids it, StorageError: then nothing changed.
        """
        new = apply_event(self.record, event, self._store.clock.now())
        if new is self.record:
            return new
        changed = new.status is not self.record.status
        line = event_line(
            at=self._now(),
            source=source,
            verdict="accepted",
            attempt=new.attempt,
            seq=event.seq,
            digest=payload_digest(payload),
            payload=payload,
            change=(str(self.record.status), str(new.status)) if changed else None,
        )
        return self._write(new, line)

    def _write(self, new: JobRecord, line: tuple[bytes, Line] | None) -> JobRecord:
        store, before = self._store, self.record
        if new == before:
            return before
        if new.job_id != before.job_id:
            raise ValueError("a record keeps its job id")
        log = store.audit(new.job_id)
        if line is not None:
            log.append(line)
        indexed = _indexed(new) != _indexed(before) or _due_earlier(new, before)
        if indexed:
            # Before and again after: a reader of the index in between would use up the first mark.
            store.touch(new.job_id)
        replace_durably(store.record_path(new.job_id), encode_record(new), files=store.files)
        self.record = new
        if indexed:
            store.touch(new.job_id)
        if _state(new) != _state(before):
            log.write_status(new)
        return new

    def _now(self) -> str:
        return utc_timestamp(self._store.clock.now())


def _state(record: JobRecord) -> tuple[str, int]:
    return str(record.status), record.attempt


def _indexed(record: JobRecord) -> tuple[object, ...]:
    """Return what the pending index holds of a record, but for the time of its next limit."""
    return (*_state(record), record.agent_session, record.priority, record.timeouts)


def _due_earlier(new: JobRecord, before: JobRecord) -> bool:
    """Tell whether a lease was given or cut; one that was extended is found by the reaper in time."""
    if new.lease is None:
        return False
    # Equal forms of one clock: ISO 8601 UTC compares as text.
    return before.lease is None or new.lease.expires_at < before.lease.expires_at


def _create_empty(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _read(path: str, job_id: str) -> JobRecord:
    with open(path, "rb") as file:
        record = decode_record(file.read())
    if record.job_id != job_id:
        raise RecordFormatError(f"it is the record of job {record.job_id}", field="job_id")
    return record
