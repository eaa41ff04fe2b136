"""What is left in outboxes is sent; what is wrong with one is said once and holds up no other."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event
from jobwire.jobs.record import JobRecord
from jobwire.registry.flush import OutboxFlush
from jobwire.registry.outbox import Entry, Outbox
from jobwire.registry.sender import Sender
from jobwire.registry.store import RecordStore
from jobwire.testing import InMemoryBroker, ManualClock

Say = Callable[..., tuple[Event, bytes]]


@pytest.fixture
def mqtt() -> InMemoryBroker:
    """Give a broker."""
    return InMemoryBroker()


@pytest.fixture
def flush(store: RecordStore, clock: ManualClock, mqtt: InMemoryBroker) -> OutboxFlush:
    """Give the duty, sending to that broker."""
    sender = Sender(connect=lambda: mqtt.transport("sender"), clock=clock)
    return OutboxFlush(store=store, topics=Topics(), sender=sender, expiry_seconds=60)


def _job(store: RecordStore, job_id: str) -> JobRecord:
    stamp = utc_timestamp(store.clock.now())
    record = JobRecord(job_id, "t" * 43, stamp, stamp)
    store.create(record)
    return record


def _say(store: RecordStore, say: Say, job: JobRecord, *kinds: str) -> Path:
    """Leave a job's events in its outbox; return its path."""
    outbox = Outbox(store.outbox_path(job.job_id))
    for seq, kind in enumerate(kinds, 1):
        event, payload = say(job, seq, kind)
        outbox.append(Entry(seq, 1, kind, event.terminal, payload))
        with store.locked(job.job_id) as locked:
            locked.apply(event, payload, source="test")
    return Path(outbox.path)


def _topics(mqtt: InMemoryBroker) -> list[str]:
    return [message.topic.split("/")[-2] for message in mqtt.published]


def test_damage_is_set_aside_said_once_and_told_by_health(
    flush: OutboxFlush, store: RecordStore, say: Say, mqtt: InMemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A line that cannot be read goes out of the way: what stands around it is sent, and other jobs' too."""
    path = _say(store, say, _job(store, "0000000a"), "started", "progress")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], b"\xff garbage\n", *lines[1:]]))
    _say(store, say, _job(store, "0000000b"), "started")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            flush.run()
    assert _topics(mqtt) == ["0000000a"] * 2 + ["0000000b"]
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        f"line 2 of {path} cannot be read and is left out",
        f"what cannot be read of {path} (lines: 1) was moved to {path}.damaged",
    ]
    assert flush.facts() == {"failing": 0, "damaged": 1}


def test_an_outbox_that_cannot_be_read_is_said_once(
    flush: OutboxFlush, store: RecordStore, say: Say, mqtt: InMemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory in its place is no reason to fill the log, nor to leave the others waiting."""
    _job(store, "0000000a")
    Path(store.outbox_path("0000000a")).mkdir()
    _say(store, say, _job(store, "0000000b"), "started")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            flush.run()
    assert _topics(mqtt) == ["0000000b"]
    assert len(caplog.records) == 1
    assert flush.facts() == {"failing": 1, "damaged": 0}
    Path(store.outbox_path("0000000a")).rmdir()
    flush.run()
    assert flush.facts() == {"failing": 0, "damaged": 0}
