"""Jobs on a real broker's home, and somebody who reads what arrives."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.signature import new_token
from jobwire.jobs.admission import Reason
from jobwire.jobs.record import JobRecord
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess
from jobwire.testing.event_reader import EventReader


def new_job(home: Path) -> JobRecord:
    """Register one pending job under a fresh id."""
    now = utc_timestamp(time.time())
    record = JobRecord(os.urandom(4).hex(), new_token(), now, now)
    RecordStore(home).create(record)
    return record


@pytest.fixture
def make_job() -> Callable[[Path], JobRecord]:
    """Give `new_job`."""
    return new_job


@pytest.fixture
def read() -> Iterator[Callable[..., EventReader]]:
    """Give readers that are closed afterwards; all they may have refused is a second copy."""
    readers: list[EventReader] = []

    def make(server: BrokerProcess, record: JobRecord, *, late: bool = False) -> EventReader:
        readers.append(EventReader(server, record, late=late))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
    assert {item.reason for reader in readers for item in reader.rejected} <= {Reason.DUPLICATE}
