"""The queue of states to be sent."""

from pathlib import Path

import pytest

from jobwire.core.errors import RefusedError
from jobwire.core.lease import LeaseGrant
from jobwire.core.redaction import Redactor
from jobwire.core.topics import Topics
from jobwire.delivery.connection import BrokerConnection
from jobwire.jobs.fact import facts_in
from jobwire.jobs.fold import cancel
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import decode_snapshot
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.states import StateQueue, Urgency
from jobwire.registry.store import RecordStore
from jobwire.testing import InMemoryBroker, ManualClock


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a queue that has nothing to send say so at once: its pauses are the system's, not the clock's."""
    monkeypatch.setattr("jobwire.registry.states._IDLE_SECONDS", 0.001)


@pytest.fixture
def mqtt() -> InMemoryBroker:
    """Give a broker."""
    return InMemoryBroker()


@pytest.fixture
def states(store: RecordStore, clock: ManualClock, mqtt: InMemoryBroker) -> StateQueue:
    """Give the queue, sending to that broker."""
    sender = BrokerConnection(connect=lambda: mqtt.transport("sender"), clock=clock)
    return StateQueue(
        store=store,
        topics=Topics(),
        sender=sender,
        expiry_seconds=60,
        redactor=Redactor({"DEPLOY_TOKEN": "zq81-very-hidden"}),
    )


def test_state_is_retained_and_signed(states: StateQueue, mqtt: InMemoryBroker, job: JobRecord) -> None:
    """A state is published with retain, readable by the job's worker, and carries what is confirmed."""
    states.offer(job.job_id, job._replace(last_seq=7, confirmed_seq=5), Urgency.STATUS)
    assert states.send_next()
    (sent,) = mqtt.published
    assert (sent.topic, sent.retain, sent.expiry_seconds) == (Topics().state(job.job_id), True, None)
    snapshot = decode_snapshot(sent.payload, job_id=job.job_id, token=job.auth_token)
    assert snapshot is not None
    assert snapshot.last_seq == 5


def test_what_a_person_typed_is_shortened_on_the_wire(
    states: StateQueue, mqtt: InMemoryBroker, job: JobRecord
) -> None:
    """A reason with a path or a secret stays as it is on this disk, and is cut or masked in the state."""
    states.offer(job.job_id, cancel(job, 0.0, "see /home/me/why.txt, zq81-very-hidden"), Urgency.STATUS)
    states.send_next()
    snapshot = decode_snapshot(mqtt.published[0].payload, job_id=job.job_id, token=job.auth_token)
    assert snapshot is not None
    assert snapshot.detail == "see …/why.txt, [redacted]"


def test_a_state_says_what_was_decided(
    states: StateQueue, queue: JobQueue, mqtt: InMemoryBroker, clock: ManualClock
) -> None:
    """Each state has the job's facts again, as the journal of the registry has them, without secrets."""
    job = queue.register(JobSpec(agent_session="docs", labels={"team": "a"})).record

    def told() -> list[tuple[str, int, str, str]]:
        states.offer(job.job_id, None, Urgency.STATUS)
        assert states.send_next()
        facts = facts_in(mqtt.published[-1].payload, job_id=job.job_id)
        assert {(fact.created_at, fact.session) for fact in facts} == {(job.created_at, "docs")}
        assert facts[0].labels == {"team": "a"}
        return [(fact.kind, fact.attempt, fact.by, fact.cause) for fact in facts]

    first = told()
    assert [kind for kind, *_ in first] == ["registered"]
    queue.claim(job.job_id, LeaseGrant("pane-7"))
    queue.release(job.job_id, owner="pane-7", reason="zq81-very-hidden")
    clock.advance(60)
    queue.claim(job.job_id, LeaseGrant("pane-8"))
    queue.cancel(job.job_id, by="ana")
    found = told()
    assert [(kind, attempt, by) for kind, attempt, by, _ in found[1:]] == [
        ("claimed", 1, "pane-7"),
        ("requeued", 2, "pane-7"),
        ("claimed", 2, "pane-8"),
        ("cancelled", 2, "ana"),
    ]
    assert "[redacted]" in found[2][3]
    assert b"zq81" not in mqtt.published[-1].payload


def test_a_state_goes_out_where_the_history_cannot_be_read(
    states: StateQueue, queue: JobQueue, mqtt: InMemoryBroker
) -> None:
    """A worker's confirmation does not wait for what was decided."""
    job = queue.register(JobSpec()).record
    path = Path(queue.store.audit(job.job_id).events_path)
    path.unlink()
    path.mkdir()
    states.offer(job.job_id, job, Urgency.STATUS)
    assert states.send_next()
    assert facts_in(mqtt.published[-1].payload, job_id=job.job_id) == []


def test_terminal_state_expires(states: StateQueue, mqtt: InMemoryBroker, job: JobRecord) -> None:
    """The state of a finished job leaves an MQTT 5 broker by itself."""
    states.offer(job.job_id, cancel(job, 0.0, "no"), Urgency.STATUS)
    states.send_next()
    assert mqtt.published[0].expiry_seconds == 60


def test_one_job_stands_in_the_queue_once(states: StateQueue, mqtt: InMemoryBroker, job: JobRecord) -> None:
    """What changes before its turn is sent with it, and at the better place."""
    other = job._replace(job_id="ffffffff")
    states.offer(other.job_id, other, Urgency.PROGRESS)
    states.offer(job.job_id, job._replace(confirmed_seq=1), Urgency.STATUS)
    states.offer(job.job_id, job._replace(confirmed_seq=2), Urgency.PROGRESS)
    assert (states.waiting(), states.urgent_waiting()) == (2, 1)
    states.send_next()
    states.send_next()
    assert [message.topic.split("/")[-2] for message in mqtt.published] == [job.job_id, other.job_id]
    assert b'"last_seq":2' in mqtt.published[0].payload


def test_progress_is_sent_calmly(
    states: StateQueue, mqtt: InMemoryBroker, clock: ManualClock, job: JobRecord
) -> None:
    """Progress right after another state waits a few seconds; a change of status does not."""
    for number in (1, 2):
        states.offer(job.job_id, job._replace(confirmed_seq=number), Urgency.PROGRESS)
        states.send_next()
    assert len(mqtt.published) == 1
    states.offer(job.job_id, job._replace(confirmed_seq=3), Urgency.STATUS)
    states.send_next()
    assert len(mqtt.published) == 2
    states.offer(job.job_id, job._replace(confirmed_seq=4), Urgency.PROGRESS)
    clock.advance(5)
    states.send_next()
    assert len(mqtt.published) == 3


def test_told_twice_sent_once(states: StateQueue, mqtt: InMemoryBroker, job: JobRecord) -> None:
    """An unchanged state is not sent again, unless the broker has lost it."""
    for _ in range(2):
        states.offer(job.job_id, job, Urgency.STATUS)
        states.send_next()
    assert len(mqtt.published) == 1
    states.forget_sent()
    states.offer(job.job_id, None, Urgency.REPEAT)
    states.send_next()
    assert len(mqtt.published) == 2


def test_broker_away(states: StateQueue, mqtt: InMemoryBroker, clock: ManualClock, job: JobRecord) -> None:
    """A state that could not be sent is sent when the broker is back."""
    mqtt.stop()
    states.offer(job.job_id, job, Urgency.STATUS)
    states.send_next()
    assert states.waiting() == 1
    mqtt.start()
    clock.advance(30)
    states.send_next()
    assert (states.waiting(), len(mqtt.published)) == (0, 1)


def test_refused_state_is_dropped(
    states: StateQueue, mqtt: InMemoryBroker, job: JobRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that refuses states for good is reported and not asked for ever."""
    mqtt.access = lambda _user, action, _topic: action != "publish"
    states.offer(job.job_id, job, Urgency.STATUS)
    states.send_next()
    assert states.waiting() == 0
    assert "refuses the state" in caplog.text


def test_purged_job_is_passed(states: StateQueue, mqtt: InMemoryBroker) -> None:
    """A job that is gone when its turn comes stops nobody."""
    states.offer("00000000", None, Urgency.STATUS)
    assert states.send_next()
    assert mqtt.published == []


def test_refused_connection(clock: ManualClock, mqtt: InMemoryBroker) -> None:
    """A refused connect pauses before the next try."""
    mqtt.refuse_connections(RefusedError("wrong password"))
    sender = BrokerConnection(connect=lambda: mqtt.transport("sender"), clock=clock)
    with pytest.raises(RefusedError):
        sender.publish("t", b"x", retain=False)
    mqtt.refuse_connections(None)
    clock.advance(30)
    sender.publish("t", b"x", retain=False)
    sender.close()
    assert len(mqtt.published) == 1


def test_state_of_an_unreadable_record_is_sent_later(
    states: StateQueue,
    mqtt: InMemoryBroker,
    store: RecordStore,
    clock: ManualClock,
    job: JobRecord,
) -> None:
    """A change that cannot be read now is told when it can be, once."""
    path = Path(store.record_path(job.job_id))
    kept = path.read_bytes()
    path.write_bytes(b"{")
    states.offer(job.job_id, None, Urgency.STATUS)
    for _ in range(3):
        assert states.send_next()
        assert not states.send_next()
        clock.advance(6)
    assert mqtt.published == []
    path.write_bytes(kept)
    assert states.send_next()
    assert [sent.topic for sent in mqtt.published] == [Topics().state(job.job_id)]
    clock.advance(60)
    assert not states.send_next()
