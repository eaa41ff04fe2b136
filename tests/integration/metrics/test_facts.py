"""What the registry decided is in the figures, on SQLite and on PostgreSQL."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.canonical import canonical_json
from jobwire.core.clock import utc_timestamp
from jobwire.core.lease import LeaseGrant
from jobwire.core.redaction import Redactor
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.fact import FACT, Fact, FactKind, encode_fact
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.journal.entry import AGENT_VERDICT, Entry
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.database import open_database
from jobwire.metrics.shards import AllShards
from jobwire.metrics.show import tables
from jobwire.metrics.sink import MetricsSink
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.registry.telling import Teller
from jobwire.registry.told import FILE, Told
from jobwire.storage.user import user_name
from jobwire.testing import ManualClock
from jobwire.testing.plain_consumer import PlainConsumer

TOPICS = Topics()
GRANT = LeaseGrant("pane-7", 600.0)
STAMP = "2026-01-31T12:00:00.000Z"


class Fleet:
    """A home whose decisions and events are journaled and folded, without threads."""

    def __init__(self, home: Path, url: str) -> None:
        self.url = url
        self.clock = ManualClock()
        self.store = RecordStore(home, clock=self.clock)
        self.queue = JobQueue(self.store, warn=pytest.fail)
        self.store.make_layout()
        self.writer = JournalWriter(self.store.journal, clock=self.clock)
        self.told = Told(self.store.queue_path(FILE))
        self.teller = Teller(
            store=self.store, told=self.told, topics=TOPICS, append=self.writer.append, redactor=Redactor({})
        )

    def register(self, **fields: Any) -> JobRecord:
        """Register a job."""
        return self.queue.register(JobSpec(**fields)).record

    def say(self, job: JobRecord, seq: int, kind: str, **data: object) -> None:
        """Let the job's worker say something."""
        record = self.store.get(job.job_id)
        event = compose(
            seq=seq, job_id=job.job_id, event=kind, timestamp=utc_timestamp(self.clock.now()), detail="",
            data=data,
        )  # fmt: skip
        payload = encode_signed(event, record.auth_token)
        self.store.apply(job.job_id, event, payload, source="publisher")
        self.journal(TOPICS.events(job.job_id), payload, "accepted")

    def journal(self, topic: str, payload: bytes, verdict: str) -> None:
        """Put one entry into the journal."""
        self.writer.append([Entry(int(self.clock.now() * 1e6), topic, payload, False, verdict)])

    def tell(self, *jobs: JobRecord) -> None:
        """Journal what was decided."""
        for job in jobs:
            self.teller.changed(job.job_id)
        self.teller.run()

    def fold(self, max_rows: int = 1000) -> dict[str, str]:
        """Fold what is journaled into the tables; return their digests."""
        with self.sink() as sink:
            consumer = PlainConsumer(self.writer.directory, sink=sink)
            while consumer.step(max_rows=max_rows):
                pass
            consumer.close()
            return sink.digests()

    def sink(self) -> MetricsSink:
        """Open the tables."""
        sink = MetricsSink(open_database(self.url), clock=self.clock, session_of=lambda _: "")
        sink.prepare()
        return sink

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the tables."""
        with contextlib.closing(open_database(self.url, read_only=True)) as database:
            return database.rows(statement)

    def close(self) -> None:
        """Close the files."""
        self.writer.close()
        self.told.close()


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Give an empty home and empty tables."""
    made = Fleet(tmp_path / "home", database_url)
    yield made
    made.close()


@pytest.mark.parametrize("told", [True, False], ids=["facts of both", "facts of the second"])
def test_the_events_of_an_id_that_comes_back_count(fleet: Fleet, tmp_path: Path, *, told: bool) -> None:
    """Its events count, whatever is in a batch; the earlier job keeps its figures under id and creation."""
    job_id = "0badcafe"

    def live(kinds: tuple[str, ...], *, facts: bool) -> str:
        created = utc_timestamp(fleet.clock.now())
        fact = Fact(job_id, created, 1, FactKind.REGISTERED, created, 1, "docs")
        for line, decision in enumerate((FactKind.REGISTERED, FactKind.CLAIMED), start=1) if facts else ():
            fleet.journal(TOPICS.facts(job_id), encode_fact(fact._replace(line=line, kind=decision)), FACT)
        for seq, kind in enumerate(kinds, start=1):
            fleet.clock.advance(5)
            said = compose(
                seq=seq, job_id=job_id, event=kind, timestamp=utc_timestamp(fleet.clock.now()), detail="",
                data={},
            )  # fmt: skip
            fleet.journal(TOPICS.events(job_id), encode_signed(said, "k" * 32), "accepted")
        return created

    created = live(("started", "progress", "error"), facts=told)
    fleet.clock.advance(91 * 86_400)
    again = live(("started", "completed"), facts=True)
    assert fleet.fold(max_rows=1) == fleet.fold()
    jobs = fleet.ask("SELECT job_id, events, outcome, duration_s FROM jobs ORDER BY job_id")
    began = created if told else utc_timestamp(fleet.clock.now() - 91 * 86_400 - 20)
    assert jobs == [(job_id, 2, "completed", 5.0), (f"{job_id}@{began}", 3, "error", 10.0)]
    assert fleet.ask("SELECT * FROM rejections") == []
    ends = "SELECT outcome, SUM(events) FROM measured WHERE measure = 'duration' AND width_seconds = 3600"
    assert {name: int(count) for name, count in fleet.ask(f"{ends} AND dimension = '' GROUP BY outcome")} == {
        "error": 1,
        "completed": 1,
    }
    assert again > created
    # In one batch, and in tables that are divided, as one after the other.
    whole = MetricsSink(open_database(str(tmp_path / "whole.db")), clock=fleet.clock, session_of=lambda _: "")
    with whole:
        whole.prepare()
        consumer = PlainConsumer(fleet.writer.directory, sink=whole)
        consumer.catch_up()
        consumer.close()
        with fleet.sink() as sink:
            assert whole.digests() == sink.digests()
    tables = AllShards(str(tmp_path / "whole.db"), clock=fleet.clock)
    before = tables.digests()
    tables.divide(3, lambda *_: pytest.fail("nothing is uneven"))
    assert tables.digests() == before


def test_what_is_told_late_changes_no_final_window(fleet: Fleet) -> None:
    """A cancel that the journal learns of an hour later counts then; the job itself ended when it ended."""
    job, other = fleet.register(), fleet.register()
    fleet.tell(job, other)
    fleet.queue.cancel(job.job_id)
    ended = fleet.clock.now()
    fleet.clock.advance(3600)
    fleet.queue.claim(other.job_id, GRANT)
    fleet.say(other, 1, "started")
    fleet.fold()
    final = fleet.ask("SELECT * FROM error_rates WHERE final = 1")
    assert final
    fleet.tell(job, other)
    fleet.fold()
    assert set(final) <= set(fleet.ask("SELECT * FROM error_rates WHERE final = 1"))
    assert fleet.ask("SELECT finished_at FROM jobs WHERE outcome = 'cancelled'")[0][0] == pytest.approx(ended)
    counted = fleet.ask("SELECT window_start FROM facts WHERE kind = 'cancelled' AND width_seconds = 10")
    assert counted[0][0] >= fleet.clock.now() - 20


def test_a_timeout_two_cancels_and_a_success(fleet: Fleet) -> None:
    """Four jobs are finished, one of them wrong, and none is open: a cancelled job says nothing itself."""
    slow = fleet.register(timeouts=Timeouts(wall_seconds=5.0), agent_session="docs")
    waiting, running, good = (fleet.register(agent_session="docs") for _ in range(3))
    for job in (slow, running, good):
        fleet.queue.claim(job.job_id, GRANT)
        fleet.say(job, 1, "started")
    fleet.clock.advance(6)
    fleet.queue.reap()
    fleet.queue.cancel(waiting.job_id)
    fleet.queue.cancel(running.job_id, by="ana")
    fleet.say(good, 2, "completed")
    fleet.tell()
    fleet.fold()
    finished, errors = fleet.ask(
        "SELECT SUM(finished), SUM(errors) FROM error_rates WHERE width_seconds = 60"
    )[0]
    assert (int(finished), int(errors)) == (4, 1)
    assert dict(fleet.ask("SELECT job_id, outcome FROM jobs")) == {
        slow.job_id: "timed_out",
        waiting.job_id: "cancelled",
        running.job_id: "cancelled",
        good.job_id: "completed",
    }
    assert fleet.ask("SELECT * FROM open_jobs") == []
    assert set(fleet.ask("SELECT timeout, ended_by, worker FROM jobs WHERE outcome <> 'completed'")) == {
        ("wall", "registry", "pane-7"),
        ("", user_name(), ""),
        ("", "ana", "pane-7"),
    }
    found = tables(fleet.url, now=fleet.clock.now(), minutes=60, home=Path(fleet.store.home))
    shares = {row["jobs"]: (row["number"], row["share"]) for row in found["rates"]}
    assert shares["ended"] == (4, None)
    assert shares["wrong"] == (1, 0.25)
    assert shares["timed_out: wall"] == (1, 0.25)
    assert shares["cancelled"] == (2, 0.5)
    assert {row["outcome"]: row["jobs"] for row in found["outcomes"]} == {
        "cancelled": 2,
        "completed": 1,
        "timed_out": 1,
    }
    assert found["unjournaled_jobs"] == 0


def test_facts_are_no_refused_messages(fleet: Fleet) -> None:
    """Neither events nor rejections are counted for a fact; one that comes again is a duplicate."""
    job = fleet.register()
    fleet.tell()
    fleet.fold()
    assert fleet.ask("SELECT COUNT(*) FROM rejections") == [(0,)]
    assert fleet.ask("SELECT COUNT(*) FROM windows") == [(0,)]
    with contextlib.closing(open_database(fleet.url, read_only=True)):
        payload = encode_fact(Fact(job.job_id, job.created_at, 1, FactKind.REGISTERED, job.created_at, 1))
    fleet.journal(TOPICS.facts(job.job_id), payload, FACT)
    fleet.fold()
    assert fleet.ask("SELECT reason, events FROM rejections WHERE width_seconds = 60") == [("duplicate", 1)]
    assert fleet.ask("SELECT facts FROM fact_counts WHERE width_seconds = 60") == [(1,)]


def test_what_agents_and_the_store_say_is_no_refused_message(fleet: Fleet) -> None:
    """Requests, answers, presences have a verdict of their own in the journal, and are not counted."""
    for kind in ("outbox", "inbox", "presence"):
        fleet.journal(TOPICS.agent("builder", kind), b"{}", AGENT_VERDICT)
    fleet.journal(TOPICS.events("0000000a"), b"{}", "malformed")
    fleet.fold()
    found = fleet.ask("SELECT reason, events FROM rejections WHERE width_seconds = 60")
    assert found == [("malformed", 1)]


@pytest.mark.parametrize(
    ("topic", "verdict", "payload"),
    [
        (TOPICS.facts("0000000a"), "topic_mismatch", b"{}"),
        (TOPICS.facts("0000000a"), "unverified", b""),
        (TOPICS.events("0000000a"), FACT, b""),
        (TOPICS.facts("0000000b"), FACT, b""),
        (TOPICS.facts("0000000a"), FACT, b"[1]"),
    ],
)
def test_what_only_looks_like_a_fact_decides_nothing(
    topic: str, verdict: str, payload: bytes, fleet: Fleet
) -> None:
    """A genuine form under another verdict, on another topic or of another job is a refused message."""
    genuine = encode_fact(Fact("0000000a", STAMP, 1, FactKind.CANCELLED, STAMP, 1))
    fleet.journal(topic, payload or genuine, verdict)
    fleet.fold()
    assert fleet.ask("SELECT * FROM job_facts") == []
    assert fleet.ask("SELECT SUM(events) FROM rejections WHERE width_seconds = 60")[0][0] == 1


def test_a_decision_goes_before_a_workers_last_word(fleet: Fleet) -> None:
    """A completion that crossed with a cancellation is in the journal; the record holds."""
    job = fleet.register()
    fleet.queue.claim(job.job_id, GRANT)
    fleet.say(job, 1, "started")
    late = encode_signed(
        compose(seq=2, job_id=job.job_id, event="completed", timestamp=STAMP, detail="", data={}),
        fleet.store.get(job.job_id).auth_token,
    )
    fleet.queue.cancel(job.job_id)
    fleet.tell()
    fleet.journal(TOPICS.events(job.job_id), late, "accepted")
    fleet.fold()
    assert fleet.ask("SELECT outcome FROM jobs") == [("cancelled",)]


def _busy_day(fleet: Fleet) -> None:
    jobs = [fleet.register(agent_session=f"s{number % 2}", labels={"n": str(number)}) for number in range(6)]
    for number, job in enumerate(jobs):
        fleet.clock.advance(7)
        fleet.queue.claim(job.job_id, LeaseGrant(f"w{number}", 600.0))
        fleet.tell(job)
        fleet.say(job, 1, "started")
        if number % 3 == 0:
            fleet.queue.release(job.job_id, owner=f"w{number}")
            fleet.queue.claim(job.job_id, GRANT)
        elif number % 3 == 1:
            fleet.queue.cancel(job.job_id)
        else:
            fleet.say(job, 2, "completed")
        fleet.tell(job)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_any_batches_give_the_same_tables(
    max_rows: int, fleet: Fleet, tmp_path: Path, make_url: Callable[[], str]
) -> None:
    """Facts and events one by one or all together: the same tables; a requeue is a second attempt."""
    _busy_day(fleet)
    whole = fleet.fold()
    fleet.url = make_url()
    assert fleet.fold(max_rows) == whole
    assert fleet.ask("SELECT MAX(attempts), MAX(requeues) FROM jobs") == [(2, 1)]
    assert fleet.ask("SELECT session, labels FROM jobs ORDER BY registered_at, job_id LIMIT 1")[0][
        1
    ].startswith('{"n":"')


@pytest.fixture
def make_url(database_url: str, tmp_path: Path) -> Callable[[], str]:
    """Make one more empty database."""
    return lambda: str(tmp_path / "second.db")


def test_an_id_that_comes_back_is_another_job(fleet: Fleet) -> None:
    """The newer job takes the row; what is told of the older one after that changes nothing."""
    old = Fact("0000000a", STAMP, 9, FactKind.CANCELLED, STAMP, 3)
    new = Fact("0000000a", "2026-06-30T12:00:00.000Z", 1, FactKind.REGISTERED, "2026-06-30T12:00:00.000Z", 1)
    fleet.clock.advance(1e9)
    for fact in (old, new, old._replace(line=10)):
        fleet.journal(TOPICS.facts(fact.job_id), encode_fact(fact), FACT)
    fleet.fold()
    assert fleet.ask("SELECT outcome, attempts FROM jobs") == [("pending", 1)]


def test_usage_adds_up_by_session_model_and_day(fleet: Fleet) -> None:
    """Tokens and cost of accepted events, each once; what comes again or is no number adds nothing."""
    job = fleet.register(agent_session="docs")
    fleet.queue.claim(job.job_id, GRANT)
    fleet.say(job, 1, "started")
    fleet.say(job, 2, "progress", tokens_in=100, tokens_out=5, cost_usd=0.25, model="opus")
    fleet.say(job, 3, "progress", tokens_in="many", cost_usd=-1)
    fleet.say(job, 4, "completed", tokens_in=20, cost_usd=0.5, model="opus")
    lines = fleet.store.audit(job.job_id).lines()
    again = next(canonical_json(line["event"]) for line in lines if line.get("seq") == 2)
    fleet.journal(TOPICS.events(job.job_id), again, "accepted")
    fleet.fold(2)
    day = int(fleet.clock.now()) // 86400 * 86400
    assert fleet.ask("SELECT * FROM usage") == [(day, "", "opus", 2, 120, 5, 0.75)]


def test_lengths_are_told_by_worker_label_and_attempt(fleet: Fleet) -> None:
    """Queue wait, pickup, run time and waiting, each where it belongs; a process number is no worker."""
    job = fleet.register(agent_session="docs", labels={"team": "web"})
    fleet.clock.advance(10)
    fleet.queue.claim(job.job_id, LeaseGrant("host-1:4711", 600.0))
    fleet.clock.advance(2)
    fleet.say(job, 1, "started")
    fleet.say(job, 2, "permission_required")
    fleet.clock.advance(30)
    fleet.say(job, 3, "progress")
    fleet.clock.advance(8)
    fleet.say(job, 4, "completed")
    fleet.fold()
    fleet.tell()  # later than all that the worker said
    fleet.fold()
    found = tables(fleet.url, now=fleet.clock.now(), minutes=60, home=Path(fleet.store.home))
    lengths = {row["measure"].split()[0].strip(":"): row["p50_s"] for row in found["lengths"]}
    assert {name: round(value) for name, value in lengths.items()} == {
        "queued": 10,
        "pickup": 2,
        "run": 38,
        "waiting": 30,
    }
    for table, length in (("run_by", 38), ("wait_by", 30)):
        assert [(row["by"], row["value"], row["jobs"], round(row["p95_s"])) for row in found[table]] == [
            ("attempt", "1", 1, length),
            ("label", "team=web", 1, length),
            ("session", "docs", 1, length),
            ("worker", "host-1", 1, length),
        ]
