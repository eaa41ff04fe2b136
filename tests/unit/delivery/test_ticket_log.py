"""The events beside a ticket: no record, no shared disk, and the registry's word from the state topic."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import (
    ConfigError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StoppedError,
    TransitionError,
)
from jobwire.core.lease import LeaseGrant
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.outbox_sender import OutboxSender
from jobwire.delivery.signing import Draft
from jobwire.delivery.ticket_log import TicketEventLog
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.jobs.ticket import Ticket, encode_ticket, ticket_for
from jobwire.publisher.build import open_event_log
from jobwire.testing import InMemoryBroker, ManualClock
from tests.unit.delivery.conftest import publish

JOB = "0a1b2c3d"
STATE = f"python/mqtt/jobs/{JOB}/state"
STARTED, PROGRESS, COMPLETED = Draft("started"), Draft("progress", "x"), Draft("completed", "done")


class Senders(Protocol):
    """The fixture of the same name."""

    connections: int
    sender: Callable[[EventLog], OutboxSender]


class Registry:
    """The registry on its own host: a record, and its states on the broker."""

    def __init__(self, broker: InMemoryBroker, clock: ManualClock) -> None:
        now = utc_timestamp(clock.now())
        self.record = JobRecord(JOB, "t" * 43, now, now)
        self.clock = clock
        self._transport = broker.transport("registry")
        self._transport.connect(1)

    def write_ticket(self, path: Path, **broker: str | int) -> None:
        """Write the ticket of the present attempt."""
        ticket = ticket_for(self.record, broker=broker, topic_root="python/mqtt/jobs")
        path.touch(0o600)
        path.write_bytes(encode_ticket(ticket))

    def say(self, *, confirmed: int) -> None:
        """Publish the record's state."""
        state = encode_snapshot(self.record, confirmed_seq=confirmed)
        self._transport.publish(STATE, state, retain=True, deadline_seconds=1)

    def move(self, record: JobRecord) -> None:
        """Go on with `record`."""
        self.clock.advance(1)
        self.record = record._replace(updated_at=utc_timestamp(self.clock.now()))


@pytest.fixture
def registry(broker: InMemoryBroker, clock: ManualClock) -> Registry:
    """Give a registry that nobody shares a disk with."""
    return Registry(broker, clock)


@pytest.fixture
def path(tmp_path: Path, registry: Registry) -> Path:
    """Give a ticket file."""
    path = tmp_path / "job.ticket"
    registry.write_ticket(path)
    return path


@pytest.fixture
def ticket_log(path: Path, clock: ManualClock) -> TicketEventLog:
    """Give the worker's events."""
    return TicketEventLog(path, clock=clock)


def _again(path: Path, clock: ManualClock) -> TicketEventLog:
    """Return what another process of the worker would have."""
    return TicketEventLog(path, clock=clock)


def test_seq_and_state_live_beside_the_ticket(path: Path, clock: ManualClock, senders: Senders) -> None:
    """Each process counts on from the last; the lifecycle holds without a record."""
    with pytest.raises(TransitionError):
        _again(path, clock).append(PROGRESS)
    for seq, draft in enumerate((STARTED, PROGRESS, COMPLETED), 1):
        events = _again(path, clock)
        assert publish(events, senders.sender(events), draft).to_json() == {
            "job_id": JOB,
            "seq": seq,
            "event": draft.event,
            "delivered": True,
        }
    with pytest.raises(ConflictError):
        _again(path, clock).append(COMPLETED)


def test_a_ticket_counts_on_from_its_record(tmp_path: Path, registry: Registry, clock: ManualClock) -> None:
    """A ticket written in the middle of an attempt goes on where the record was."""
    registry.move(registry.record._replace(status=Status.RUNNING, last_seq=7, attempt_seq=4))
    registry.write_ticket(tmp_path / "late.ticket")
    events = TicketEventLog(tmp_path / "late.ticket", clock=clock)
    with pytest.raises(TransitionError):
        events.append(STARTED)
    assert events.append(PROGRESS).seq == 8


def test_the_outbox_is_trimmed_by_the_states_word(
    tmp_path: Path, registry: Registry, clock: ManualClock, senders: Senders, broker: InMemoryBroker
) -> None:
    """With a certificate, only what the state confirms is done with; a new connection reads it in passing."""
    path = tmp_path / "mtls.ticket"
    registry.write_ticket(path, certfile="c.pem", keyfile="k.pem")
    events = TicketEventLog(path, clock=clock)
    publish(events, senders.sender(events), STARTED)
    assert events.position().confirmed_seq == 0
    registry.say(confirmed=1)
    events = TicketEventLog(path, clock=clock)
    publish(events, senders.sender(events), PROGRESS)
    assert events.position().confirmed_seq == 1
    sent = [message for message in broker.published if message.topic != STATE]
    assert len(sent) == 2


def test_a_terminal_event_waits_for_the_state(
    ticket_log: TicketEventLog, registry: Registry, senders: Senders
) -> None:
    """Where states are heard, the terminal event waits for its own."""
    registry.say(confirmed=0)
    sender = senders.sender(ticket_log)
    publish(ticket_log, sender, STARTED)
    entry = ticket_log.append(COMPLETED)
    assert sender.deliver(entry.seq, attempts=1).delivered
    assert not sender.confirm(entry.seq, 0.0)
    registry.move(registry.record._replace(status=Status.COMPLETED, last_seq=2))
    registry.say(confirmed=2)
    assert sender.confirm(entry.seq, 5.0)


def test_cancellation_and_a_new_attempt_are_noticed(
    path: Path, registry: Registry, clock: ManualClock, senders: Senders
) -> None:
    """A signed state that says cancelled, or that another attempt holds the job, stops the worker."""
    events = _again(path, clock)
    publish(events, senders.sender(events), STARTED)
    registry.move(fold.claim(registry.record, LeaseGrant("w"), clock.now()))
    registry.move(fold.next_attempt(registry.record, "n" * 43, clock.now(), "lease ran out"))
    registry.say(confirmed=1)
    events = _again(path, clock)
    published = publish(events, senders.sender(events), PROGRESS)
    assert isinstance(published.failure, StoppedError)
    with pytest.raises(StoppedError):
        events.append(PROGRESS)
    registry.write_ticket(path)
    events = _again(path, clock)
    assert publish(events, senders.sender(events), STARTED).failure is None
    registry.move(fold.cancel(registry.record, clock.now(), "not needed"))
    registry.say(confirmed=1)
    events = _again(path, clock)
    assert isinstance(publish(events, senders.sender(events), PROGRESS).failure, StoppedError)


def test_a_job_that_the_registry_ended_is_a_conflict(
    path: Path, registry: Registry, clock: ManualClock, senders: Senders
) -> None:
    """When the registry itself ended the job, its worker's next event is a conflict."""
    events = _again(path, clock)
    publish(events, senders.sender(events), STARTED)
    registry.move(fold.claim(registry.record, LeaseGrant("w"), clock.now()))
    registry.move(fold.fail(registry.record, clock.now(), "wall timeout"))
    registry.say(confirmed=1)
    events = _again(path, clock)
    assert isinstance(publish(events, senders.sender(events), PROGRESS).failure, ConflictError)


def test_a_cancellation_counts_whatever_the_clock_says(
    ticket_log: TicketEventLog, registry: Registry, clock: ManualClock, senders: Senders
) -> None:
    """A worker that keeps its connection hears of a cancellation also after the clock was set back."""
    sender = senders.sender(ticket_log)
    registry.say(confirmed=0)
    assert publish(ticket_log, sender, STARTED).failure is None
    clock.set_wall(clock.now() - 3600)
    registry.move(fold.cancel(registry.record, clock.now(), "not needed"))
    registry.say(confirmed=0)
    assert isinstance(publish(ticket_log, sender, PROGRESS).failure, StoppedError)


def test_a_ticket_in_use_elsewhere_is_noticed(
    path: Path, tmp_path: Path, registry: Registry, clock: ManualClock, senders: Senders
) -> None:
    """Whoever is behind what the registry holds of its attempt is told so; a new ticket counts on."""
    copy = tmp_path / "copy.ticket"
    registry.write_ticket(copy)
    first = _again(path, clock)
    for draft in (STARTED, PROGRESS):
        assert publish(first, senders.sender(first), draft).failure is None
    registry.move(registry.record._replace(status=Status.RUNNING, last_seq=2))
    registry.say(confirmed=2)
    second = _again(copy, clock)
    failure = publish(second, senders.sender(second), STARTED).failure
    assert isinstance(failure, ConflictError)
    assert "somebody else speaks" in failure.message
    assert publish(first, senders.sender(first), PROGRESS).failure is None
    registry.move(registry.record._replace(last_seq=3))
    registry.say(confirmed=3)
    registry.write_ticket(copy)
    third = _again(copy, clock)
    assert publish(third, senders.sender(third), PROGRESS).seq == 4


def test_what_is_missing_before_the_own_end_is_still_sent(
    tmp_path: Path, registry: Registry, clock: ManualClock, senders: Senders
) -> None:
    """A broker lost an event, the end came through: the job is over, and the missing one is sent again."""
    path = tmp_path / "mtls.ticket"
    registry.write_ticket(path, certfile="c.pem", keyfile="k.pem")
    events = TicketEventLog(path, clock=clock)
    for draft in (STARTED, PROGRESS, COMPLETED):
        events.append(draft)
    assert senders.sender(events).deliver(3, attempts=1).sent == 3
    registry.move(registry.record._replace(status=Status.COMPLETED, last_seq=3))
    registry.say(confirmed=1)
    events = _again(path, clock)
    assert senders.sender(events).flush(attempts=1).failure is None
    delivery = senders.sender(events).flush(attempts=1)
    assert (delivery.failure, delivery.sent) == (None, 2)


@pytest.mark.parametrize("forgery", [b"", b"{}", b"not json", b'{"status":"cancelled"}'])
def test_a_forged_state_is_ignored(
    ticket_log: TicketEventLog, senders: Senders, broker: InMemoryBroker, forgery: bytes
) -> None:
    """What is not signed for this job's holder stops nobody and confirms nothing."""
    forger = broker.transport("forger")
    forger.connect(1)
    forger.publish(STATE, forgery, retain=True, deadline_seconds=1)
    assert publish(ticket_log, senders.sender(ticket_log), STARTED).failure is None
    assert ticket_log.position().confirmed_seq is None


def test_a_state_signed_with_another_key_is_ignored(
    ticket_log: TicketEventLog, registry: Registry, senders: Senders, clock: ManualClock
) -> None:
    """A well-formed state under a stranger's key is a forgery."""
    registry.move(fold.cancel(registry.record, clock.now(), "x")._replace(auth_token="s" * 43))
    registry.say(confirmed=99)
    assert publish(ticket_log, senders.sender(ticket_log), STARTED).failure is None


def test_without_the_right_to_read_states_puback_is_all_there_is(
    ticket_log: TicketEventLog, senders: Senders, broker: InMemoryBroker
) -> None:
    """A refused subscription is no failure: the event goes out, and the PUBACK counts."""
    broker.access = lambda user, action, _topic: (user, action) != ("claude-worker", "subscribe")
    published = publish(ticket_log, senders.sender(ticket_log), STARTED)
    assert (published.delivered, published.failure) == (True, None)
    assert ticket_log.position().confirmed_seq is None


def test_another_jobs_outbox_is_not_continued(
    path: Path, tmp_path: Path, registry: Registry, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A new ticket in the same place starts its own outbox, and says what it drops."""
    _again(path, clock).append(STARTED)
    registry.record = registry.record._replace(job_id="ffffffff")
    registry.write_ticket(path)
    with caplog.at_level(logging.WARNING):
        events = _again(path, clock)
        assert events.append(STARTED).seq == 1
    assert "1 unsent" in caplog.text
    assert [entry.seq for entry in events.outbox.entries()] == [1]


def test_an_old_ticket_in_the_place_of_a_newer_one_is_stopped(
    path: Path, registry: Registry, clock: ManualClock
) -> None:
    """An outbox of a later attempt shows that this ticket is over."""
    old = path.read_bytes()
    registry.move(registry.record._replace(attempt=2))
    registry.write_ticket(path)
    _again(path, clock).append(STARTED)
    path.write_bytes(old)
    with pytest.raises(StoppedError):
        _again(path, clock).append(STARTED)


def test_a_ticket_is_a_secret(path: Path, clock: ManualClock) -> None:
    """A ticket that others may read is refused with its remedy; a missing one is not found."""
    path.chmod(0o640)
    with pytest.raises(ConfigError) as refused:
        TicketEventLog(path, clock=clock)
    assert "chmod 600" in refused.value.hint
    with pytest.raises(NotFoundError):
        TicketEventLog(path.with_name("missing"), clock=clock)
    path.chmod(0o600)
    path.write_bytes(b"x" * 300_000)
    with pytest.raises(ConfigError):
        TicketEventLog(path, clock=clock)


def test_job_and_attempt_must_be_the_tickets(path: Path, clock: ManualClock) -> None:
    """Naming another job than the ticket's is refused; another attempt stops the worker."""
    with pytest.raises(InvalidInputError):
        open_event_log(job_id="ffffffff", ticket=str(path), home="x", attempt=None, clock=clock, environ={})
    with pytest.raises(StoppedError):
        open_event_log(job_id=None, ticket=str(path), home="x", attempt=2, clock=clock, environ={})
    with pytest.raises(InvalidInputError):
        open_event_log(job_id=None, ticket=None, home="x", attempt=None, clock=clock, environ={})


def test_settings_come_from_the_ticket(tmp_path: Path, clock: ManualClock) -> None:
    """PEM texts in the ticket become private files, paths are relative to it, the command line wins."""
    path = tmp_path / "job.ticket"
    ticket = Ticket(
        JOB,
        "t" * 43,
        1,
        {
            "broker": "bus.example",
            "port": 8884,
            "ca_certs_pem": "CA",
            "certfile": "c.pem",
            "keyfile": "k.pem",
        },
        "other/root",
    )
    path.touch(0o600)
    path.write_bytes(encode_ticket(ticket))
    for _ in range(2):
        settings = TicketEventLog(path, clock=clock).settings({"port": 9999}, {"MQTT_BROKER": "elsewhere"})
    assert (settings.host, settings.port, settings.topic_root) == ("bus.example", 9999, "other/root")
    assert settings.certfile == str(tmp_path / "c.pem")
    ca_file = Path(str(settings.ca_certs))
    assert ca_file.read_text() == "CA"
    assert ca_file.stat().st_mode & 0o777 == 0o600
    assert ca_file.parent.stat().st_mode & 0o777 == 0o700


def test_a_state_of_a_newer_registry_is_no_obstacle(
    ticket_log: TicketEventLog, registry: Registry, senders: Senders, caplog: pytest.LogCaptureFixture
) -> None:
    """A state that is not understood is left aside, which is said once; events go out as before it."""
    sender = senders.sender(ticket_log)
    publish(ticket_log, sender, STARTED)
    registry.say(confirmed=1)
    publish(ticket_log, sender, PROGRESS)
    for number in range(2):
        registry.move(registry.record._replace(status="paused", last_seq=number))  # type: ignore[arg-type]
        registry.say(confirmed=2)
        assert publish(ticket_log, sender, PROGRESS).delivered
    assert ticket_log.position().confirmed_seq == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "update jobwire" in caplog.text
