"""A job in a home in memory, and a clock that is moved by hand."""

from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.jobs.record import JobRecord
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock

JOB = "0a1b2c3d"


@pytest.fixture
def clock() -> ManualClock:
    """Give the clock of the home."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> RecordStore:
    """Give a home with one pending job."""
    store = RecordStore(tmp_path / "home", clock=clock)
    now = utc_timestamp(clock.now())
    store.create(JobRecord(JOB, "t" * 43, now, now))
    return store


@pytest.fixture
def events(store: RecordStore) -> HomeEventLog:
    """Give the log of the job, pinned to its first attempt."""
    return HomeEventLog(store, JOB, attempt=1)
