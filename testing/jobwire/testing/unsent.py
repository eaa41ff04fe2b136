"""What of a job's events still has to be sent, as its next sender would see it."""

from pathlib import Path

from jobwire.delivery.outbox import SignedEvent, unconfirmed
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore


def unsent(home: Path | str, job_id: str) -> list[SignedEvent]:
    """Return what is not confirmed; without a registry process, what the broker did not acknowledge."""
    events = HomeEventLog(RecordStore(home), job_id, attempt=None)
    return list(unconfirmed(events.outbox, events.outbox.mark.read(), events.position()))
