"""Publishes the signed, retained state of each job after it changed.

A job stands in the queue once: what changes before its turn is sent with it. Changes of status go
before mere progress, which is sent at most every five seconds for a job.
"""

import logging
import threading
from collections import OrderedDict
from itertools import islice
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError, NotFoundError, RefusedError, TransportError
from jobwire.core.record import JobRecord
from jobwire.core.snapshot import encode_snapshot
from jobwire.core.topics import Topics
from jobwire.registry.sender import Sender
from jobwire.registry.store import RecordStore

_CALM_SECONDS = 5.0
_IDLE_SECONDS = 0.2
_LOOKED_AT = 16
# What was sent of the jobs that changed last, so that one change told twice is sent once.
_REMEMBERED = 4096
_log = logging.getLogger("jobwire.registry")


class _Sent(NamedTuple):
    what: tuple[object, ...]
    at: float


class StateQueue:
    """The jobs whose state is to be sent. Thread-safe; `send_next` may be called by several threads."""

    def __init__(
        self,
        *,
        store: RecordStore,
        topics: Topics,
        sender: Sender,
        clock: Clock,
        expiry_seconds: int,
    ) -> None:
        self._store = store
        self._topics = topics
        self._sender = sender
        self._clock = clock
        self._expiry_seconds = expiry_seconds
        self._urgent: OrderedDict[str, JobRecord | None] = OrderedDict()
        self._calm: OrderedDict[str, JobRecord | None] = OrderedDict()
        self._busy: set[str] = set()
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        self._changed = threading.Condition()
        self.published = 0

    def offer(self, job_id: str, record: JobRecord | None, *, urgent: bool) -> None:
        """Queue the job; without `record` its present one is read when its turn comes."""
        with self._changed:
            if urgent or job_id in self._urgent:
                self._calm.pop(job_id, None)
                self._urgent[job_id] = record
            else:
                self._calm[job_id] = record
            self._changed.notify()

    def forget_sent(self) -> None:
        """Forget what was sent: the broker has lost it."""
        with self._changed:
            self._sent.clear()

    def waiting(self) -> int:
        """Return how many jobs are queued or being sent."""
        with self._changed:
            return len(self._urgent) + len(self._calm) + len(self._busy)

    def urgent_waiting(self) -> int:
        """Return how many changes of status are queued or being sent."""
        with self._changed:
            return len(self._urgent) + len(self._busy)

    def send_next(self) -> bool:
        """Send one job's state; False where none was due within a moment. Never raises a JobwireError."""
        job_id, record, urgent = self._take()
        if job_id is None:
            return False
        again = False
        try:
            record = record if record is not None else self._store.get(job_id)
            again = not self._send(record)
        except NotFoundError:
            pass  # purged since
        except JobwireError as error:
            _log.error("no state of job %s can be sent: %s", job_id, error)
        finally:
            with self._changed:
                self._busy.discard(job_id)
                if again and job_id not in self._urgent and job_id not in self._calm:
                    (self._urgent if urgent else self._calm)[job_id] = record
                self._changed.notify()
        if again:
            self._clock.sleep(_IDLE_SECONDS)
        return True

    def _take(self) -> tuple[str | None, JobRecord | None, bool]:
        with self._changed:
            for _ in range(2):
                for queue, urgent in ((self._urgent, True), (self._calm, False)):
                    job_id = self._first_due(queue, urgent=urgent)
                    if job_id is not None:
                        self._busy.add(job_id)
                        return job_id, queue.pop(job_id), urgent
                self._changed.wait(_IDLE_SECONDS)
        return None, None, False

    def _first_due(self, queue: OrderedDict[str, JobRecord | None], *, urgent: bool) -> str | None:
        now = self._clock.monotonic()
        # Only the oldest few: who was sent lately must not make every look at the queue long.
        for job_id in islice(queue, _LOOKED_AT):
            sent = self._sent.get(job_id)
            calm = urgent or sent is None or sent.at + _CALM_SECONDS <= now
            if calm and job_id not in self._busy:
                return job_id
        return None

    def _send(self, record: JobRecord) -> bool:
        """Send; False where it must be tried again."""
        what = (
            record.status,
            record.attempt,
            record.confirmed_seq,
            record.attention,
            record.detail,
            record.updated_at,
        )
        with self._changed:
            sent = self._sent.get(record.job_id)
        if sent is not None and sent.what == what:
            return True
        try:
            self._sender.publish(
                self._topics.state(record.job_id),
                encode_snapshot(record, confirmed_seq=record.confirmed_seq),
                retain=True,
                expiry_seconds=self._expiry_seconds if record.terminal else None,
            )
        except RefusedError as error:
            _log.error("the broker refuses the state of job %s: %s", record.job_id, error)
            return True
        except TransportError:
            return False
        self.published += 1
        with self._changed:
            self._sent[record.job_id] = _Sent(what, self._clock.monotonic())
            self._sent.move_to_end(record.job_id)
            if len(self._sent) > _REMEMBERED:
                self._sent.popitem(last=False)
        return True
