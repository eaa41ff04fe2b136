"""A home directory, a clock that is moved by hand, and signed events."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.event import Event, compose, encode_signed
from jobwire.core.record import JobRecord
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock

Say = Callable[..., tuple[Event, bytes]]


@pytest.fixture
def clock() -> ManualClock:
    """Give the clock that store and queue share."""
    return ManualClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a place for a home."""
    return tmp_path / "home"


@pytest.fixture
def store(home: Path, clock: ManualClock) -> RecordStore:
    """Give an empty home."""
    return RecordStore(home, clock=clock)


@pytest.fixture
def warnings() -> list[str]:
    """Collect what the queue warns of."""
    return []


@pytest.fixture
def queue(store: RecordStore, warnings: list[str]) -> JobQueue:
    """Give the queue of that home."""
    return JobQueue(store, warn=warnings.append)


@pytest.fixture
def job(store: RecordStore) -> JobRecord:
    """Give one pending job."""
    stamp = utc_timestamp(store.clock.now())
    record = JobRecord("1a2b3c4d", "t" * 43, stamp, stamp, title="a job")
    store.create(record)
    return record


@pytest.fixture
def say(store: RecordStore) -> Say:
    """Give a worker: `say(record, seq, kind)` returns the event and its signed bytes."""

    def speak(record: JobRecord, seq: int, kind: str, detail: str = "") -> tuple[Event, bytes]:
        event = compose(
            seq=seq,
            job_id=record.job_id,
            event=kind,
            timestamp=utc_timestamp(store.clock.now()),
            detail=detail,
            data={},
        )
        return event, encode_signed(event, record.auth_token)

    return speak
