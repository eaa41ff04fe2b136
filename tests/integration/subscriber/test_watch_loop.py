"""The watch in this process: real records on disk, a broker whose faults are scripted, and real ones."""

import threading
from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError, InvalidInputError, NotFoundError, RefusedError
from jobwire.core.ports import SessionStarted
from jobwire.core.settings import BrokerSettings
from jobwire.core.signature import new_token
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event, encode_signed
from jobwire.jobs.record import Timeouts
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.jobs.ticket import ticket_for
from jobwire.subscriber.fleet import Mode
from jobwire.subscriber.outcome import EventLine, Line, Note, Outcome, Refusal, Verdict
from jobwire.subscriber.subscriber import Subscriber, open_watch, paho_factory, watch_jobs
from jobwire.subscriber.watch_loop import WatchLoop, run
from jobwire.testing import BrokerProcess, InMemoryBroker, wait_for
from jobwire.testing.watching import JobHouse
from jobwire.transport import PahoTransport

TOPICS = Topics()
STAMP = "2026-01-02T03:04:05.678Z"
CLIENT = "watcher"


class Watching:
    """A watch that runs in a thread of its own."""

    def __init__(self, watch: WatchLoop) -> None:
        self.lines: list[Line] = []
        self.watch = watch
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.verdicts = run(self.watch, self.lines.append)
        except Exception as error:  # noqa: BLE001 - handed to the test
            self.failure = error

    def connected(self) -> "Watching":
        """Wait for the subscriptions."""
        wait_for(lambda: self.watch.connected, what="the connection")
        return self

    def end(self) -> list[Verdict]:
        """Wait for the end and return the verdicts among the lines."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return [line for line in self.lines if isinstance(line, Verdict)]

    def shown(self) -> list[int]:
        """Return the seqs shown so far."""
        return [line.event.seq for line in self.lines if isinstance(line, EventLine)]

    def notes(self) -> str:
        """Return all notes as one text."""
        return "\n".join(line.text for line in self.lines if isinstance(line, Note))

    def reasons(self) -> list[str]:
        """Return the reasons of all refusals."""
        return [str(line.reason) for line in self.lines if isinstance(line, Refusal)]


class Wire:
    """A scripted broker, a registry, and one job."""

    def __init__(self, home: Path) -> None:
        self.broker = InMemoryBroker()
        self.house = JobHouse(home)
        self.job = self.house.register(title="the job")
        self.token = self.house.record(self.job).auth_token
        self._sender = self.broker.transport("sender")
        self._sender.connect(1)

    def watch(self, **options: object) -> Watching:
        """Start watching; by default the one job, with a wall limit so that no test hangs."""
        arguments: dict[str, object] = {
            "settings": BrokerSettings(),
            "jobs": [self.job],
            "home": self.house.home,
            "timeouts": {"wall_seconds": 30.0},
            "factory": lambda clean: self.broker.transport(CLIENT, clean_session=clean),
        }
        return Watching(open_watch(**(arguments | options)))  # type: ignore[arg-type]  # options by name

    def send(
        self, seq: int, kind: str = "progress", *, token: str | None = None, retain: bool = False
    ) -> None:
        """Publish an event that the registry does not know of."""
        payload = encode_signed(Event(seq, self.job, kind, STAMP, f"event {seq}", {}), token or self.token)
        self._sender.publish(TOPICS.events(self.job), payload, retain=retain, deadline_seconds=1)

    def record_only(self, seq: int, kind: str = "progress") -> None:
        """Let the registry accept an event that no broker carries."""
        event = Event(seq, self.job, kind, STAMP, f"event {seq}", {})
        payload = encode_signed(event, self.house.record(self.job).auth_token)
        self.house.store.apply(self.job, event, payload, source="test")

    def state(self, payload: bytes) -> None:
        """Publish a state."""
        self._sender.publish(TOPICS.state(self.job), payload, retain=True, deadline_seconds=1)


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    """Give a scripted broker with one registered job."""
    return Wire(tmp_path)


def test_the_broker_keeps_nothing_afterwards(wire: Wire) -> None:
    """At the end the persistent session is gone, and everything was acknowledged before."""
    watching = wire.watch().connected()
    wire.send(1, "started")
    wait_for(lambda: watching.shown() == [1])
    wait_for(lambda: wire.broker.unacknowledged(CLIENT) == [], what="the acknowledgement")
    wire.send(2, "completed")
    (verdict,) = watching.end()
    assert verdict.outcome is Outcome.COMPLETED
    late = wire.broker.transport(CLIENT, clean_session=False)
    late.connect(1)
    assert late.receive(0) == SessionStarted(session_present=False)


def test_refused_messages_are_acknowledged_too(wire: Wire) -> None:
    """A forged message does not come again after a reconnect."""
    watching = wire.watch().connected()
    wire.send(1, "started", token=new_token())
    wait_for(lambda: watching.reasons() == ["bad_signature"])
    wait_for(lambda: wire.broker.unacknowledged(CLIENT) == [], what="the acknowledgement")
    wire.broker.disconnect(CLIENT)
    wire.send(1, "started")
    wire.send(2, "error")
    watching.end()
    assert watching.reasons() == ["bad_signature"]
    assert watching.shown() == [1, 2]


def test_events_from_while_we_were_cut_off(wire: Wire) -> None:
    """What the broker kept for our session comes after the reconnect, once."""
    watching = wire.watch().connected()
    wire.send(1, "started")
    wait_for(lambda: watching.shown() == [1])
    wire.broker.disconnect(CLIENT)
    wire.send(2)
    wire.send(3, "completed")
    (verdict,) = watching.end()
    assert watching.shown() == [1, 2, 3]
    assert verdict.events == 3
    assert "connecting again" in watching.notes()


def test_a_broker_that_forgot_us(wire: Wire) -> None:
    """A session lost at the broker is made good from the registry's history, in order."""
    watching = wire.watch().connected()
    wire.record_only(1, "started")
    wire.send(1, "started")
    wait_for(lambda: watching.shown() == [1])
    wire.broker.stop()
    wire.record_only(2)
    wire.record_only(3)
    wire.broker.start(forget=True)
    wait_for(lambda: watching.shown() == [1, 2, 3])
    wire.record_only(4, "completed")
    wire.send(4, "completed", retain=True)
    (verdict,) = watching.end()
    assert (verdict.outcome, verdict.events) == (Outcome.COMPLETED, 4)


def test_history_and_wire_give_one_line(wire: Wire) -> None:
    """An event that the history gave is not shown, and not complained about, when the wire brings it."""
    watching = wire.watch().connected()
    wire.record_only(1, "started")
    wait_for(lambda: watching.shown() == [1])
    wire.send(1, "started")
    wire.send(2, "completed")
    watching.end()
    assert watching.shown() == [1, 2]
    assert watching.reasons() == []


def test_states_refused(wire: Wire) -> None:
    """Where the access list hides states the watch goes on with events and record."""
    wire.broker.access = lambda _user, _action, topic: not topic.endswith("/state")
    watching = wire.watch().connected()
    wire.house.queue.cancel(wire.job)
    (verdict,) = watching.end()
    assert verdict.outcome is Outcome.CANCELLED
    assert "does not let us read states" in watching.notes()


def test_events_refused(wire: Wire) -> None:
    """Where the access list hides events a watch with a record fails; it would be blind."""
    wire.broker.access = lambda _user, _action, topic: not topic.endswith("/events")
    watching = wire.watch()
    watching.end()
    assert isinstance(watching.failure, RefusedError)


def test_states_only(wire: Wire) -> None:
    """On another host a worker's certificate may read states only: enough for a verdict."""
    wire.broker.access = lambda _user, action, topic: action == "publish" or topic.endswith("/state")
    record = wire.house.record(wire.job)
    ticket = ticket_for(record, broker={}, topic_root=TOPICS.root)
    watching = wire.watch(jobs=[], home=None, tickets=[ticket]).connected()
    wire.record_only(1, "started")
    wire.state(encode_snapshot(wire.house.record(wire.job), confirmed_seq=1))
    wire.record_only(2, "error")
    wire.state(encode_snapshot(wire.house.record(wire.job), confirmed_seq=2))
    (verdict,) = watching.end()
    assert (verdict.outcome, verdict.reason) == (Outcome.ERROR, "event 2")
    assert "watching the signed state only" in watching.notes()


def test_refused_for_good(wire: Wire) -> None:
    """A broker that refuses us ends the watch with its reason, at the start and in the middle."""
    wire.broker.refuse_connections(RefusedError("bad password", hint="another", cause="credentials"))
    watching = wire.watch()
    watching.end()
    assert isinstance(watching.failure, RefusedError)


def test_the_new_workers_first_event_is_faster_than_our_poll(wire: Wire) -> None:
    """A signature under a key that we do not know yet makes us look at the record before we refuse."""
    wire.house.claim(wire.job)
    watching = wire.watch().connected()
    wire.record_only(1, "started")
    wire.send(1, "started")
    wait_for(lambda: watching.shown() == [1])
    wire.house.queue.release(wire.job, owner="test")
    fresh = wire.house.record(wire.job).auth_token
    wire.send(2, "started", token=fresh)
    wire.send(3, "progress")
    wire.send(3, "completed", token=fresh)
    (verdict,) = watching.end()
    assert verdict.outcome is Outcome.COMPLETED
    assert watching.shown() == [1, 2, 3]
    assert watching.reasons() == ["bad_signature"]


def test_a_damaged_state_is_refused(wire: Wire) -> None:
    """Bytes on the state topic that nobody of us signed change nothing and are named."""
    watching = wire.watch().connected()
    sender = wire.broker.transport("liar")
    sender.connect(1)
    sender.publish(TOPICS.state(wire.job), b"{}", retain=False, deadline_seconds=1)
    wait_for(lambda: watching.reasons() == ["bad_signature"])
    wire.send(1, "started")
    wire.send(2, "completed")
    watching.end()
    assert watching.reasons() == ["bad_signature"]


def test_a_state_of_a_newer_registry_is_named_and_left_aside(wire: Wire) -> None:
    """A signed state that is not understood is no forgery: the refusal says what to do, the watch goes on."""
    watching = wire.watch().connected()
    record = wire.house.record(wire.job)
    wire.state(encode_snapshot(record._replace(status="paused"), confirmed_seq=0))  # type: ignore[arg-type]
    wait_for(lambda: watching.reasons() == ["invalid_field"])
    wire.send(1, "started")
    wire.send(2, "completed")
    (verdict,) = watching.end()
    assert verdict.outcome is Outcome.COMPLETED


def test_cleared_topics_say_nothing(wire: Wire) -> None:
    """An empty message that clears a retained one is neither an event nor an offence."""
    watching = wire.watch().connected()
    sender = wire.broker.transport("purger")
    sender.connect(1)
    for topic in (TOPICS.events(wire.job), TOPICS.state(wire.job)):
        sender.publish(topic, b"", retain=True, deadline_seconds=1)
    wire.send(1, "started")
    wire.send(2, "completed")
    watching.end()
    assert watching.reasons() == []


def test_a_job_that_vanishes(wire: Wire) -> None:
    """A record that is taken away under the watch is an error, not silence."""
    watching = wire.watch().connected()
    Path(wire.house.store.record_path(wire.job)).unlink()
    watching.end()
    assert isinstance(watching.failure, NotFoundError)


def test_all_jobs_that_appear(wire: Wire) -> None:
    """With all_jobs a job registered during the watch is seen from its first event on."""
    watching = wire.watch(jobs=[], all_jobs=True).connected()
    first, wire.job = wire.job, wire.house.register(title="new")
    wire.token = wire.house.record(wire.job).auth_token
    wire.record_only(1, "started")
    wire.send(1, "started")
    wire.record_only(2, "completed")
    wire.send(2, "completed", retain=True)
    wire.house.queue.cancel(first)
    verdicts = watching.end()
    assert {verdict.job_id: verdict.outcome for verdict in verdicts} == {
        first: Outcome.CANCELLED,
        wire.job: Outcome.COMPLETED,
    }
    assert watching.shown() == [1, 2]
    assert watching.watch.titles[wire.job] == "new"


def finish_before(wire: Wire) -> str:
    """End the wire's job, leave its last event at the broker, take a new job; return the old one."""
    old = wire.job
    for seq, kind in ((1, "started"), (2, "completed")):
        wire.record_only(seq, kind)
        wire.send(seq, kind, retain=kind == "completed")
    wire.state(encode_snapshot(wire.house.record(old), confirmed_seq=2))
    wire.job = wire.house.register(title="new")
    wire.token = wire.house.record(wire.job).auth_token
    return old


@pytest.mark.parametrize("purged", [False, True])
def test_all_is_silent_about_what_ended_before(wire: Wire, purged: bool) -> None:
    """What the broker keeps of a job that ended before, or was removed since, is no news and no offence."""
    old = finish_before(wire)
    if purged:
        Path(wire.house.store.record_path(old)).unlink()
    watching = wire.watch(jobs=[], all_jobs=True).connected()
    wire.send(1, "started")
    wire.send(2, "completed")
    (verdict,) = watching.end()
    assert verdict.job_id == wire.job
    assert watching.reasons() == []


def test_all_judges_a_finished_job_by_its_record(wire: Wire) -> None:
    """Of a job that ended before, an old event that comes again is nothing, a forged and a new one are."""
    old = finish_before(wire)
    watching = wire.watch(jobs=[], all_jobs=True).connected()
    new, wire.job = wire.job, old
    genuine = wire.house.record(old).auth_token
    wire.send(2, "completed", token=genuine)
    wire.send(3, "progress", token=new_token())
    wire.send(3, "progress", token=genuine)
    wait_for(lambda: watching.reasons() == ["bad_signature", "after_terminal"], what="the refusals")
    assert {line.job_id for line in watching.lines if isinstance(line, Refusal)} == {old}
    wire.house.queue.cancel(new)
    watching.end()


def test_a_last_event_that_the_broker_repeats(wire: Wire) -> None:
    """After a reconnect a broker sends what it retains again: of a job that has ended, that is no offence."""
    other = wire.house.register()
    watching = wire.watch(jobs=[wire.job, other]).connected()
    wire.record_only(1, "started")
    wire.send(1, "started")
    wire.record_only(2, "completed")
    wire.send(2, "completed", retain=True)
    wait_for(lambda: any(isinstance(line, Verdict) for line in watching.lines), what="the verdict")
    wire.broker.disconnect(CLIENT, forget=True)
    wait_for(lambda: wire.broker.unacknowledged(CLIENT) == [], what="the acknowledgement")
    wire.house.queue.cancel(other)
    watching.end()
    assert watching.reasons() == []


def test_stopped_from_outside(wire: Wire) -> None:
    """Setting `stop` ends the watch as interrupted, without a verdict."""
    stop = threading.Event()
    watching = wire.watch(stop=stop).connected()
    stop.set()
    assert watching.end() == []
    assert watching.verdicts.interrupted
    assert watching.verdicts.undecided == (wire.job,)
    assert watching.verdicts.exit_code == 130


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": [], "home": None},
        {"jobs": ["0000abcd"], "home": None},
        {"jobs": ["XYZ"]},
    ],
)
def test_what_cannot_be_watched(wire: Wire, options: dict[str, object]) -> None:
    """A watch over nothing, or over what is no job, is refused before anything happens."""
    with pytest.raises(InvalidInputError):
        wire.watch(**options)


def test_no_client_sessions_are_left_at_real_brokers(broker: BrokerProcess) -> None:
    """Both brokers have forgotten the session when the watch is over."""
    house = JobHouse(broker.home)
    job = house.register()
    settings = broker.settings("hermes")
    name = f"kept-{job}"
    watch = open_watch(
        settings=settings,
        jobs=[job],
        home=broker.home,
        timeouts=Timeouts(wall_seconds=30),
        factory=paho_factory(settings, name),
    )
    watching = Watching(watch).connected()
    with house.worker(job) as worker:
        worker.started()
        worker.completed()
    (verdict,) = watching.end()
    assert verdict.outcome is Outcome.COMPLETED
    again = PahoTransport(settings, client_id=name, clean_session=False)
    again.connect(10)
    assert again.receive(60) == SessionStarted(session_present=False)
    again.close()
    clear = PahoTransport(settings, client_id=name, clean_session=True)
    clear.connect(10)
    clear.close()


def test_watch_jobs(broker: BrokerProcess) -> None:
    """The function for other components: every line to the callback, the verdicts back."""
    house = JobHouse(broker.home)
    one, two = house.register(), house.register()
    lines: list[Line] = []
    for job, kind in ((one, "completed"), (two, "error")):
        with house.worker(job) as worker:
            worker.started()
            worker.say(kind, f"it {kind}")
    verdicts = watch_jobs(
        jobs=[one, two],
        home=broker.home,
        settings=broker.settings("hermes"),
        timeouts=Timeouts(wall_seconds=30),
        mode=Mode(),
        on_line=lines.append,
        stop=threading.Event(),
    )
    assert verdicts.exit_code == 1
    assert [v.outcome for v in verdicts.by_job.values()] == [Outcome.COMPLETED, Outcome.ERROR]
    assert [line.event.event for line in lines if isinstance(line, EventLine)] == ["completed", "error"]


def test_the_class_for_python_users(broker: BrokerProcess) -> None:
    """Iterating gives the events of the job as they come, and the verdict afterwards."""
    house = JobHouse(broker.home)
    job = house.register()
    seen: list[str] = []
    with (
        house.worker(job) as worker,
        Subscriber(
            job, home=broker.home, settings=broker.settings("hermes"), timeouts={"wall_seconds": 30.0}
        ) as events,
    ):
        worker.started()
        steps = {"started": worker.progress, "progress": worker.completed}
        for event in events:
            seen.append(event.event)
            if event.event in steps:
                steps[event.event]()
    assert seen == ["started", "progress", "completed"]
    assert events.verdict is not None
    assert events.verdict.outcome is Outcome.COMPLETED


def test_iterating_again(wire: Wire) -> None:
    """Each event is given once, however often a loop is left and begun again, and the verdict is not lost."""
    for seq, kind in ((1, "started"), (2, "progress"), (3, "completed")):
        wire.record_only(seq, kind)
    with Subscriber(wire.job, home=wire.house.home, settings=BrokerSettings()) as events:
        first = next(iter(events))
        assert (first.event, events.verdict) == ("completed", None)
        assert list(events) == []
        assert list(events) == []
    assert events.verdict is not None


def test_leaving_early(broker: BrokerProcess) -> None:
    """A loop that is left early disconnects and has no verdict."""
    house = JobHouse(broker.home)
    job = house.register()
    with house.worker(job) as worker:
        worker.started()
        worker.progress()
        with Subscriber(job, home=broker.home, settings=broker.settings("hermes")) as events:
            worker.progress()
            for _ in events:
                break
        assert events.verdict is None


def test_unusable_settings(tmp_path: Path) -> None:
    """A CA file that does not exist ends the watch with the file's name."""
    house = JobHouse(tmp_path)
    job = house.register()
    settings = BrokerSettings(ca_certs=str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match=r"none\.pem"):
        watch_jobs(jobs=[job], home=tmp_path, settings=settings, on_line=lambda _: None)
