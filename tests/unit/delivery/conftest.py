"""A job in a home in memory, a broker without a network, and a clock that is moved by hand."""

from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.delivery import publishing
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.outbox_sender import OutboxSender, Route
from jobwire.delivery.publishing import Published
from jobwire.delivery.signing import Draft
from jobwire.jobs.record import JobRecord
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.testing import InMemoryBroker, InMemoryTransport, ManualClock

JOB = "0a1b2c3d"
ROOT = "python/mqtt/jobs"


def publish(events: EventLog, sender: OutboxSender, draft: Draft, *, attempts: int = 3) -> Published:
    """Publish by a sender that is there already."""
    return publishing.publish(events, lambda: sender, draft, attempts=attempts)


@pytest.fixture
def clock() -> ManualClock:
    """Give the clock of log and sender."""
    return ManualClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a place for a home."""
    return tmp_path / "home"


@pytest.fixture
def store(home: Path, clock: ManualClock) -> RecordStore:
    """Give a home with one pending job."""
    store = RecordStore(home, clock=clock)
    now = utc_timestamp(clock.now())
    store.create(JobRecord(JOB, "t" * 43, now, now))
    return store


@pytest.fixture
def events(store: RecordStore) -> HomeEventLog:
    """Give the events of the job, pinned to its first attempt."""
    return HomeEventLog(store, JOB, attempt=1)


@pytest.fixture
def broker() -> InMemoryBroker:
    """Give a broker without a network."""
    return InMemoryBroker()


class Senders:
    """Makes senders to one broker, and counts the connections they open."""

    def __init__(self, broker: InMemoryBroker, clock: ManualClock) -> None:
        self._broker = broker
        self._clock = clock
        self.connections = 0

    def sender(self, events: EventLog) -> OutboxSender:
        """Return a new sender."""
        return OutboxSender(
            events, lambda: Route("bus:1", ROOT, self._transport, 60), clock=self._clock, jitter=lambda: 0.0
        )

    def _transport(self) -> InMemoryTransport:
        self.connections += 1
        return self._broker.transport(f"pub-{self.connections}", user="claude-worker")


@pytest.fixture
def senders(broker: InMemoryBroker, clock: ManualClock) -> Senders:
    """Give senders to that broker."""
    return Senders(broker, clock)
