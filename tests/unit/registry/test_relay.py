"""What is left in outboxes is sent; what is wrong with one is said once and holds up no other."""

import logging
import os
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.topics import Topics
from jobwire.delivery.connection import BrokerConnection
from jobwire.delivery.signing import Draft
from jobwire.jobs.record import JobRecord
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.relay import Relay
from jobwire.registry.store import RecordStore
from jobwire.testing import InMemoryBroker, ManualClock


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> RecordStore:
    """Give an empty home."""
    return RecordStore(tmp_path / "home", clock=clock)


@pytest.fixture
def mqtt() -> InMemoryBroker:
    """Give a broker."""
    return InMemoryBroker()


@pytest.fixture
def relay(store: RecordStore, clock: ManualClock, mqtt: InMemoryBroker) -> Relay:
    """Give the duty, sending to that broker."""
    sender = BrokerConnection(connect=lambda: mqtt.transport("sender"), clock=clock)
    return Relay(store=store, topics=Topics(), connection=sender, expiry_seconds=60)


def _job(store: RecordStore, job_id: str) -> JobRecord:
    stamp = utc_timestamp(store.clock.now())
    record = JobRecord(job_id, "t" * 43, stamp, stamp)
    store.create(record)
    return record


def _say(store: RecordStore, job: JobRecord, *kinds: str) -> Path:
    """Leave a job's events in its outbox; return its path."""
    events = HomeEventLog(store, job.job_id, attempt=None)
    for kind in kinds:
        events.append(Draft(kind))
    os.utime(store.sent_path(job.job_id), (0, 0))
    return Path(events.outbox.path)


def _topics(mqtt: InMemoryBroker) -> list[str]:
    return [message.topic.split("/")[-2] for message in mqtt.published]


def test_damage_is_said_once_and_told_by_health(
    relay: Relay, store: RecordStore, mqtt: InMemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """An event that cannot be read holds up nothing: what stands around it is sent, and other jobs' too."""
    path = _say(store, _job(store, "0000000a"), "started", "progress", "progress")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-2], lines[-2].replace(b'"progress"', b'"pr\xffgress"'), lines[-1]]))
    _say(store, _job(store, "0000000b"), "started")
    with caplog.at_level(logging.WARNING):
        relay.run()
    assert _topics(mqtt) == ["0000000a"] * 2 + ["0000000b"]
    assert [record.getMessage() for record in caplog.records] == [
        f"event 2 in {path} cannot be read and is left out"
    ]
    assert relay.facts() == {"failing": 0, "damaged": 1}


def test_an_outbox_that_cannot_be_read_is_said_once(
    relay: Relay, store: RecordStore, mqtt: InMemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory in its place is no reason to fill the log, nor to leave the others waiting."""
    path = _say(store, _job(store, "0000000a"), "started")
    line = path.read_bytes()
    path.unlink()
    path.mkdir()
    _say(store, _job(store, "0000000b"), "started")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            relay.run()
    assert _topics(mqtt) == ["0000000b"]
    assert len(caplog.records) == 1
    assert relay.facts() == {"failing": 1, "damaged": 0}
    path.rmdir()
    path.write_bytes(line)
    relay.run()
    assert relay.facts() == {"failing": 0, "damaged": 0}
