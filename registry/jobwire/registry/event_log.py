"""The events of a job whose record is on this disk: no process of the registry is needed."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from jobwire.core.errors import InvalidInputError, StorageError, TransitionError
from jobwire.core.ports import Message
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.delivery.outbox import (
    Outbox,
    Position,
    SignedEvent,
    damaged_outboxes,
    job_outboxes,
    send_lock_name,
)
from jobwire.delivery.signing import Draft, check_attempt, check_open, event_in, sign_next
from jobwire.jobs.event import Event
from jobwire.registry.layout import SERVE_FILE, SERVE_LOCK
from jobwire.registry.store import LockedRecord, RecordStore
from jobwire.storage import file_lock
from jobwire.transport import load_settings

SOURCE = "publisher"
# A worker that lives has sent its event long before.
SETTLED_SECONDS = 3.0


class HomeEventLog:
    """See `EventLog`. `attempt` pins the attempt that this worker was started for; None speaks for any.

    Order of locks: send lock before record lock.
    """

    def __init__(self, store: RecordStore, job_id: str, *, attempt: int | None) -> None:
        self.job_id = job_id
        self._store = store
        self._serve_file = Path(store.home, SERVE_FILE)
        self._attempt = attempt
        self.outbox = Outbox(store.outbox_path(job_id), files=store.files)

    def pin(self) -> None:
        """See `EventLog.pin`."""
        if self._attempt is None:
            self._attempt = self._store.get(self.job_id).attempt

    def settings(self, command_line: Mapping[str, object], environ: Mapping[str, str]) -> BrokerSettings:
        """See `EventLog.settings`."""
        return load_settings(
            home=Path(self._store.home),
            role=Role.WORKER,
            command_line=command_line,
            record=self._store.get(self.job_id).broker,
            environ=environ,
        )

    def append(self, draft: Draft) -> SignedEvent:
        """See `EventLog.take`: outbox, then history and record, each flushed, under the record's lock."""
        with self._store.locked(self.job_id) as locked:
            self._finish_half_done(locked)
            record = locked.record
            check_attempt(record, self._attempt)
            check_open(record)
            event, entry = sign_next(record, draft, seq=record.last_seq + 1, now=self._store.clock.now())
            self.outbox.append(entry)
            self._apply(locked, event, entry)
            return entry

    def recover(self) -> Position:
        """See `EventLog.recover`."""
        with self._store.locked(self.job_id) as locked:
            self.outbox.set_aside()
            self._finish_half_done(locked)
            check_attempt(locked.record, self._attempt)
        return self.position()

    def position(self) -> Position:
        """See `EventLog.position`."""
        record = self._store.get(self.job_id)
        confirmed = record.confirmed_seq if self._serve_file.exists() else None
        return Position(record.attempt, record.last_seq, confirmed)

    def is_attended(self) -> bool:
        """See `EventLog.is_attended`: serve.json stays when the process ends, its lock goes with it."""
        return file_lock.is_held(self._store.lock_path(SERVE_LOCK))

    def trim(self, through_seq: int) -> None:
        """See `EventLog.trim`: of a job that ended and is confirmed, nothing is left."""
        with self._store.locked(self.job_id) as locked:
            if locked.record.terminal and self.outbox.last_seq <= locked.record.confirmed_seq:
                self.outbox.remove()
            else:
                self.outbox.trim(through_seq)

    @contextlib.contextmanager
    def sending(self, *, deadline_seconds: float) -> Iterator[None]:
        """See `EventLog.sending`."""
        with file_lock.held(
            self._store.lock_path(send_lock_name(self.job_id)),
            clock=self._store.clock,
            deadline_seconds=deadline_seconds,
            what=f"the sending of job {self.job_id}",
        ):
            yield

    def filters(self, topic_root: str) -> list[str]:  # noqa: ARG002 - the record tells it
        """See `EventLog.filters`."""
        return []

    def hear(self, message: Message) -> None:
        """See `EventLog.hear`."""

    def check_stopped(self) -> None:
        """See `EventLog.check_stopped`: `take` has looked, under the lock."""

    def _apply(self, locked: LockedRecord, event: Event, entry: SignedEvent) -> None:
        """Bring the record up to the outbox; where the disk refuses, take the entry back."""
        try:
            locked.apply(event, entry.payload, source=SOURCE)
        except StorageError:
            # Where the record is new and only its name could not be flushed, the event stays, as after a
            # crash there; but nothing is promised: a flush that failed once is not made good by another
            # (fsync(2), EIO).
            if self._store.get(self.job_id).last_seq < entry.seq:
                self.outbox.take_back(entry)
            raise

    def _finish_half_done(self, locked: LockedRecord) -> None:
        """Apply what a crash left in the outbox but not in the record; drop what no longer fits.

        Nothing of it was sent: sending stops at the record's last seq.
        """
        last = self.outbox.last()
        if last is None or last.seq <= locked.record.last_seq:
            return
        for entry in self.outbox.entries(after=locked.record.last_seq):
            if not self._applied(locked, entry):
                kept = [item for item in self.outbox.entries() if item.seq <= locked.record.last_seq]
                self.outbox.rewrite(kept)
                return

    def _applied(self, locked: LockedRecord, entry: SignedEvent) -> bool:
        # The job may have been cancelled or claimed again since; its numbers go to the next attempt.
        if entry.attempt != locked.record.attempt:
            return False
        try:
            locked.apply(event_in(entry), entry.payload, source=SOURCE)
        except (TransitionError, InvalidInputError):
            return False
        return True


class HomeOutboxes:
    """The outboxes of one home; see `delivery.relay.Outboxes`."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def waiting(self) -> list[str]:
        """See `Outboxes.waiting`."""
        return job_outboxes(self._store.outbox_dir())

    def is_settled(self, job_id: str) -> bool:
        """See `Outboxes.is_settled`."""
        try:
            status = os.stat(self._store.outbox_path(job_id))  # noqa: PTH116 - asked of each outbox, each round
        except OSError:
            return False
        age = self._store.clock.now() - status.st_mtime
        # A file from the future was written before the clock was set back.
        return status.st_size > 0 and not 0 <= age < SETTLED_SECONDS

    def open(self, job_id: str) -> HomeEventLog:
        """See `Outboxes.open`."""
        return HomeEventLog(self._store, job_id, attempt=None)

    def damaged(self) -> list[str]:
        """See `Outboxes.damaged`."""
        return damaged_outboxes(self._store.outbox_dir())
