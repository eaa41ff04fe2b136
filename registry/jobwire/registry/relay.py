"""Sends what is left in the outboxes of the jobs on this disk, and removes what is confirmed.

A worker sends its own events. What lies in an outbox for a while was left by one that died, or that
found no broker, or was taken by a broker that lost it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from jobwire.core.errors import JobwireError, NotFoundError, TransportError
from jobwire.core.token_bucket import TokenBucket
from jobwire.core.topics import Topics
from jobwire.delivery.connection import BrokerConnection
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.handover_server import SentSoFar
from jobwire.delivery.outbox import SignedEvent, due_entries, is_settled, note_sent
from jobwire.registry.event_log import HomeOutboxes
from jobwire.registry.store import RecordStore
from jobwire.storage.file_lock import LockTimeoutError

# Lines about outboxes that cannot be sent.
_LOG_BURST = 5
_LOG_PER_SECOND = 0.1
# Several events of one job may be handed over at once: one sends for all.
_TURN_SECONDS = 2.0
_log = logging.getLogger("jobwire.registry")


class Relay:
    """Looks at the outboxes of a home, from one thread. `expiry_seconds` is of terminal events, on MQTT 5."""

    def __init__(
        self,
        *,
        store: RecordStore,
        topics: Topics,
        connection: BrokerConnection,
        expiry_seconds: int,
    ) -> None:
        self._outboxes = HomeOutboxes(store)
        self._topics = topics
        self._connection = connection
        self._clock = store.clock
        self._expiry_seconds = expiry_seconds
        self._lines = TokenBucket(burst=_LOG_BURST, per_second=_LOG_PER_SECOND)
        # What failed for each job, so that it is said once; jobs with events that cannot be read.
        self._failing: dict[str, str] = {}
        self._damaged: set[str] = set()
        self.sent = 0

    def facts(self) -> dict[str, object]:
        """Return what the health file says: how many outboxes cannot be sent, or cannot be read in part."""
        return {"failing": len(self._failing), "damaged": len(self._damaged)}

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Send and trim what is due, until `stop`. Ends early, without an error, where no broker answers."""
        job_ids = self._outboxes.waiting(stop)
        self._failing = {job_id: self._failing[job_id] for job_id in job_ids if job_id in self._failing}
        self._damaged &= set(job_ids)
        for job_id in job_ids:
            if stop():
                break
            try:
                events = self._outboxes.open(job_id)
                if is_settled(events.position(), events.outbox.mark.read()):
                    self._outboxes.settle(job_id)
                else:
                    with suppress(LockTimeoutError):  # its worker sends
                        self._send(events, self._expiry_seconds, stop=stop)
                self._failing.pop(job_id, None)
                if events.outbox.damaged:
                    self._damaged.add(job_id)
            except NotFoundError:
                continue
            except JobwireError as error:
                if isinstance(error, TransportError) and "topic" not in error.facts:
                    break
                # Refused, locked or unreadable: the others need not wait for it.
                self._report(job_id, error)

    def send(self, job_id: str, expiry_seconds: int | None) -> SentSoFar:
        """Send what is due of one job; from any thread. `expiry_seconds` None is the relay's own, 0 is never.

        Waits for whoever sends it just now, within limits. Raises JobwireError.
        """
        expiry = self._expiry_seconds if expiry_seconds is None else expiry_seconds or None
        return self._send(self._outboxes.open(job_id), expiry, wait_seconds=_TURN_SECONDS)

    def _report(self, job_id: str, error: JobwireError) -> None:
        known = self._failing.get(job_id) == error.message
        self._failing[job_id] = error.message
        if not known and self._lines.take(1, self._clock.monotonic()):
            _log.warning("outbox of job %s: %s", job_id, error)

    def _send(
        self,
        events: EventLog,
        expiry_seconds: int | None,
        *,
        wait_seconds: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> SentSoFar:
        """Send in order until `stop`. Raises LockTimeoutError where somebody else sends for longer."""
        with events.sending(deadline_seconds=wait_seconds):
            position, mark = events.position(), events.outbox.mark.read()
            due = due_entries(events.outbox, mark, position, now=self._clock.now())
            sent = self._published(events.job_id, due, stop, expiry_seconds)
            last = note_sent(sent, mark, position, note=events.outbox.mark.write, clock=self._clock)
        confirmed = events.position().confirmed_seq or 0
        return SentSoFar(acked_seq=max(mark.acked_seq, last, confirmed), confirmed_seq=confirmed)

    def _published(
        self, job_id: str, due: Iterator[SignedEvent], stop: Callable[[], bool], expiry_seconds: int | None
    ) -> Iterator[SignedEvent]:
        for event in due:
            if stop():
                return
            self._connection.publish(
                self._topics.events(job_id),
                event.payload,
                retain=event.retain,
                expiry_seconds=expiry_seconds if event.retain else None,
            )
            self.sent += 1
            yield event
