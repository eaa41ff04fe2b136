"""The registry process with its threads, over the in-memory broker."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConflictError, RefusedError, StorageError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.fact import FACT
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.jobs.snapshot import Snapshot, decode_snapshot
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.writer import JournalWriter
from jobwire.registry import health
from jobwire.registry.purge import Purge, RetentionRules
from jobwire.registry.queue import JobQueue
from jobwire.registry.relay import Relay
from jobwire.registry.spec import JobSpec
from jobwire.registry.upkeep import Announcements
from jobwire.registry.wire import WireAdmission
from jobwire.testing import InMemoryBroker, wait_for
from jobwire.testing.unsent import unsent

if TYPE_CHECKING:
    Site = Any  # conftest.Site: test folders are no packages


_KINDS = ("started", "progress", "completed")
_SAID = ((1, "started"), (2, "progress"), (3, "progress"), (4, "completed"))


def _mqtt(site: "Site") -> InMemoryBroker:
    assert isinstance(site.broker, InMemoryBroker)
    return site.broker


def _state(site: "Site", job: JobRecord) -> Snapshot | None:
    retained = _mqtt(site).retained.get(site.topics.state(job.job_id))
    return decode_snapshot(retained.payload, job_id=job.job_id, token=job.auth_token) if retained else None


def _await_state(site: "Site", job: JobRecord, status: Status) -> Snapshot:
    def found() -> Snapshot | None:
        state = _state(site, job)
        return state if state is not None and state.status is status else None

    state = wait_for(found, what=f"the state {status}")
    assert state is not None
    return state


def _journal(site: "Site", job: JobRecord) -> list[tuple[str, bytes]]:
    with JournalReader(Path(site.store.home) / "journal") as reader:
        rows = reader.read(0)
    topic = site.topics.events(job.job_id)
    return [(row.verdict, row.payload) for row in rows if row.topic == topic]


def _accepted(site: "Site", job: JobRecord) -> list[bytes]:
    """Return the accepted payloads: what the flusher sent once more on a slow day is a duplicate."""
    return [payload for verdict, payload in _journal(site, job) if verdict == "accepted"]


def test_remote_worker(site: "Site") -> None:
    """Events from elsewhere are journaled, folded and confirmed by the signed, retained state."""
    job = site.register()
    with site.serving(), site.worker() as publish:
        said = [
            site.say(job, 1, "started"),
            site.say(job, 2, "progress"),
            site.say(job, 3, "completed", "ok"),
        ]
        for one in said:
            publish(one)
        site.confirmed(job, 3)
        state = _await_state(site, job, Status.COMPLETED)
        assert (state.last_seq, state.detail) == (3, "ok")
    assert [payload for _, payload in _journal(site, job)] == [payload for _, payload in said]
    assert site.history(job) == [("accepted", 1), ("accepted", 2), ("accepted", 3)]


def test_cancellation_reaches_a_worker(site: "Site") -> None:
    """A cancellation at the command line is in the retained state within a moment."""
    job = site.register()
    with site.serving():
        wait_for(lambda: _state(site, job), what="the first state")
        site.queue.cancel(job.job_id)
        _await_state(site, job, Status.CANCELLED)


def test_claimed_again(site: "Site") -> None:
    """After a release the old worker reads in the state that it was replaced."""
    site.register()
    with site.serving():
        old = site.queue.pick(LeaseGrant("me"))
        site.queue.release(old.job_id, owner="me")
        state = _await_state(site, old, Status.PENDING)
        assert (state.superseded, state.attempt) == (True, 2)


def test_lease_that_runs_out(site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
    """The process reaps: a job without a sign of life becomes the next attempt by itself."""
    monkeypatch.setattr("jobwire.registry.assembly._GRACE_SECONDS", 0.0)
    site.register()
    job = site.queue.pick(LeaseGrant("me", 0.1))
    with site.serving():
        wait_for(lambda: site.store.get(job.job_id).attempt == 2)
    assert site.store.get(job.job_id).status is Status.PENDING


def test_lease_runs_out_beside_busy_jobs(site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is reaped also where another speaks without a pause, so that something always waits."""
    monkeypatch.setattr("jobwire.registry.assembly._GRACE_SECONDS", 0.0)
    site.register()
    silent = site.queue.pick(LeaseGrant("me", 0.1))
    talker = site.register()
    with site.serving(), site.worker() as publish:

        def reaped_meanwhile() -> bool:
            seq = site.store.get(talker.job_id).last_seq + 1
            event, payload = site.say(talker, seq, "progress" if seq > 1 else "started")
            site.store.apply(talker.job_id, event, payload, source="publisher")
            publish((event, payload))
            return bool(site.store.get(silent.job_id).attempt == 2)

        wait_for(reaped_meanwhile, what="the next attempt")


def test_pending_and_wall_timeouts(site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that wait or run too long are ended with the reason."""
    monkeypatch.setattr("jobwire.registry.assembly._GRACE_SECONDS", 0.0)
    slow = site.queue.register(JobSpec(timeouts=Timeouts(wall_seconds=0.1))).record
    site.queue.pick(LeaseGrant("me", 600))
    waiting = site.queue.register(JobSpec(timeouts=Timeouts(pending_seconds=0.1))).record
    with site.serving():
        wait_for(lambda: site.store.get(slow.job_id).status is Status.ERROR)
        wait_for(lambda: site.store.get(waiting.job_id).status is Status.CANCELLED)


def test_idle_timeout(site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that started without a pick and died is found by the job's own idle limit."""
    monkeypatch.setattr("jobwire.registry.assembly._GRACE_SECONDS", 0.0)
    job = site.queue.register(JobSpec(timeouts=Timeouts(idle_seconds=0.2))).record
    event, payload = site.say(job, 1, "started")
    site.store.apply(job.job_id, event, payload, source="publisher")
    with site.serving():
        state = _await_state(site, job, Status.ERROR)
    assert (state.timed_out, state.detail) == ("idle", "idle timeout: no event for 0.2 s")


def test_outbox_of_a_dead_publisher(site: "Site") -> None:
    """What a publisher kept and never sent is sent, confirmed, and removed from the outbox."""
    job = site.register()
    said = [site.say(job, 1, "started"), site.say(job, 2, "completed")]
    for one in said:
        site.keep(job, one)
    with site.serving():
        site.confirmed(job, 2)
        path = Path(site.store.sent_path(job.job_id))
        wait_for(lambda: not path.exists(), what="the mark of nothing left")
    assert [payload for _, payload in _journal(site, job)] == [payload for _, payload in said]
    assert site.history(job) == [("accepted", 1), ("accepted", 2)]
    assert site.topics.events(job.job_id) in _mqtt(site).retained


def test_what_was_said_before_there_was_a_process(site: "Site") -> None:
    """Events of an unfinished job that nobody will send again are journaled from its history."""
    job = site.register()
    first = site.say(job, 1, "started")
    site.store.apply(job.job_id, *first, source="publisher")
    with site.serving(), site.worker() as publish:
        second = site.say(job, 2, "progress")
        site.store.apply(job.job_id, *second, source="publisher")
        publish(second)
        site.confirmed(job, 2)
    assert sorted(_accepted(site, job)) == sorted([first[1], second[1]])


def test_gap_in_what_the_disk_holds(site: "Site") -> None:
    """An event that the broker lost is journaled from the history when the next one comes."""
    job = site.register()
    said = [site.say(job, seq, "started" if seq == 1 else "progress") for seq in (1, 2, 3)]
    with site.serving(), site.worker() as publish:
        for number in (0, 2):
            for one in said[number - 1 : number + 1] if number else said[:1]:
                site.store.apply(job.job_id, *one, source="publisher")
            publish(said[number])
        site.confirmed(job, 3)
    assert sorted(_accepted(site, job)) == sorted(payload for _, payload in said)


def test_restart(site: "Site") -> None:
    """What is published while no process runs is taken in by the next one, each event once."""
    job = site.register()
    with site.worker() as publish:
        with site.serving():
            publish(site.say(job, 1, "started"))
            site.confirmed(job, 1)
        publish(site.say(job, 2, "progress"))
        publish(site.say(job, 1, "started"))
        with site.serving():
            publish(site.say(job, 3, "completed"))
            site.confirmed(job, 3)
    assert site.history(job) == [("accepted", 1), ("accepted", 2), ("accepted", 3)]
    assert site.store.get(job.job_id).status is Status.COMPLETED


def test_broker_that_forgot_everything(site: "Site") -> None:
    """When the broker comes back without its memory, states are there again."""
    job = site.register()
    with site.serving():
        wait_for(lambda: _state(site, job), what="the first state")
        _mqtt(site).stop()
        _mqtt(site).start(forget=True)
        wait_for(lambda: _state(site, job), what="the state after the loss")


def test_second_process_is_refused(site: "Site") -> None:
    """One process a home: the second is told who works there."""
    with (
        site.serving(),
        pytest.raises(ConflictError, match="already is the registry process of") as caught,
        site.serving(wait=False),
    ):
        pass
    assert isinstance(caught.value.facts["pid"], int)


def test_refused_by_the_broker(site: "Site") -> None:
    """A refusal ends the process with the broker's reason."""
    _mqtt(site).refuse_connections(RefusedError("bad user name or password"))
    with pytest.raises(RefusedError, match="password"), site.serving(wait=False) as process:
        wait_for(process._stop.is_set, what="the end")


def test_unreachable_broker_is_waited_for(site: "Site", caplog: pytest.LogCaptureFixture) -> None:
    """Without a broker the process says so, tries again, and begins when there is one."""
    _mqtt(site).stop()
    job = site.register()
    with site.serving(wait=False):
        wait_for(lambda: "trying again" in caplog.text)
        _mqtt(site).start()
        with site.worker() as publish:
            publish(site.say(job, 1, "started"))
        _ = job


def test_flood_of_forgeries(site: "Site") -> None:
    """Thousands of forged messages neither delay a real one for long nor fill its history."""
    job = site.register()
    other = job._replace(auth_token="f" * 43)
    with site.serving(), site.worker() as publish:
        publish(site.say(job, 1, "started"))
        for seq in range(2, 3002):
            publish(site.say(other, seq, "progress"))
        publish(site.say(job, 2, "progress"))
        site.confirmed(job, 2)
        publish(site.say(job, 3, "completed"))
        site.confirmed(job, 3)
    accepted = [seq for verdict, seq in site.history(job) if verdict == "accepted"]
    assert accepted == [1, 2, 3]
    assert Path(site.store.audit(job.job_id).events_path).stat().st_size < 2_000_000


def test_journal_is_pruned(site: "Site", monkeypatch: pytest.MonkeyPatch) -> None:
    """By its rules the process removes old segments that everybody has read, and none that somebody needs."""
    monkeypatch.setattr("jobwire.registry.upkeep._SETTLED_SECONDS", 0.0)
    monkeypatch.setattr("jobwire.registry.assembly._HOUR", 0.2)
    journal = Path(site.store.home) / "journal"
    refused = Entry(1, site.topics.events("0" * 8), b"{}", False, "malformed")
    with JournalWriter(journal, clock=SystemClock(), segment_bytes=1) as writer:
        offsets = [writer.append([refused]) for _ in range(6)]
    slow = Consumers(journal, clock=SystemClock())
    slow.register("slow")
    slow.commit("slow", offsets[2])
    assert len(list(journal.glob("*.seg"))) == 6
    with site.serving(rules=RetentionRules(journal=RetentionPolicy(keep_bytes=0))):
        wait_for(lambda: len(list(journal.glob("*.seg"))) == 3, what="segments that all have read to go")
        with JournalReader(journal) as reader:
            assert reader.first_offset == offsets[2]
        slow.commit("slow", offsets[-1])
        wait_for(lambda: len(list(journal.glob("*.seg"))) == 1, what="the others")


def test_health_file(site: "Site") -> None:
    """serve.json says how it goes while it runs, and that it was ended cleanly after that."""
    path = Path(site.store.home) / "serve.json"
    job = site.register()
    with site.serving(), site.worker() as publish:
        publish(site.say(job, 1, "started"))
        facts = wait_for(lambda: (found := json.loads(path.read_text()))["offset"] == 2 and found)
        assert facts["state"] == "running"
        assert facts["connected"] is True
        assert facts["verdicts"] == {"accepted": 1}
    assert json.loads(path.read_text())["state"] == "stopped"
    assert json.loads(path.read_text())["lag"] == 0
    assert unsent(site.store.home, job.job_id) == []


_DUTIES: list[tuple[type[object], str]] = [
    (Relay, "run"),
    (Purge, "run"),
    (Retention, "prune"),
    (Announcements, "repeat"),
    (JobQueue, "counts"),
]


class _Blocked:
    """A call that does not return before it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self, *_: object, **__: object) -> None:
        self.entered.set()
        self.release.wait(60)


@pytest.fixture
def blocked() -> Iterator[_Blocked]:
    """Give something that blocks until the test has ended."""
    call = _Blocked()
    yield call
    call.release.set()


@pytest.mark.parametrize(("owner", "name"), _DUTIES, ids=lambda value: getattr(value, "__name__", value))
def test_duties_do_not_wait_for_each_other(
    site: "Site", monkeypatch: pytest.MonkeyPatch, blocked: _Blocked, owner: type[object], name: str
) -> None:
    """While one duty hangs, leases run out and cancellations are told."""
    monkeypatch.setattr("jobwire.registry.assembly._GRACE_SECONDS", 0.0)
    monkeypatch.setattr("jobwire.registry.upkeep._SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(owner, name, blocked)
    site.register()
    leased = site.queue.pick(LeaseGrant("me", 0.1))
    unwanted = site.register()
    with site.serving():
        wait_for(blocked.entered.is_set, what=f"{owner.__name__}.{name}")
        wait_for(lambda: site.store.get(leased.job_id).attempt == 2, what="the next attempt")
        site.queue.cancel(unwanted.job_id)
        _await_state(site, unwanted, Status.CANCELLED)
        blocked.release.set()


def test_recorder_that_hangs(site: "Site", monkeypatch: pytest.MonkeyPatch, blocked: _Blocked) -> None:
    """Health names a duty that gets no further, and the process ends when it is told to all the same."""
    monkeypatch.setattr("jobwire.registry.duties.STEP_SECONDS", 0.5)
    monkeypatch.setattr("jobwire.registry.serve._END_SECONDS", 1.0)
    monkeypatch.setattr("jobwire.registry.serve._DRAIN_SECONDS", 0.5)
    monkeypatch.setattr(WireAdmission, "__call__", blocked)
    job = site.register()

    def wrong() -> str:
        error = health.verdict(health.read(site.store), site.store.clock)
        return str(error) if error is not None else ""

    def watch() -> None:
        with site.serving():
            wait_for(lambda: not wrong(), what="health")
            with site.worker() as publish:
                publish(site.say(job, 1, "started"))
            wait_for(lambda: "recorder" in wrong(), what="a word about the recorder")

    with pytest.raises(StorageError, match="recorder did not end"):
        watch()


def test_one_hostile_worker(site: "Site") -> None:
    """Genuinely signed events with far seqs stop nothing: the job itself and others go on."""
    job, other = site.register(), site.register()
    with site.serving(), site.worker() as publish:
        publish(site.say(job, 1, "started"))
        for seq in (2**53 - 1, 10**9, 4098, 2**52):
            publish(site.say(job, seq, "progress"))
        publish(site.say(other, 1, "started"))
        site.confirmed(other, 1)
        publish(site.say(job, 2, "completed"))
        site.confirmed(job, 2)
        assert health.verdict(health.read(site.store), site.store.clock) is None


def test_record_that_cannot_be_read(site: "Site") -> None:
    """One such job holds up nobody and loses nothing, though the process ends and begins in between."""
    job, other = site.register(), site.register()
    path = Path(site.store.record_path(job.job_id))
    kept = path.with_suffix(".kept")
    with site.worker() as publish:
        with site.serving():
            publish(site.say(job, 1, "started"))
            site.confirmed(job, 1)
            path.rename(kept)
            path.mkdir()
            publish(site.say(job, 2, "progress"))
            publish(site.say(other, 1, "started"))
            site.confirmed(other, 1)

            def named() -> bool:
                return job.job_id in health.put_off(health.read(site.store).facts)

            wait_for(named, what="a word about the job")
            assert health.verdict(health.read(site.store), site.store.clock) is None
        publish(site.say(job, 3, "progress"))
        with site.serving():
            publish(site.say(other, 2, "completed"))
            site.confirmed(other, 2)
            publish(site.say(job, 4, "completed"))
            path.rmdir()
            kept.rename(path)
            site.confirmed(job, 4)
            _await_state(site, job, Status.COMPLETED)
            wait_for(lambda: not named(), what="the end of that word")
    assert site.history(job) == [("accepted", seq) for seq in (1, 2, 3, 4)]
    accepted = _accepted(site, job)
    assert accepted == [site.say(job, seq, kind)[1] for seq, kind in _SAID]


def test_what_was_decided_without_the_process_becomes_facts(site: "Site") -> None:
    """A job that was cancelled before the process ran, and one while it runs: each once, over two runs."""
    before = site.register()
    site.queue.cancel(before.job_id)

    def facts() -> list[tuple[str, str]]:
        with JournalReader(Path(site.store.home) / "journal") as reader:
            rows = [row for row in reader.read(0) if row.verdict == FACT]
        return [(row.topic.split("/")[-2], json.loads(row.payload)["kind"]) for row in rows]

    with site.serving():
        running = site.register()
        site.queue.claim(running.job_id, LeaseGrant("pane", 60.0))
        wait_for(lambda: len(facts()) == 4, what="four facts")
    site.queue.cancel(running.job_id)
    with site.serving():
        wait_for(lambda: len(facts()) >= 5, what="the cancellation")
    assert sorted(facts()) == sorted(
        [
            *((before.job_id, kind) for kind in ("registered", "cancelled")),
            *((running.job_id, kind) for kind in ("registered", "claimed", "cancelled")),
        ]
    )
