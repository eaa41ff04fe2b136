"""A worker with nothing but a ticket, on real brokers: by certificate, and by a role account."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import StoppedError
from jobwire.core.settings import BrokerSettings
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.publisher import Publisher
from jobwire.testing import BrokerProcess
from jobwire.testing.event_reader import EventReader
from jobwire.transport import PahoTransport

Read = Callable[..., EventReader]


def _record() -> JobRecord:
    now = utc_timestamp(time.time())
    return JobRecord(os.urandom(4).hex(), new_token(), now, now)


def _write(path: Path, record: JobRecord, settings: BrokerSettings) -> Path:
    """Write a ticket with everything inside: no path of this host."""
    broker: dict[str, str | int] = {
        "broker": settings.host,
        "port": settings.port,
        "protocol": settings.protocol,
        "ca_certs_pem": Path(str(settings.ca_certs)).read_text(),
    }
    if settings.certfile and settings.keyfile:
        broker["certfile_pem"] = Path(settings.certfile).read_text()
        broker["keyfile_pem"] = Path(settings.keyfile).read_text()
    if settings.username and settings.password:
        broker["username"] = settings.username
        broker["password"] = settings.password.reveal()
    path.touch(0o600)
    path.write_bytes(encode_ticket(ticket_for(record, broker=broker, topic_root=settings.topic_root)))
    return path


def _say_state(server: BrokerProcess, record: JobRecord, *, confirmed: int) -> None:
    """Publish the state as the registry process does."""
    settings = server.settings("registry")
    transport = PahoTransport(settings, client_id=f"registry-{record.job_id}", clean_session=True)
    transport.connect(10)
    state = encode_snapshot(record, confirmed_seq=confirmed)
    topic = Topics(settings.topic_root).state(record.job_id)
    transport.publish(topic, state, retain=True, deadline_seconds=5)
    transport.close()


def _publisher(ticket: Path, seconds: float = 0.2) -> Publisher:
    return Publisher(ticket=ticket, confirm_seconds=seconds, environ={})


@pytest.fixture(params=["certificate", "role account"])
def identity(request: pytest.FixtureRequest) -> Callable[[BrokerProcess, JobRecord], BrokerSettings]:
    """Give the worker's identity: a certificate for this job, or the account of all workers."""

    def settings(server: BrokerProcess, record: JobRecord) -> BrokerSettings:
        if request.param == "certificate":
            return server.certificate_settings(record.job_id)
        return server.settings("claude-worker")

    return settings


def test_a_worker_with_a_ticket_is_heard(
    broker: BrokerProcess,
    tmp_path: Path,
    read: Read,
    identity: Callable[[BrokerProcess, JobRecord], BrokerSettings],
) -> None:
    """With either identity, events of several processes arrive in order; seq lives beside the ticket."""
    record = _record()
    reader = read(broker, record)
    ticket = _write(tmp_path / "job.ticket", record, identity(broker, record))
    with _publisher(ticket) as worker:
        assert worker.started().delivered
    with _publisher(ticket) as worker:
        assert worker.progress("half", percent=50).seq == 2
        assert worker.completed().delivered
    assert reader.wait_for_seq(3) == [1, 2, 3]


def test_a_certificate_hears_the_registry(broker: BrokerProcess, tmp_path: Path) -> None:
    """The signed state confirms, and tells of cancellation, to the holder of the job's certificate."""
    record = _record()
    ticket = _write(tmp_path / "job.ticket", record, broker.certificate_settings(record.job_id))
    with _publisher(ticket) as worker:
        assert worker.started().confirmed is False
        record = record._replace(status=Status.RUNNING, last_seq=1)
        _say_state(broker, record, confirmed=2)
        assert worker.progress("one").confirmed is True
        _say_state(broker, fold.cancel(record, time.time(), "not needed"), confirmed=2)
    with _publisher(ticket) as worker, pytest.raises(StoppedError):
        worker.progress("two")


def test_a_new_attempt_stops_the_old_tickets_holder(broker: BrokerProcess, tmp_path: Path) -> None:
    """The state is signed for earlier attempts too: they learn that they are over."""
    record = _record()
    ticket = _write(tmp_path / "job.ticket", record, broker.certificate_settings(record.job_id))
    with _publisher(ticket) as worker:
        worker.started()
        running = record._replace(status=Status.RUNNING, last_seq=1)
        _say_state(broker, fold.next_attempt(running, new_token(), time.time(), "lease"), confirmed=1)
        with pytest.raises(StoppedError):
            worker.progress("one")
