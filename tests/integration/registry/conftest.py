"""A registry process in a thread, over any broker, and workers that speak to it."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import JobwireError
from jobwire.core.ports import Transport
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event, compose, encode_signed
from jobwire.jobs.record import JobRecord
from jobwire.registry.assembly import Assembly, Connections
from jobwire.registry.purge import RetentionRules
from jobwire.registry.queue import JobQueue
from jobwire.registry.serve import RegistryProcess
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing import BrokerProcess, InMemoryBroker, wait_for
from jobwire.transport import PahoTransport

_RULES = RetentionRules()


class Site:
    """One home, its queue, its process, and a broker."""

    def __init__(self, home: Path, broker: BrokerProcess | InMemoryBroker) -> None:
        self.store = RecordStore(home)
        self.queue = JobQueue(self.store, warn=pytest.fail)
        self.broker = broker
        self.topics = Topics()

    def transport(self, role: str, client_id: str, *, clean_session: bool = True) -> Transport:
        """Return an unconnected transport of `role`."""
        if isinstance(self.broker, InMemoryBroker):
            return self.broker.transport(client_id, clean_session=clean_session, user=role)
        settings = self.broker.settings(role)
        return PahoTransport(
            settings, client_id=client_id, clean_session=clean_session, backoff=lambda _: 0.05
        )

    def connections(self) -> Connections:
        """Return the ways of the registry process to the broker."""
        return Connections(
            broker=BrokerSettings("test", 1, topic_root=self.topics.root),
            recording=lambda: self.transport("registry", "registry-test", clean_session=False),
            sending=lambda: self.transport("registry", f"registry-{os.urandom(4).hex()}"),
        )

    @contextmanager
    def serving(self, *, wait: bool = True, rules: RetentionRules = _RULES) -> Iterator[RegistryProcess]:
        """Run the registry process in a thread for the block; it must end cleanly."""
        ready = threading.Event()
        errors: list[JobwireError] = []
        store = RecordStore(self.store.home)
        process = RegistryProcess(
            store=store,
            assemble=partial(Assembly, store=store, connections=self.connections(), rules=rules),
            on_ready=ready.set,
        )

        def run() -> None:
            try:
                process.run()
            except JobwireError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            if wait:
                wait_for(ready.is_set, what="the registry process")
            yield process
        finally:
            process.stop()
            thread.join(60)
            assert not thread.is_alive()
        if errors:
            raise errors[0]

    def register(self) -> JobRecord:
        """Register a job."""
        return self.queue.register(JobSpec()).record

    def say(self, job: JobRecord, seq: int, kind: str, detail: str = "") -> tuple[Event, bytes]:
        """Return a signed event."""
        event = compose(
            seq=seq, job_id=job.job_id, event=kind, timestamp=utc_timestamp(0.0), detail=detail, data={}
        )
        return event, encode_signed(event, job.auth_token)

    @contextmanager
    def worker(self) -> Iterator[Callable[[tuple[Event, bytes]], None]]:
        """Give a worker on another host: it only publishes."""
        transport = self.transport("claude-worker", f"worker-{os.urandom(4).hex()}")
        transport.connect(10)

        def publish(said: tuple[Event, bytes]) -> None:
            event, payload = said
            topic = self.topics.events(event.job_id)
            transport.publish(topic, payload, retain=event.terminal, deadline_seconds=10)

        try:
            yield publish
        finally:
            transport.close()

    def keep(self, job: JobRecord, said: tuple[Event, bytes]) -> None:
        """Do what a publisher on this disk does before it sends: history, then record. Long ago."""
        event, payload = said
        self.store.apply(job.job_id, event, payload, source="publisher")
        os.utime(self.store.sent_path(job.job_id), (0, 0))

    def confirmed(self, job: JobRecord, seq: int) -> None:
        """Wait until the registry process has everything up to `seq`."""
        wait_for(
            lambda: self.store.get(job.job_id).confirmed_seq == seq,
            what=f"the confirmation of seq {seq}",
        )

    def history(self, job: JobRecord) -> list[tuple[object, object]]:
        """Return (verdict, seq) of every event in the job's history."""
        lines = self.store.audit(job.job_id).lines()
        return [(line["verdict"], line["seq"]) for line in lines if line["kind"] == "event"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Give a home with the in-memory broker."""
    return Site(tmp_path / "home", InMemoryBroker())


@pytest.fixture
def make_site() -> Callable[[Path], Site]:
    """Give a home of one's choice with an in-memory broker."""
    return lambda home: Site(home, InMemoryBroker())


@pytest.fixture
def real_site(fresh_broker: BrokerProcess) -> Site:
    """Give a home with each real broker in turn, which may be stopped and killed."""
    return Site(fresh_broker.home, fresh_broker)
