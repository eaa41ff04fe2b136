"""Jobs on a real broker's home, and somebody who reads what arrives."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.core.admission import Accepted, JobView, Reason, admit
from jobwire.core.clock import utc_timestamp
from jobwire.core.event import Event  # noqa: TC001 - an annotation that people read, in the order of use
from jobwire.core.ports import Message, SessionStarted
from jobwire.core.record import JobRecord
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess, wait_for
from jobwire.transport import PahoTransport


def new_job(home: Path) -> JobRecord:
    """Register one pending job under a fresh id."""
    now = utc_timestamp(time.time())
    record = JobRecord(os.urandom(4).hex(), new_token(), now, now)
    RecordStore(home).create(record)
    return record


class Reader:
    """Reads one job's events as the role `hermes`, and admits them like every consumer.

    `late` for one that comes when events were said already.
    """

    def __init__(self, server: BrokerProcess, record: JobRecord, *, late: bool = False) -> None:
        settings = server.settings("hermes")
        self._topics = Topics(settings.topic_root)
        self._view = JobView(token=record.auth_token, joined_late=late)
        self.messages: list[Message] = []
        self.events: list[Event] = []
        self.sessions = 0
        self._transport = PahoTransport(settings, client_id=f"read-{record.job_id}", clean_session=False)
        self._transport.subscribe([self._topics.events(record.job_id)])
        self._transport.connect(10)

    def seqs(self) -> list[int]:
        """Return the seqs of the accepted events so far, in order of arrival."""
        for item in self._transport.receive_many(100, 0.05):
            if isinstance(item, Message):
                self._take(item)
            elif isinstance(item, SessionStarted):
                self.sessions += 1
        return [event.seq for event in self.events]

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        self._transport.acknowledge(message)
        verdict = admit(self._topics, message.topic, message.payload, retained=message.retain, job=self._view)
        if isinstance(verdict, Accepted):
            self._view.accept(verdict)
            self.events.append(verdict.event)
        else:
            assert verdict.reason is Reason.DUPLICATE, verdict

    def wait_for_seq(self, seq: int) -> list[int]:
        """Return the accepted seqs once `seq` is among them."""
        wait_for(lambda: seq in self.seqs(), deadline_seconds=30, what=f"event {seq}")
        return self.seqs()

    def wait_for_sessions(self, count: int) -> None:
        """Return once the connection was established `count` times."""
        wait_for(lambda: [self.seqs(), self.sessions >= count][1], deadline_seconds=30, what="a reconnect")

    def close(self) -> None:
        """Disconnect."""
        self._transport.close()


@pytest.fixture
def make_job() -> Callable[[Path], JobRecord]:
    """Give `new_job`."""
    return new_job


@pytest.fixture
def read() -> Iterator[Callable[..., Reader]]:
    """Give readers that are closed afterwards."""
    readers: list[Reader] = []

    def make(server: BrokerProcess, record: JobRecord, *, late: bool = False) -> Reader:
        readers.append(Reader(server, record, late=late))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
