"""What the registry decides becomes facts in the journal, each once, whoever is killed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobwire.core.lease import LeaseGrant
from jobwire.core.redaction import Redactor
from jobwire.core.topics import Topics
from jobwire.jobs import fold
from jobwire.jobs.fact import FACT, Fact, decode_fact, facts_in
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.journal.consumers import Consumers
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.registry.audit import AuditLog, status_line
from jobwire.registry.folding import Folder
from jobwire.registry.purge import Purge, RetentionRules
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.registry.telling import Teller
from jobwire.registry.told import FILE, Told
from jobwire.registry.views import Views
from jobwire.storage.user import user_name
from jobwire.testing import ManualClock

if TYPE_CHECKING:
    from jobwire.journal.entry import Entry

    Say = Any  # conftest.Say: test folders are no packages

TOPICS = Topics()
GRANT = LeaseGrant("pane-7", 60.0)


class TellingProcess:
    """The teller and the folder of a registry process, without threads."""

    def __init__(self, store: RecordStore, journal: Path) -> None:
        self.store = store
        self.writer = JournalWriter(journal, clock=store.clock)
        self.told = Told(store.queue_path(FILE))
        self.teller = Teller(
            store=store, told=self.told, topics=TOPICS, append=self.writer.append, redactor=Redactor({})
        )
        self.folder = Folder(
            store=store,
            views=Views(store),
            topics=TOPICS,
            reader=JournalReader(journal),
            durable_offset=lambda: self.writer.next_offset,
            consumers=Consumers(journal, clock=store.clock),
            journal=self.writer.append,
            on_folded=lambda *_: None,
            told=self.told,
        )

    def fold(self) -> None:
        """Fold what is journaled."""
        while not self.folder.caught_up():
            self.folder.step(hurry=True)

    def kill(self) -> None:
        """End without a last commit."""
        self.writer.close()
        self.told.close()

    def facts(self) -> list[Fact]:
        """Return the facts in the journal."""
        with JournalReader(self.writer.directory) as reader:
            rows = [row for row in reader.read(0, max_rows=10_000) if row.verdict == FACT]
        found = [decode_fact(row.payload, job_id=row.topic.split("/")[-2]) for row in rows]
        assert all(row.topic.endswith("/facts") for row in rows)
        return [fact for fact in found if fact is not None]

    def said(self) -> list[tuple[str, str]]:
        """Return (job, kind) of the facts."""
        return [(fact.job_id, str(fact.kind)) for fact in self.facts()]


@pytest.fixture
def telling(store: RecordStore, tmp_path: Path) -> Iterator[TellingProcess]:
    """Give a process on an empty home."""
    store.make_layout()
    process = TellingProcess(store, tmp_path / "journal")
    yield process
    process.kill()


def again(process: TellingProcess) -> TellingProcess:
    """Kill it and start it on what it left: what is journaled is folded before anything new is told."""
    process.kill()
    fresh = TellingProcess(process.store, process.writer.directory)
    fresh.fold()
    return fresh


def kinds(process: TellingProcess) -> list[str]:
    """Return the kinds of the facts."""
    return [str(fact.kind) for fact in process.facts()]


def test_every_decision_is_told(queue: JobQueue, clock: ManualClock, telling: TellingProcess) -> None:
    """Registered, claimed, requeued, claimed, cancelled: with attempt, author, cause, session and labels."""
    job = queue.register(JobSpec(agent_session="docs", labels={"team": "web"})).record
    queue.claim(job.job_id, GRANT)
    queue.release(job.job_id, owner=GRANT.owner, reason="no disk")
    queue.claim(job.job_id, LeaseGrant("pane-8", 60.0))
    queue.cancel(job.job_id, reason="enough", by="ana")
    telling.teller.run()
    facts = telling.facts()
    assert [(fact.kind, fact.attempt, fact.by) for fact in facts] == [
        ("registered", 1, user_name()),
        ("claimed", 1, "pane-7"),
        ("requeued", 2, "pane-7"),
        ("claimed", 2, "pane-8"),
        ("cancelled", 2, "ana"),
    ]
    assert [fact.line for fact in facts] == [1, 2, 3, 4, 5]
    assert facts[0].labels == {"team": "web"}
    assert {fact.session for fact in facts} == {"docs"}
    assert "no disk" in facts[2].cause
    assert facts[4].cause == "enough"


@pytest.mark.parametrize("limit", ["idle", "wall", "pending"])
def test_a_timeout_names_its_clock(
    limit: str, queue: JobQueue, clock: ManualClock, telling: TellingProcess
) -> None:
    """Which limit ended the job is told, and that the registry did it."""
    job = queue.register(JobSpec(timeouts=Timeouts(**{f"{limit}_seconds": 5.0}))).record
    if limit != "pending":
        queue.claim(job.job_id, GRANT)
    clock.advance(6)
    queue.reap()
    telling.teller.run()
    last = telling.facts()[-1]
    assert (last.kind, last.timeout, last.by) == ("timed_out", limit, "registry")


def test_a_job_registered_as_running_is_claimed_as_well(
    store: RecordStore, clock: ManualClock, telling: TellingProcess
) -> None:
    """`jobwire run` writes one line for both: two facts, with places of their own."""
    record = JobRecord("0000000a", "t" * 43, "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")
    store.create(fold.claim(record, GRANT, clock.now()))
    telling.teller.run()
    facts = telling.facts()
    assert [str(fact.kind) for fact in facts] == ["registered", "claimed"]
    assert facts[0].place < facts[1].place


def test_marks_and_events_repeat_nothing(
    queue: JobQueue, store: RecordStore, say: "Say", telling: TellingProcess
) -> None:
    """A job is looked at again and again, with a worker's events between its changes: each fact once."""
    job = queue.register(JobSpec()).record
    for step in range(4):
        if step == 1:
            queue.claim(job.job_id, GRANT)
        if step > 1:
            event, payload = say(store.get(job.job_id), step - 1, "started" if step == 2 else "progress")
            store.apply(job.job_id, event, payload, source="publisher")
        telling.teller.changed(job.job_id)
        telling.teller.run()
        telling.teller.changed(job.job_id)
        telling.teller.run()
    assert kinds(telling) == ["registered", "claimed"]


def test_a_completed_job_confirms_its_claim(
    queue: JobQueue, store: RecordStore, say: "Say", telling: TellingProcess
) -> None:
    """The claim of a job that has since completed is a fact, though the record says `completed`."""
    job = queue.register(JobSpec()).record
    queue.claim(job.job_id, GRANT)
    for seq, kind in ((1, "started"), (2, "completed")):
        event, payload = say(store.get(job.job_id), seq, kind)
        store.apply(job.job_id, event, payload, source="publisher")
    telling.teller.run()
    assert kinds(telling) == ["registered", "claimed"]


@pytest.mark.parametrize("folded", [False, True], ids=["not folded", "folded, not committed"])
@pytest.mark.parametrize("killed", ["before", "after"])
def test_nothing_is_told_twice_after_a_kill(
    killed: str, folded: bool, queue: JobQueue, telling: TellingProcess
) -> None:
    """Killed before or after the journal took the facts: at the next start each is there once."""
    jobs = [queue.register(JobSpec()).job_id for _ in range(3)]
    queue.cancel(jobs[1])
    if killed == "after":
        telling.teller.run()
        if folded:
            telling.fold()
    queue.cancel(jobs[2])
    fresh = again(telling)
    fresh.teller.run()
    expected = [(job, "registered") for job in jobs] + [(job, "cancelled") for job in jobs[1:]]
    assert sorted(fresh.said()) == sorted(expected)
    fresh.folder.commit()
    last = again(fresh)
    assert last.teller.run() == 0
    last.kill()


def test_half_a_batch_in_the_journal_is_completed(queue: JobQueue, telling: TellingProcess) -> None:
    """A kill may leave the beginning of what was appended: the rest is told at the next start."""
    job = queue.register(JobSpec()).record
    queue.cancel(job.job_id)
    whole: list[Entry] = []

    def torn(entries: Any) -> None:
        whole.extend(entries)
        telling.writer.append(entries[:1])
        raise KeyboardInterrupt

    telling.teller._append = torn
    with pytest.raises(KeyboardInterrupt):
        telling.teller.run()
    fresh = again(telling)
    fresh.teller.run()
    assert kinds(fresh) == ["registered", "cancelled"]
    fresh.kill()


def test_a_line_whose_record_was_not_written_decides_nothing(
    queue: JobQueue, store: RecordStore, say: "Say", telling: TellingProcess
) -> None:
    """A writer was killed between history and record: its change did not happen, and is not told."""
    job = queue.register(JobSpec()).record
    queue.claim(job.job_id, GRANT)
    path = AuditLog(store.log_dir(job.job_id)).events_path
    line, _ = status_line(
        at="2026-01-01T00:00:00.000Z", source="registry", attempt=1, before="running", after="cancelled",
        cause="killed behind this",
    )  # fmt: skip
    with open(path, "ab") as file:  # noqa: PTH123 - as the writer does
        file.write(line)
    telling.teller.run()
    assert kinds(telling) == ["registered", "claimed"]
    queue.release(job.job_id, owner=GRANT.owner)
    telling.teller.changed(job.job_id)
    telling.teller.run()
    assert kinds(telling) == ["registered", "claimed", "requeued"]


def test_a_removed_job_is_told_of(queue: JobQueue, clock: ManualClock, telling: TellingProcess) -> None:
    """`registry purge` without a process: its whole history becomes facts at the next start, once.

    Its last state says them as well, for recorders elsewhere.
    """
    job = queue.register(JobSpec()).record
    telling.teller.run()
    queue.cancel(job.job_id)
    clock.advance(100)
    rules = RetentionRules(retained_seconds=None, record_seconds=10.0)
    sent: list[tuple[str, bytes]] = []
    work = Purge(
        queue=queue,
        topics=TOPICS,
        clear=lambda _: None,
        send=lambda *what: sent.append(what),
        rules=rules,
        by="ana",
    )
    assert work.run().removed == 1
    ((topic, state),) = sent
    told = facts_in(state, job_id=job.job_id)
    assert topic == TOPICS.state(job.job_id)
    assert [(fact.kind, fact.by) for fact in told[1:]] == [("cancelled", user_name()), ("purged", "ana")]
    assert kinds(telling) == ["registered"]
    fresh = again(telling)
    fresh.teller.run()
    assert kinds(fresh) == ["registered", "cancelled", "purged"]
    assert fresh.facts()[-1].by == "ana"
    fresh.fold()
    fresh.folder.commit()
    assert fresh.teller.run() == 0
    fresh.teller.run()
    assert fresh.told.up_to(job.job_id, job.created_at).place == 0, "the job is forgotten"
    fresh.kill()


def test_a_kill_while_removed_jobs_are_told_repeats_nothing(
    queue: JobQueue, clock: ManualClock, telling: TellingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of removed jobs' facts is still there after a kill, and its facts are in the journal once."""
    for _ in range(2):
        queue.cancel(queue.register(JobSpec()).job_id)
    clock.advance(100)
    rules = RetentionRules(retained_seconds=None, record_seconds=10.0)
    Purge(queue=queue, topics=TOPICS, clear=lambda _: None, rules=rules).run()

    def killed(path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(telling.store.files, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        telling.teller.run()
    monkeypatch.undo()
    fresh = again(telling)
    fresh.teller.run()
    assert sorted(kinds(fresh)) == sorted(["registered", "cancelled", "purged"] * 2)
    assert not [name for name in os.listdir(fresh.store.queue_path()) if name.startswith("purged")]  # noqa: PTH208
    fresh.kill()


def test_a_full_disk_is_waited_out(queue: JobQueue, telling: TellingProcess) -> None:
    """What the journal could not take is told at the next try."""
    queue.register(JobSpec())
    append, telling.teller._append = telling.teller._append, lambda _: (_ for _ in ()).throw(OSError("full"))
    with pytest.raises(OSError, match="full"):
        telling.teller.run()
    telling.teller._append = append
    telling.teller.run()
    assert kinds(telling) == ["registered"]


def test_a_reason_does_not_carry_secrets(queue: JobQueue, telling: TellingProcess) -> None:
    """Facts go where figures go: a path or password in a person's reason is masked."""
    job = queue.register(JobSpec()).record
    queue.cancel(job.job_id, reason="see /home/ana/plan.txt password=hunter22")
    telling.teller.run()
    cause = telling.facts()[-1].cause
    assert "/home/ana" not in cause
    assert "hunter22" not in cause


def test_lines_of_hand_and_of_earlier_versions_are_read(
    queue: JobQueue, store: RecordStore, telling: TellingProcess
) -> None:
    """A damaged line costs its own fact; one without author is told by who wrote it."""
    job = queue.register(JobSpec()).record
    path = AuditLog(store.log_dir(job.job_id)).events_path
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        first = file.read().replace(f',"by":"{user_name()}"'.encode(), b"")
    with open(path, "wb") as file:  # noqa: PTH123 - as above
        file.write(first + b'{"at":"2026-01-01T00:00:00.000Z","kind":"status","before":7}\n[]\n\xff\n')
    queue.cancel(job.job_id)
    telling.teller.run()
    assert (telling.facts()[0].kind, telling.facts()[0].by) == ("registered", "registry")
    assert kinds(telling)[-1] == "cancelled"


def test_a_damaged_file_is_made_anew(queue: JobQueue, telling: TellingProcess) -> None:
    """Damage costs the memory of what was told, not the process: facts are told again as they were."""
    queue.cancel(queue.register(JobSpec()).job_id)
    telling.teller.run()
    telling.kill()
    path = Path(telling.store.queue_path(FILE))
    path.write_bytes(b"no database at all" * 1000)
    fresh = TellingProcess(telling.store, telling.writer.directory)
    fresh.teller.run()
    first = [fact.place for fact in fresh.facts()[:2]]
    assert [fact.place for fact in fresh.facts()] == first * 2
    fresh.kill()
