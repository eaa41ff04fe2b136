"""The log of a job whose record is on this disk: no process of the registry is needed."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import JobwireError
from jobwire.core.late_log import LateLog
from jobwire.core.topics import is_job_id
from jobwire.delivery.outbox import Position, SentMarkFile, SignedEvent
from jobwire.delivery.signing import Draft, check_attempt, check_open, sign_next
from jobwire.registry.audit import PUBLISHER
from jobwire.registry.history_outbox import HistoryOutbox
from jobwire.registry.layout import SERVE_FILE, SERVE_LOCK, send_lock_name
from jobwire.storage import file_lock
from jobwire.storage.durable import replace_atomically
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jobwire.core.ports import Message
    from jobwire.core.settings import BrokerSettings
    from jobwire.jobs.record import JobRecord
    from jobwire.registry.store import RecordStore

# A worker that lives has sent its event long before.
SETTLED_SECONDS = 3.0
_SUFFIXES = (".sent", ".ndjson")
_BOOT = ".boot"
_log = LateLog("jobwire.registry")


class AbandonedError(Exception):
    """Who wanted it kept does so by itself."""


class Once(NamedTuple):
    """Makes one event kept once of which two processes may believe that it is theirs to keep.

    `call` is what both know it by, 32 hexadecimal digits that nobody can guess. The one to which the event
    was handed asks, with the record locked, whether the other still `waits` for that; the other, which does
    no longer, gives no `waits` and looks for it in the history.
    """

    call: str
    waits: Callable[[], bool] | None = None


class HomeEventLog:
    """See `EventLog`. `attempt` pins the attempt that this worker was started for; None speaks for any.

    Order of locks: send lock before record lock.
    """

    def __init__(
        self, store: RecordStore, job_id: str, *, attempt: int | None, once: Once | None = None
    ) -> None:
        self.job_id = job_id
        self._store = store
        self._serve_file = f"{store.home}/{SERVE_FILE}"
        self._attempt = attempt
        self._once = once
        self.outbox = HistoryOutbox(store.audit(job_id), store.sent_path(job_id))

    def pin(self) -> None:
        """See `EventLog.pin`."""
        if self._attempt is None:
            self._attempt = self._store.get(self.job_id).attempt

    def settings(self, command_line: Mapping[str, object], environ: Mapping[str, str]) -> BrokerSettings:
        """See `EventLog.settings`."""
        from jobwire.core.roles import Role  # noqa: PLC0415 - who hands over needs no settings
        from jobwire.transport import load_settings  # noqa: PLC0415 - as above

        return load_settings(
            home=self._store.home,
            role=Role.WORKER,
            command_line=command_line,
            record=self._store.get(self.job_id).broker,
            environ=environ,
        )

    def overrides(self) -> Mapping[str, object]:
        """Return the broker settings that the job's record names. Raises NotFoundError."""
        return self._store.get(self.job_id).broker

    @property
    def home(self) -> str:
        """Return the home's path."""
        return self._store.home

    def record(self) -> JobRecord:
        """Return the record as it is now. Raises StoppedError where another attempt holds the job."""
        record = self._store.get(self.job_id)
        check_attempt(record, self._attempt)
        return record

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what differs once the record has changed; None where there is none. Raises StorageError."""
        return self._store.record_stamp(self.job_id)

    def append(self, draft: Draft) -> SignedEvent:
        """See `EventLog.append`: history, then record, each flushed, under the record's lock.

        Raises AbandonedError where nobody waits for it any more; see `Once`.
        """
        with self._store.locked(self.job_id) as locked:
            if (found := self._kept_before()) is not None:
                return found
            record = locked.record
            check_attempt(record, self._attempt)
            check_open(record)
            event, signed = sign_next(record, draft, seq=record.last_seq + 1, now=self._store.clock.now())
            call = self._once.call if self._once else ""
            locked.apply(event, signed.payload, source=PUBLISHER, call=call)
            return signed

    def _kept_before(self) -> SignedEvent | None:
        if self._once is None:
            return None
        if self._once.waits is None:
            return self.outbox.of_call(self._once.call)
        if not self._once.waits():
            raise AbandonedError
        return None

    def recover(self) -> Position:
        """See `EventLog.recover`: whoever takes the record's lock finds it brought up to its history."""
        with self._store.locked(self.job_id) as locked:
            check_attempt(locked.record, self._attempt)
        return self.position()

    def position(self) -> Position:
        """See `EventLog.position`."""
        record = self._store.get(self.job_id)
        attended = os.path.exists(self._serve_file)  # noqa: PTH110 - pathlib is an import more at start-up
        confirmed = record.confirmed_seq if attended else None
        if confirmed is not None and record.terminal and confirmed < record.last_seq:
            mark = self.outbox.mark.read()
            if mark.acked_seq >= record.last_seq and not mark.waiting_seq:
                # It ended before this home had a registry process: the broker's word was enough.
                confirmed = None
        return Position(record.attempt, record.last_seq, confirmed)

    def is_attended(self) -> bool:
        """See `EventLog.is_attended`: serve.json stays when the process ends, its lock goes with it."""
        return file_lock.is_held(self._store.lock_path(SERVE_LOCK))

    def trim(self, through_seq: int) -> None:
        """See `EventLog.trim`: the history stays; a job that ended and is confirmed needs no mark."""
        record = self._store.get(self.job_id)
        if record.terminal and record.last_seq <= min(through_seq, record.confirmed_seq):
            remove_mark(self._store, self.job_id)

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

    def filters(self, topic_root: Callable[[], str]) -> list[str]:  # noqa: ARG002 - the record tells it
        """See `EventLog.filters`."""
        return []

    def hear(self, message: Message) -> None:
        """See `EventLog.hear`."""

    def check_stopped(self) -> None:
        """See `EventLog.check_stopped`: `take` has looked, under the lock."""


def remove_mark(store: RecordStore, job_id: str) -> None:
    """Remove the sent mark of a job that says nothing more. Raises StorageError."""
    try:
        store.files.unlink(store.sent_path(job_id))
    except OSError as error:
        raise storage_failure("remove", store.sent_path(job_id), error) from error


class HomeOutboxes:
    """The outboxes of one home, of the jobs that may have something to send.

    Found by their sent marks, which are there while something may be unsent. A mark is a hint that no
    writer flushes: after the machine was started again the records are asked, once.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        # When the mark was written last, of the jobs with something to send and of those with nothing.
        self._seen: dict[str, int] = {}
        self._settled: dict[str, int] = {}

    def job_ids(self, stop: Callable[[], bool] = lambda: False) -> list[str]:
        """Return the ids of the jobs that may have something to send, sorted. Raises StorageError."""
        self._look_once(stop)
        try:
            names = os.listdir(self._store.outbox_dir())  # noqa: PTH208 - asked every two seconds
        except FileNotFoundError:
            return []
        stems = {name.removesuffix(suffix) for suffix in _SUFFIXES for name in names if name.endswith(suffix)}
        return sorted(stem for stem in stems if is_job_id(stem))

    def waiting(self, stop: Callable[[], bool] = lambda: False) -> list[str]:
        """Return the ids of those jobs whose worker is silent. Raises StorageError."""
        now = self._store.clock.now()
        seen: dict[str, int] = {}
        found: list[str] = []
        for job_id in self.job_ids(stop):
            try:
                written = os.stat(self._store.sent_path(job_id)).st_mtime_ns  # noqa: PTH116 - as above
            except OSError:
                written = 0  # of an earlier version
            seen[job_id] = written
            # One from the future was written before the clock was set back.
            fresh = 0 <= now - written / 1e9 < SETTLED_SECONDS
            if not fresh and self._settled.get(job_id) != written:
                found.append(job_id)
        self._seen = seen
        self._settled = {job_id: at for job_id, at in self._settled.items() if job_id in seen}
        return found

    def open(self, job_id: str) -> HomeEventLog:
        """Return the job's log, for any attempt. Raises NotFoundError."""
        if os.path.exists(self._store.outbox_path(job_id)):  # noqa: PTH110 - as above
            self._store.repair(job_id, deadline_seconds=1.0)
        return HomeEventLog(self._store, job_id, attempt=None)

    def settle(self, job_id: str) -> None:
        """Note that nothing is left to send until the job's worker speaks again. Raises StorageError."""
        self._settled[job_id] = self._seen.get(job_id, 0)
        record = self._store.get(job_id)
        # Without a confirmation the mark is all that tells of the broker's word.
        if record.terminal and record.last_seq <= record.confirmed_seq:
            remove_mark(self._store, job_id)

    def _look_once(self, stop: Callable[[], bool]) -> None:
        """Mark the jobs whose events may have lost their mark together with the power.

        Costs a look at each record, so it asks at each whether to `stop`; then the next one looks.
        """
        note = f"{self._store.outbox_dir()}/{_BOOT}"
        boot = _boot_id()
        try:
            with open(note, "rb") as file:  # noqa: PTH123 - as above
                if file.read(64) == boot:
                    return
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_failure("read", note, error) from error
        for job_id in self._store.job_ids():
            if stop():
                return
            try:
                record = self._store.get(job_id)
            except JobwireError as error:
                _log.warning("job %s is not looked at: %s", job_id, error)
                continue
            acked = SentMarkFile(self._store.sent_path(job_id)).read().acked_seq
            if record.last_seq > record.confirmed_seq and not (record.terminal and acked >= record.last_seq):
                self._store.mark_unsent(job_id)
        replace_atomically([(note, boot)], files=self._store.files)


def _boot_id() -> bytes:
    """Return what is another after each start of the machine; nothing where the system does not tell."""
    try:
        return read_whole("/proc/sys/kernel/random/boot_id").strip()
    except OSError:
        return b""
