"""The records on disk: read, lock, change, and keep the history.

On the path of every `publish_event`: no pydantic, dataclasses, asyncio or pathlib is imported here.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from jobwire.core.clock import epoch, utc_timestamp
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TransitionError,
)
from jobwire.core.late_log import LateLog
from jobwire.core.topics import check_job_id
from jobwire.delivery.signing import event_in
from jobwire.jobs.event import MAX_JUMP
from jobwire.jobs.fold import answer, apply_event
from jobwire.jobs.record import (
    REGISTRY,
    JobRecord,
    RecordFormatError,
    RecordVersionError,
    decode_record,
    encode_record,
    thread_of,
)
from jobwire.jobs.requests import Answer, RequestState, find
from jobwire.registry import quarantine
from jobwire.registry.audit import (
    PUBLISHER,
    AuditLog,
    HeldEvent,
    event_line,
    payload_digest,
    request_line,
    status_line,
)
from jobwire.registry.layout import TOUCHED, HomeLayout
from jobwire.registry.revision import Revision, index_differs, moved_requests, state_of, thread_differs
from jobwire.storage import file_lock
from jobwire.storage.durable import change_durably, remove_durably, replace_atomically
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import read_whole
from jobwire.storage.user import user_name
from jobwire.storage.wake import touch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from jobwire.core.clock import Clock
    from jobwire.jobs.event import Event
    from jobwire.storage.files import FileSystem

__all__ = ["TOUCHED", "LockedRecord", "RecordStore", "payload_digest"]

# Who writes the history when a limit is reached.
REAPER = "reaper"
# What a history's line says of an answer.
_ANSWER_FIELDS = ("answer", "by", "through", "always", "at")
# Jobs that one error names.
_NAMED = 5
# Records that need not be decoded again, and the longest of them.
_REMEMBERED = 1024
_REMEMBERED_BYTES = 8192
_log = LateLog("jobwire.registry")


class RecordStore(HomeLayout):
    """All jobs below one home directory. Safe for any number of processes and threads.

    Methods raise InvalidInputError for what is not a job id, NotFoundError for an unknown job,
    UnreadableRecordError where its record cannot be made sense of (QuarantinedRecordError once it was
    moved aside, which only those do that hold its lock), and StorageError for the disk.
    """

    def __init__(
        self, home: Path | str, *, clock: Clock | None = None, files: FileSystem | None = None
    ) -> None:
        super().__init__(home, clock=clock, files=files)
        # By job, what was written here last: decoding those very bytes would give that record. Of jobs that
        # go on: what an ended one holds came from a caller, who may change it.
        self._written: dict[str, tuple[bytes, JobRecord]] = {}

    def get(self, job_id: str) -> JobRecord:
        """Return the record as it is now, without a lock. Moves nothing, whatever it finds."""
        try:
            return self._read(job_id)
        except RecordFormatError as error:
            raise quarantine.damaged(job_id, self.record_path(job_id), error) from error

    def repair(
        self, job_id: str, *, deadline_seconds: float = file_lock.DEFAULT_DEADLINE_SECONDS
    ) -> JobRecord:
        """Return the record; a damaged one goes to quarantine, under its lock. Raises as `locked`."""
        with self.locked(job_id, deadline_seconds=deadline_seconds) as locked:
            return locked.record

    def require(self, job_id: str) -> None:
        """Raise NotFoundError, or QuarantinedRecordError, where the job has no record."""
        if not self.exists(job_id):
            raise self._missing(job_id)

    @contextlib.contextmanager
    def locked(
        self, job_id: str, *, deadline_seconds: float = file_lock.DEFAULT_DEADLINE_SECONDS
    ) -> Iterator[LockedRecord]:
        """Hold the job's lock for the block and yield its record for changing.

        Blocks up to `deadline_seconds`, then raises LockTimeoutError naming the holder's pid.
        """
        self.require(job_id)
        with self._lock(job_id, deadline_seconds):
            yield LockedRecord(self, self.read_locked(job_id))

    def apply(self, job_id: str, event: Event, payload: bytes, *, source: str) -> JobRecord:
        """Fold one accepted event into the record, durably; the same record where it was applied before.

        `payload` is the signed message. Raises TransitionError where the lifecycle forbids it.
        """
        with self.locked(job_id) as locked:
            return locked.apply(event, payload, source=source)

    def create(self, record: JobRecord, *, cause: str = "registered", source: str = "registry") -> None:
        """Write the record, history and meta.json of a new job; raises ConflictError if the id is taken."""
        self.make_layout()
        with self._lock(record.job_id, file_lock.DEFAULT_DEADLINE_SECONDS):
            if self.exists(record.job_id):
                raise ConflictError(f"job {record.job_id} exists already", job_id=record.job_id)
            log = self.audit(record.job_id)
            line, _ = status_line(
                at=record.created_at,
                source=source,
                attempt=record.attempt,
                before=None,
                after=str(record.status),
                cause=cause,
                by=_author(record, source),
            )
            self._put(
                [(self.record_path(record.job_id), encode_record(record))],
                marked=[record.job_id],
                append=[(log.events_path, line)],
                before=[log.meta(record)],
                threads=[record] if thread_of(record) else [],
            )
            self._copy_status([record])

    def write(self, revisions: Sequence[Revision], *, announce: bool = True) -> None:
        """Write changed records and their history; everything is on the disk on return.

        All lines are flushed before the first record is replaced, each record is replaced whole or not
        at all. The caller holds every record's lock. Without `announce` the registry process is not told:
        for its own changes. Raises StorageError: then the lines may be there and an unknown part of the
        records is replaced.
        """
        append = [
            (self.audit(one.after.job_id).events_path, b"".join(one.lines)) for one in revisions if one.lines
        ]
        changed = [one for one in revisions if one.after != one.before]
        marked = [one.after.job_id for one in changed if index_differs(one)]
        threads = [one.after for one in changed if thread_of(one.after) and thread_differs(one)]
        replace = [
            (self.record_path(one.after.job_id), encode_record(one.after, known=one.before))
            for one in changed
        ]
        self._put(replace, marked=marked, append=append, threads=threads, announce=announce)
        self._remember([(one.after, payload) for one, (_, payload) in zip(changed, replace, strict=True)])
        self._copy_status([one.after for one in changed if state_of(one.after) != state_of(one.before)])
        asked = [one for one in changed if one.after.requests != one.before.requests]
        # Each waits for its own: of two hundred open ones, the others are not woken by it.
        names = {f"request:{name}" for one in asked for name in _requests_changed(one)}
        names |= {f"thread:{thread_of(record)}" for record in threads}
        touch(self.home, {*names, "requests"} if asked else names)

    def _remember(self, written: Sequence[tuple[JobRecord, bytes]]) -> None:
        if len(self._written) > _REMEMBERED:
            self._written.clear()
        for record, payload in written:
            if not record.terminal and len(payload) < _REMEMBERED_BYTES:
                self._written[record.job_id] = payload, record

    def unread_error(self, job_ids: Collection[str]) -> StorageError:
        """Return the error for jobs that the operating system kept from whoever shows all jobs."""
        first = sorted(job_ids)[:_NAMED]
        more = f" and {len(job_ids) - len(first)} more" if len(job_ids) > len(first) else ""
        return StorageError(
            f"the list is incomplete: {', '.join(first)}{more} in {self.home} could not be read",
            hint="the warnings say why; see the owner and mode of the records, and the disk",
            job_ids=first,
        )

    def audit(self, job_id: str) -> AuditLog:
        """Return the job's history."""
        return AuditLog(self.log_dir(job_id))

    def read_locked(self, job_id: str) -> JobRecord:
        """Return the record, brought up to its history; the caller holds its lock.

        One that cannot be parsed goes to quarantine.
        """
        try:
            record = self._read(job_id)
        except RecordFormatError as error:
            at = utc_timestamp(self.clock.now())
            item = quarantine.move_aside(
                self.jobs_path(), job_id, reason=error.message, at=at, files=self.files
            )
            raise quarantine.error_for(item) from error
        record = self._caught_up(record, self.audit(job_id).ahead_of(record.last_seq))
        if record.attention:
            record = self._answered(record)
        if os.access(self.outbox_path(job_id), os.F_OK):
            record = self._taken_over(record)
        return record

    def _caught_up(self, record: JobRecord, ahead: Sequence[HeldEvent]) -> JobRecord:
        """Apply what a crash left in the history and not in the record."""
        new = record
        for held in ahead:
            if held.attempt == record.attempt:
                with contextlib.suppress(TransitionError, InvalidInputError):
                    new = apply_event(new, event_in(held.seq, held.payload), epoch(held.at))
        if new is not record:
            # The lines' writer may have been killed before the flush: nothing is added to them, and flushed.
            self.write([Revision(record, new, (b"",))])
            self.mark_unsent(record.job_id)
        return new

    def _answered(self, record: JobRecord) -> JobRecord:
        """Apply the answer that a crash left in the history and not in the record: it was the first."""
        line = self.audit(record.job_id).last() or {}
        if line.get("kind") != "request" or line.get("after") != RequestState.ANSWERED:
            return record
        asked = find(record.requests, str(line.get("request")))
        if asked is None or asked.state is not RequestState.OPEN or line.get("attempt") != record.attempt:
            return record
        text, by, through, always, at = (line.get(name) for name in _ANSWER_FIELDS)
        if not (isinstance(text, str) and isinstance(by, str) and isinstance(through, str)):
            return record  # a damaged line: what it said is not known, and the question is open
        try:
            new = answer(record, asked.id, Answer(text, by, through, always is True), epoch(str(at)))
        except (InvalidInputError, ValueError):
            return record
        self.write([Revision(record, new, (b"",))])
        return new

    def _taken_over(self, record: JobRecord) -> JobRecord:
        """Take over the outbox of an earlier version: what a crash kept from the history goes there."""
        from jobwire.delivery.outbox_file import OutboxFile  # noqa: PLC0415 - once after an upgrade

        old = OutboxFile(self.outbox_path(record.job_id), files=self.files)
        locked = LockedRecord(self, record)
        entries = old.entries()
        for entry in entries:
            if entry.seq > record.last_seq and entry.attempt == record.attempt:
                with contextlib.suppress(TransitionError, InvalidInputError):
                    locked.apply(event_in(entry.seq, entry.payload), entry.payload, source=PUBLISHER)
        old.set_aside()
        if entries:
            self.mark_unsent(record.job_id)
        remove_durably([old.path], files=self.files)
        return locked.record

    def _read(self, job_id: str) -> JobRecord:
        path = self.record_path(job_id)
        written, record = self._written.get(job_id, (b"", None))
        try:
            payload = read_whole(path)
            if record is None or payload != written:
                record = decode_record(payload)
        except FileNotFoundError:
            raise self._missing(job_id) from None
        except OSError as error:
            raise storage_failure("read", path, error) from error
        except RecordVersionError as error:
            raise quarantine.unknown_version(job_id, path, error) from error
        if record.job_id != job_id:
            raise RecordFormatError(f"it is the record of job {record.job_id}", field="job_id")
        return record

    def _put(
        self,
        replace: Sequence[tuple[str, bytes]],
        *,
        marked: Sequence[str],
        append: Sequence[tuple[str, bytes]],
        before: Sequence[tuple[str, bytes]] = (),
        threads: Sequence[JobRecord] = (),
        announce: bool = True,
    ) -> None:
        """Append lines and replace records, durably.

        The index is told of the jobs that are `marked`, the coordination store of those in `threads`.
        """
        for job_id in marked:
            self.touch(job_id, announce=announce)
        for record in threads:
            self.mark_thread(record.job_id)
        change_durably(append=append, before=before, replace=replace, files=self.files)
        for job_id in marked:
            self.touch(job_id, announce=announce)
        for record in threads:
            self.mark_thread(record.job_id)

    def _copy_status(self, records: Sequence[JobRecord]) -> None:
        """Write status.json of each; not flushed, because it repeats the record.

        The change is made and promised by now: a copy that cannot be written must not deny it. An old
        one is removed, so that no script reads what is no longer so.
        """
        copies = [self.audit(record.job_id).status(record) for record in records]
        try:
            replace_atomically(copies, files=self.files)
        except StorageError as error:
            _log.warning("%s; the record itself is written", error.message)
            for path, _ in copies:
                with contextlib.suppress(OSError):
                    self.files.unlink(path)

    def _lock(self, job_id: str, deadline_seconds: float) -> contextlib.AbstractContextManager[None]:
        return file_lock.held(
            self.lock_path(check_job_id(job_id)),
            clock=self.clock,
            deadline_seconds=deadline_seconds,
            what=f"job {job_id}",
        )

    def _missing(self, job_id: str) -> Exception:
        aside = quarantine.find(self.jobs_path(), job_id)
        if aside:
            return quarantine.error_for(aside[-1])
        return NotFoundError(
            f"no job {job_id} in {self.home}",
            hint="`jobwire list` shows the jobs; --home or JOBWIRE_HOME names another directory",
            job_id=job_id,
            home=self.home,
        )


class LockedRecord:
    """A record under its lock: `record` is what the disk holds; both methods move it on."""

    def __init__(self, store: RecordStore, record: JobRecord) -> None:
        self._store = store
        self.record = record

    def replace(
        self, new: JobRecord, *, cause: str, source: str = "registry", by: str = "", op: str = ""
    ) -> JobRecord:
        """Write `new`, durably; what changed first gets its line, with `cause`, in the history.

        That is a new status or attempt, with who did it (`by`, or who holds the lease now, or the user of
        this process), else each request that moved on.
        Does nothing where `new` equals the present record. Raises StorageError: then the record is
        unchanged, or new and not known to be flushed.
        """
        if new == self.record:
            self._store.flush_names()
            return new
        if new.job_id != self.record.job_id:
            raise ValueError("a record keeps its job id")
        common = {"at": self._now(), "source": source, "cause": cause}
        if state_of(new) != state_of(self.record):
            before, after = str(self.record.status), str(new.status)
            said = {"by": by or _author(new, source), "timeout": new.timed_out or "", "op": op}
            line = status_line(attempt=new.attempt, before=before, after=after, **said, **common)[0]
        else:
            moved = [
                request_line(attempt=new.attempt, before=str(before), after=one, op=op, **common)[0]
                for one, before in moved_requests(self.record, new)
            ]
            line = b"".join(moved)
        if not line:
            return self._write(new)
        # A known line was written by a process that may have been killed before the flush: nothing is
        # added to it, and flushed.
        return self._write(new, b"" if self._store.audit(new.job_id).ends_with(line) else line)

    def apply(self, event: Event, payload: bytes, *, source: str, call: str = "") -> JobRecord:
        """Fold one accepted event, durably; does nothing where it was applied before.

        `call`: see `event_log.Once`.
        Raises TransitionError where the lifecycle forbids it, InvalidInputError for a seq that no reader
        takes, StorageError as `replace` does.
        """
        if event.seq - self.record.last_seq > MAX_JUMP:
            raise InvalidInputError(
                f"seq {event.seq} is more than {MAX_JUMP} above {self.record.last_seq}",
                hint="an event's seq is one more than that of the one before it",
            )
        now = self._store.clock.now()
        new = apply_event(self.record, event, now)
        if new is self.record:
            self._store.flush_names()
            return new
        if source == PUBLISHER:
            self._store.mark_unsent(new.job_id)
        changed = new.status is not self.record.status
        line = event_line(
            at=utc_timestamp(now),
            source=source,
            verdict="accepted",
            attempt=new.attempt,
            seq=event.seq,
            digest=payload_digest(payload),
            payload=payload,
            change=(str(self.record.status), str(new.status)) if changed else None,
            call=call,
        )
        # Were it in the history already, the record would have been brought up to it.
        return self._write(new, line[0])

    def _write(self, new: JobRecord, *lines: bytes) -> JobRecord:
        self._store.write([Revision(self.record, new, lines)])
        self.record = new
        return new

    def _now(self) -> str:
        return utc_timestamp(self._store.clock.now())


def _author(record: JobRecord, source: str) -> str:
    """Return who made the record what it is now."""
    if record.lease is not None:
        return record.lease.owner
    if source != REGISTRY:
        return REGISTRY if source == REAPER else source
    return user_name()


def _requests_changed(one: Revision) -> list[str]:
    """Return the requests that were there before and are not as they were."""
    after = {request.id: request for request in one.after.requests}
    return [request.id for request in one.before.requests if after.get(request.id) != request]
