"""Publishes the signed, retained state of each job after it changed.

A job stands in the queue once: what changes before its turn is sent with it. Changes of status go
before mere progress, which is sent at most every five seconds for a job; what is only repeated, for a
broker that may have lost it, comes last and slowly.
"""

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum
from itertools import islice
from typing import NamedTuple, TypeVar

from jobwire.core.errors import JobwireError, NotFoundError, RefusedError, StorageError, TransportError
from jobwire.core.redaction import Redactor
from jobwire.core.topics import Topics
from jobwire.delivery.connection import BrokerConnection
from jobwire.jobs.answers import encode_answers
from jobwire.jobs.event import MAX_DETAIL
from jobwire.jobs.fact import Fact, kept_facts
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.registry.decisions import decided
from jobwire.registry.store import RecordStore
from jobwire.registry.telling import lines_from

_PROGRESS_SECONDS = 5.0
_IDLE_SECONDS = 0.2
_LOOKED_AT = 16
_UNREADABLE_SECONDS = 5.0
_REPEATS_PER_SECOND = 200.0
_REMEMBERED = 4096
_log = logging.getLogger("jobwire.registry")
_V = TypeVar("_V")


class Urgency(IntEnum):
    """The order in which states are sent."""

    STATUS = 0
    PROGRESS = 1
    REPEAT = 2


class _Sent(NamedTuple):
    what: tuple[object, ...]
    at: float


class _StatedFacts(NamedTuple):
    """What a job's history up to this line and byte says was decided."""

    created_at: str
    line: int = 0
    offset: int = 0
    facts: tuple[Fact, ...] = ()


class _Latest(OrderedDict[str, _V]):
    """Something of each of the jobs that changed last."""

    def put(self, job_id: str, value: _V) -> None:
        """Keep it, as of the job that changed last of all."""
        self[job_id] = value
        self.move_to_end(job_id)
        if len(self) > _REMEMBERED:
            self.popitem(last=False)


class StateQueue:
    """The jobs whose state is to be sent. Thread-safe; `send_next` may be called by several threads."""

    def __init__(
        self,
        *,
        store: RecordStore,
        topics: Topics,
        sender: BrokerConnection,
        expiry_seconds: int,
        redactor: Redactor,
        on_record: Callable[[JobRecord], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._topics = topics
        self._sender = sender
        self._clock = store.clock
        self._expiry_seconds = expiry_seconds
        self._redactor = redactor
        # So that a state does not cost a whole history.
        self._decided = _Latest[_StatedFacts]()
        # Hears of each record as it is told, whether a broker is there or not.
        self._on_record = on_record
        self._queues: dict[Urgency, OrderedDict[str, JobRecord | None]] = {
            urgency: OrderedDict() for urgency in Urgency
        }
        self._busy: dict[str, Urgency] = {}
        # Jobs whose record could not be read, and when (monotonic seconds) that is tried again.
        self._later: dict[str, float] = {}
        self._repeat_at = 0.0
        # So that one change told twice is sent once.
        self._sent = _Latest[_Sent]()
        self._forgotten = 0
        # The job's answers that the broker has: of which attempt, and which change of them.
        self._answers = _Latest[tuple[int, int]]()
        self._changed = threading.Condition()
        self.published = 0

    def offer(self, job_id: str, record: JobRecord | None, urgency: Urgency) -> None:
        """Queue the job; without `record` its present one is read when its turn comes."""
        with self._changed:
            for other, queue in self._queues.items():
                if job_id in queue and other < urgency:
                    # It keeps its better place. The newest record is sent, unless it is to be read.
                    queue[job_id] = record if urgency is not Urgency.REPEAT else queue[job_id]
                    return
                queue.pop(job_id, None)
            self._queues[urgency][job_id] = record
            self._changed.notify()

    def forget_sent(self) -> None:
        """Forget what was sent: the broker has lost it."""
        with self._changed:
            self._sent.clear()
            self._answers.clear()
            self._forgotten += 1

    def waiting(self) -> int:
        """Return how many jobs are queued or being sent."""
        with self._changed:
            return sum(map(len, self._queues.values())) + len(self._busy)

    def urgent_waiting(self) -> int:
        """Return how many changes of status are queued or being sent."""
        with self._changed:
            busy = sum(urgency is Urgency.STATUS for urgency in self._busy.values())
            return len(self._queues[Urgency.STATUS]) + busy

    def send_next(self) -> bool:
        """Send one job's state; False where none was due within a moment. Never raises a JobwireError."""
        taken = self._take()
        if taken is None:
            return False
        job_id, record, urgency = taken
        again = False
        try:
            record = record if record is not None else self._store.get(job_id)
            self._on_record(record)
            again = not self._send(record)
            self._later.pop(job_id, None)
        except NotFoundError:
            self._later.pop(job_id, None)  # purged since
        except JobwireError as error:
            if job_id not in self._later:
                _log.error("no state of job %s can be sent for now: %s", job_id, error)
            self._later[job_id] = self._clock.monotonic() + _UNREADABLE_SECONDS
        finally:
            with self._changed:
                self._busy.pop(job_id, None)
                if again and not any(job_id in queue for queue in self._queues.values()):
                    self._queues[urgency][job_id] = record
                self._changed.notify()
        if again:
            self._clock.sleep(_IDLE_SECONDS)
        return True

    def _take(self) -> tuple[str, JobRecord | None, Urgency] | None:
        with self._changed:
            self._take_up_later()
            for _ in range(2):
                for urgency, queue in self._queues.items():
                    job_id = self._first_due(queue, urgency)
                    if job_id is not None:
                        self._busy[job_id] = urgency
                        return job_id, queue.pop(job_id), urgency
                self._changed.wait(self._pause())
        return None

    def _take_up_later(self) -> None:
        """Queue the jobs whose records are to be read again; they stay noted until that succeeds."""
        now = self._clock.monotonic()
        for job_id, at in list(self._later.items()):
            if at <= now and not any(job_id in queue for queue in self._queues.values()):
                self._later[job_id] = now + _UNREADABLE_SECONDS
                self._queues[Urgency.STATUS][job_id] = None

    def _pause(self) -> float:
        if not self._queues[Urgency.REPEAT]:
            return _IDLE_SECONDS
        return min(_IDLE_SECONDS, max(0.001, self._repeat_at - self._clock.monotonic()))

    def _first_due(self, queue: OrderedDict[str, JobRecord | None], urgency: Urgency) -> str | None:
        now = self._clock.monotonic()
        if urgency is Urgency.REPEAT:
            if not queue or now < self._repeat_at:
                return None
            self._repeat_at = now + 1.0 / _REPEATS_PER_SECOND
        # Only the oldest few: who was sent lately must not make every look at the queue long.
        for job_id in islice(queue, _LOOKED_AT):
            sent = self._sent.get(job_id)
            due = urgency is not Urgency.PROGRESS or sent is None or sent.at + _PROGRESS_SECONDS <= now
            if due and job_id not in self._busy:
                return job_id
        return None

    def _said(self, record: JobRecord) -> JobRecord:
        """Return the record with the detail that may leave the host: a person's reason may name a path."""
        return record._replace(detail=self._redactor.redact(record.detail)[:MAX_DETAIL])

    def _send(self, record: JobRecord) -> bool:
        """Send; False where it must be tried again."""
        what = (
            record.status,
            record.attempt,
            record.confirmed_seq,
            record.attention,
            record.detail,
            record.updated_at,
            record.answers_n,
        )
        with self._changed:
            sent, forgotten = self._sent.get(record.job_id), self._forgotten
        if sent is not None and sent.what == what:
            return True
        try:
            self._send_answers(record)
            self._sender.publish(
                self._topics.state(record.job_id),
                encode_snapshot(
                    self._said(record), confirmed_seq=record.confirmed_seq, facts=self._facts_of(record)
                ),
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
            if forgotten != self._forgotten:
                return False  # the broker that took it may be gone
            self._sent.put(record.job_id, _Sent(what, self._clock.monotonic()))
        return True

    def _facts_of(self, record: JobRecord) -> tuple[Fact, ...]:
        """Return what was decided about the job up to this record; what is known where a disk fails."""
        with self._changed:
            known = self._decided.get(record.job_id)
        if known is None or known.created_at != record.created_at:
            known = _StatedFacts(record.created_at)
        lines = lines_from(self._store.audit(record.job_id).events_path, known.offset)
        with contextlib.suppress(StorageError), contextlib.closing(lines):
            found = decided(lines, record, line=known.line, offset=known.offset, redact=self._redactor.redact)
            facts = kept_facts([*known.facts, *found.facts])
            known = _StatedFacts(record.created_at, found.line, found.offset, tuple(facts))
        with self._changed:
            self._decided.put(record.job_id, known)
        return known.facts

    def _send_answers(self, record: JobRecord) -> None:
        """Send the answers that wait for the worker, or clear them. Raises TransportError."""
        now = record.attempt, record.answers_n
        with self._changed:
            if not record.answers_n or self._answers.get(record.job_id) == now:
                return
        self._sender.publish(self._topics.answer(record.job_id), encode_answers(record), retain=True)
        with self._changed:
            self._answers.put(record.job_id, now)
