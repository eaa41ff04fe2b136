"""What the registry on this disk says about the jobs under watch: changes, history, new jobs.

Polled by `stat`, because records are replaced by rename: a few microseconds a job, no lock, and it
works where nothing but a directory is shared.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.core.signature import SIGNATURE_FIELD
from jobwire.jobs.event import Event, bad_field
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.subscriber.watch import RecordedEvent

# Enough lines for every refusal and status change between the wanted events, in all but a flood.
_HISTORY_MARGIN = 256
_MAX_HISTORY = 20_000
# Looking for new jobs takes at most this share of the time, however large the directory.
_SHARE = 0.05
_NO_LIMIT = 2**31
_TICK_SECONDS = 0.1


class LocalJobs:
    """Reads one home directory. `warn` takes what a person should know about unreadable records."""

    def __init__(self, store: RecordStore, *, warn: Callable[[str], None]) -> None:
        self._store = store
        self._warn = warn
        self._marks: dict[str, tuple[int, int, int]] = {}
        self._known: set[str] = set()
        self._unreadable: set[str] = set()
        self._written = -1
        self._next_look = float("-inf")

    def read(self, job_id: str) -> JobRecord:
        """Return the record; raises NotFoundError and StorageError as `RecordStore.get`."""
        mark = self._store.record_stamp(job_id)
        record = self._store.get(job_id)
        if mark is not None:
            self._marks[job_id] = mark
        self._known.add(job_id)
        return record

    def changed(self, job_id: str) -> JobRecord | None:
        """Return the record if it was written since it was last read, else None; raises as `read`."""
        mark = self._store.record_stamp(job_id)
        if mark is not None and mark == self._marks.get(job_id):
            return None
        return self.read(job_id)

    def is_known(self, job_id: str) -> bool:
        """Tell whether the job was there when the watch began, or is under watch."""
        return job_id in self._known

    def history(self, job_id: str, first_seq: int, last_seq: int) -> list[RecordedEvent]:
        """Return accepted events from `first_seq` to `last_seq` as far as the history holds them."""
        count = min(_MAX_HISTORY, 2 * max(0, last_seq - first_seq + 1) + _HISTORY_MARGIN)
        lines = self._store.audit(job_id).tail(count)
        found = [past for line in lines if (past := _past(line)) is not None]
        return [past for past in found if first_seq <= past.event.seq <= last_seq]

    def unfinished(self) -> list[JobRecord]:
        """Return every job that is not finished, oldest first, and take note of those that are."""
        self._known.update(self._store.job_ids())
        queue = JobQueue(self._store, warn=self._warn)
        try:
            records = queue.list(statuses=(Status.PENDING, Status.RUNNING), limit=_NO_LIMIT)
        finally:
            queue.close()
        return [self.read(record.job_id) for record in reversed(records)]

    def appeared(self) -> list[JobRecord]:
        """Return the jobs that were registered since the last look."""
        clock = self._store.clock
        began = clock.monotonic()
        written = self._written_at()
        if written == self._written or began < self._next_look:
            return []
        # A file system's clock ticks in milliseconds: what is written in the same tick shows no change.
        settled = clock.now() - written / 1e9 > _TICK_SECONDS
        self._written = written if settled else -1
        new = [job_id for job_id in self._store.job_ids() if job_id not in self._known]
        self._next_look = began + (clock.monotonic() - began) / _SHARE
        return [record for job_id in sorted(new) if (record := self.find(job_id)) is not None]

    def find(self, job_id: str) -> JobRecord | None:
        """Return the record, or None where there is none, or none that can be read, which is said once."""
        if job_id in self._unreadable or not self._store.exists(job_id):
            return None
        try:
            return self.read(job_id)
        except NotFoundError:
            return None
        except JobwireError as error:
            # One bad record among many must not end the watch over the others.
            self._known.add(job_id)
            self._unreadable.add(job_id)
            self._warn(str(error))
            return None

    def _written_at(self) -> int:
        """Return the time stamp that moves with every record that is written, new ones among them."""
        try:
            return os.stat(self._store.jobs_path()).st_mtime_ns  # noqa: PTH116 - a polled call
        except OSError:
            return 0


def _past(line: Mapping[str, Any]) -> RecordedEvent | None:
    """Return the accepted event in a line of history, or None for every other line."""
    body = line.get("event")
    if line.get("verdict") != "accepted" or not isinstance(body, dict) or bad_field(body):
        return None
    data = {key: value for key, value in body["data"].items() if key != SIGNATURE_FIELD}
    event = Event(body["seq"], body["job_id"], body["event"], body["timestamp"], body["detail"], data)
    try:
        return RecordedEvent(event, bytes.fromhex(str(line.get("digest"))))
    except ValueError:
        return RecordedEvent(event, b"")
