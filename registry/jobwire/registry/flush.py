"""Sends what is left in the outboxes of the jobs on this disk, and removes what is confirmed.

A publisher sends its own events. What lies in an outbox for a while was left by one that died, or that
found no broker, or was taken by a broker that lost it.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jobwire.core.errors import JobwireError, NotFoundError, TransportError
from jobwire.core.topics import Topics
from jobwire.jobs.record import JobRecord
from jobwire.journal.bucket import TokenBucket
from jobwire.registry.outbox import (
    Entry,
    Outbox,
    Standing,
    damaged_outboxes,
    due_entries,
    job_outboxes,
    mark_after,
    send_lock_name,
)
from jobwire.registry.sender import Sender
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock

# A publisher that lives has sent its event long before.
SETTLED_SECONDS = 3.0
# Lines about outboxes that cannot be sent.
_LOG_BURST = 5
_LOG_PER_SECOND = 0.1
_log = logging.getLogger("jobwire.registry")


class Flushed(NamedTuple):
    """What one round did: events sent, outboxes emptied."""

    sent: int
    trimmed: int


class OutboxFlush:
    """Looks at all outboxes; from one thread. `expiry_seconds` is for terminal events, on MQTT 5."""

    def __init__(self, *, store: RecordStore, topics: Topics, sender: Sender, expiry_seconds: int) -> None:
        self._store = store
        self._topics = topics
        self._sender = sender
        self._expiry_seconds = expiry_seconds
        self._lines = TokenBucket(burst=_LOG_BURST, per_second=_LOG_PER_SECOND)
        # What failed for each job, so that it is said once; job ids of whose outboxes lines were set aside.
        self._failing: dict[str, str] = {}
        self._damaged: list[str] = []
        self.sent = 0

    def facts(self) -> dict[str, object]:
        """Return what the health file says: how many outboxes cannot be sent, or lost lines to `.damaged`."""
        return {"failing": len(self._failing), "damaged": len(self._damaged)}

    def run(self, stop: Callable[[], bool] = lambda: False) -> Flushed:
        """Send and trim what is due, until `stop`. Ends early, without an error, where no broker answers."""
        sent = trimmed = 0
        job_ids = job_outboxes(self._store.outbox_dir())
        self._failing = {job_id: self._failing[job_id] for job_id in job_ids if job_id in self._failing}
        self._damaged = damaged_outboxes(self._store.outbox_dir())
        for job_id in job_ids:
            if stop():
                break
            if not self._settled(job_id):
                continue
            try:
                record = self._store.get(job_id)
                outbox = Outbox(self._store.outbox_path(job_id), files=self._store.files)
                if outbox.last_seq <= record.confirmed_seq:
                    trimmed += self._trim(record, outbox)
                else:
                    sent += self._send(record, outbox, stop)
                self._failing.pop(job_id, None)
                if outbox.damaged:
                    with self._store.locked(job_id, deadline_seconds=1.0):
                        outbox.set_aside()
            except NotFoundError:
                continue
            except JobwireError as error:
                if isinstance(error, TransportError) and "topic" not in error.facts:
                    break
                # Refused, locked or unreadable: the others need not wait for it.
                self._report(job_id, error)
        self.sent += sent
        return Flushed(sent, trimmed)

    def _report(self, job_id: str, error: JobwireError) -> None:
        known = self._failing.get(job_id) == error.message
        self._failing[job_id] = error.message
        if not known and self._lines.take(1, self._store.clock.monotonic()):
            _log.warning("outbox of job %s: %s", job_id, error)

    def _settled(self, job_id: str) -> bool:
        try:
            status = os.stat(self._store.outbox_path(job_id))  # noqa: PTH116 - asked of each outbox, each round
        except OSError:
            return False
        age = self._store.clock.now() - status.st_mtime
        # A file from the future was written before the clock was set back.
        return status.st_size > 0 and not 0 <= age < SETTLED_SECONDS

    def _trim(self, record: JobRecord, outbox: Outbox) -> int:
        with self._store.locked(record.job_id, deadline_seconds=1.0) as locked:
            if outbox.last_seq > locked.record.confirmed_seq:
                return 0
            if locked.record.terminal:
                outbox.remove()
            else:
                outbox.trim(locked.record.confirmed_seq)
        return 1

    def _send(self, record: JobRecord, outbox: Outbox, stop: Callable[[], bool]) -> int:
        descriptor = file_lock.try_acquire(self._store.lock_path(send_lock_name(record.job_id)))
        if descriptor is None:
            return 0  # its publisher is sending
        try:
            mark = outbox.sent_mark()
            standing = Standing(record.attempt, record.last_seq, record.confirmed_seq)
            entries = outbox.entries(after=record.confirmed_seq)
            due = due_entries(entries, mark, standing, now=self._store.clock.now())
            acked = mark.acked_seq
            sent = 0
            try:
                for seq in self._publish(record.job_id, due, stop):
                    acked, sent = max(acked, seq), sent + 1
            finally:
                if due:
                    now = self._store.clock.now()
                    outbox.mark_sent(mark_after(mark, standing, due, acked_seq=acked, now=now))
            return sent
        finally:
            file_lock.release(descriptor)

    def _publish(self, job_id: str, due: Sequence[Entry], stop: Callable[[], bool]) -> Iterator[int]:
        """Send in order until `stop`; yield each seq that the broker has taken."""
        for entry in due:
            if stop():
                return
            self._sender.publish(
                self._topics.events(job_id),
                entry.payload,
                retain=entry.retain,
                expiry_seconds=self._expiry_seconds if entry.retain else None,
            )
            yield entry.seq
