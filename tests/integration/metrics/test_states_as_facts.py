"""Recorders that are not the registry's process learn from its states what it decided."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import Clock, SystemClock, utc_timestamp
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.metrics.database import open_database
from jobwire.metrics.keys import write_keys
from jobwire.metrics.session import KEYS_FILE_VARIABLE
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.source import recorder_main
from jobwire.metrics.source.fold_form import rows_in
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import plan
from jobwire.registry.assembly import Assembly, Connections
from jobwire.registry.purge import Purge, RetentionRules
from jobwire.registry.queue import JobQueue
from jobwire.registry.serve import RegistryProcess
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.waiting import wait_for
from jobwire.transport import PahoTransport

pytestmark = pytest.mark.mosquitto
TOPICS = Topics()
GRANT = LeaseGrant("pane-7", 600.0)
FACTS = "SELECT * FROM job_facts ORDER BY job_id"
JOBS = (
    "SELECT job_id, session, outcome, attempts, requeues, ended_by, timeout, worker, labels, events"
    " FROM jobs ORDER BY job_id"
)
COUNTS = "SELECT width_seconds, window_start, kind, timeout, session, facts FROM facts ORDER BY 1, 2, 3, 4, 5"


class SetClock(SystemClock):
    """The system's clock, with a wall time that can be set forward."""

    ahead = 0.0

    @override
    def now(self) -> float:
        """Return the time that was set."""
        return super().now() + self.ahead


class Tables:
    """Metric tables, brought up to some journals in the way of a running query."""

    def __init__(self, path: Path, journals: list[Path], clock: Clock, *, verify: bool) -> None:
        self.database = open_database(str(path))
        self.sink = MetricsSink(self.database, clock=clock)
        self.sink.prepare()
        self.options = [SourceOptions(journal, verify=verify, shards=1) for journal in journals]

    def fold(self) -> None:
        """Fold in what is there."""
        for options in self.options:
            try:
                reader = JournalReader(options.journal)
            except JournalNotFound:
                continue
            with reader:
                place = self.sink.progress().get(reader.identity)
                begin, end = place.next_offset if place else 0, reader.durable_offset
                for task in plan(reader, options, begin, end) if begin < end else ():
                    for piece in task.pieces:
                        self.sink.apply(rows_in(options, piece, 0), reader.identity)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the tables."""
        return self.database.rows(statement)


class Town:
    """A registry's process, a broker, and two recorders that share the messages; each keeps a journal."""

    def __init__(self, server: MosquittoServer, folder: Path) -> None:
        self.server = server
        self.clock = SetClock()
        self.store = RecordStore(server.home, clock=self.clock)
        self.queue = JobQueue(self.store, warn=pytest.fail)
        self.shards = [folder / "a", folder / "b"]
        self.keys = folder / "keys.json"
        self.own = Tables(folder / "own.db", [Path(self.store.journal)], self.clock, verify=False)
        self.others = Tables(folder / "others.db", self.shards, self.clock, verify=True)

    def transport(self, role: str, name: str, *, clean_session: bool = True) -> PahoTransport:
        """Return an unconnected transport."""
        return PahoTransport(self.server.settings(role), client_id=name, clean_session=clean_session)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the registry's process and both recorders, in threads."""
        store = RecordStore(self.store.home, clock=self.clock)
        connections = Connections(
            broker=BrokerSettings("test", 1, topic_root=TOPICS.root),
            recording=lambda: self.transport("registry", "registry", clean_session=False),
            sending=lambda: self.transport("registry", "registry-sender"),
        )
        process = RegistryProcess(
            store=store,
            assemble=partial(Assembly, store=store, connections=connections, rules=RetentionRules()),
            on_ready=(ready := threading.Event()).set,
        )
        with ExitStack() as running:
            # First: the broker sends no retained message to a group (MQTT 5, 4.8.2).
            for shard in self.shards:
                running.enter_context(self._recorder(shard))
            running.enter_context(_thread(process.run, process.stop))
            assert ready.wait(60)
            yield

    @contextmanager
    def _recorder(self, shard: Path) -> Iterator[None]:
        words: dict[str, Any] = {"journal": str(shard), "home": str(self.store.home), "share_group": "fleet"}
        words |= {"topics": [], "topic_root": TOPICS.root, "broker": {}}
        stop, ready = threading.Event(), threading.Event()

        def record() -> None:
            recorder_main.record(words, stop, on_ready=ready.set, clock=self.clock)

        with _thread(record, stop.set):
            assert ready.wait(60)
            yield

    def say(self, worker: PahoTransport, job: JobRecord, seq: int, kind: str) -> None:
        """Let the job's worker say something from elsewhere."""
        now = utc_timestamp(self.clock.now())
        event = compose(seq=seq, job_id=job.job_id, event=kind, timestamp=now, detail="", data={})
        token = self.store.get(job.job_id).auth_token
        worker.publish(
            TOPICS.events(job.job_id),
            encode_signed(event, token),
            retain=event.terminal,
            deadline_seconds=10.0,
        )

    def wait_for_row(self, statement: str) -> None:
        """Wait until the recorders' tables answer with a row."""

        def asked() -> list[tuple[Any, ...]]:
            self.others.fold()
            return self.others.ask(statement)

        wait_for(asked, step_seconds=0.1, what=statement)

    def wait_for_facts(self, *expected: str) -> None:
        """Wait until the registry's own tables have so many facts, and the recorders' tables the same."""

        def same() -> bool:
            self.own.fold()
            self.others.fold()
            told = [row[0] for row in self.own.ask("SELECT kind FROM facts WHERE width_seconds = 3600")]
            return set(expected) <= set(told) and all(
                self.own.ask(statement) == self.others.ask(statement) for statement in (FACTS, COUNTS)
            )

        wait_for(same, deadline_seconds=60, step_seconds=0.1, what="the same facts")


@contextmanager
def _thread(work: Any, stop: Any) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(60)
        assert not thread.is_alive()


def test_recorders_elsewhere_have_the_facts_of_the_registry(
    fresh_mosquitto: MosquittoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wall timeout, two cancels, a success, a requeue, an id that comes back: the same tables of facts."""
    town = Town(fresh_mosquitto, tmp_path)
    monkeypatch.setenv(KEYS_FILE_VARIABLE, str(town.keys))
    town.store.make_layout()
    queue = town.queue
    slow = queue.register(JobSpec(timeouts=Timeouts(wall_seconds=5.0), agent_session="docs")).record
    waiting, running, good, again = (
        queue.register(JobSpec(agent_session="docs", labels={"team": name})).record for name in "abcd"
    )
    write_keys(Path(town.store.home), town.keys)
    worker = town.transport("claude-worker", "worker")
    worker.connect(10.0)
    with town.running():
        town.wait_for_facts("registered")
        for job in (slow, running, good, again):
            queue.claim(job.job_id, GRANT)
        queue.release(again.job_id, owner="pane-7")
        queue.claim(again.job_id, LeaseGrant("pane-8", 600.0))
        write_keys(Path(town.store.home), town.keys)
        town.say(worker, good, 1, "started")
        town.say(worker, good, 2, "completed")
        queue.cancel(waiting.job_id)
        queue.cancel(running.job_id, by="ana")
        town.wait_for_facts("claimed", "requeued", "cancelled")
        town.clock.ahead += 6.0
        queue.reap()
        town.wait_for_facts("timed_out")
        town.wait_for_row("SELECT 1 FROM job_totals WHERE events = 2")
        _purge(town)
        town.wait_for_facts("purged")
    town.clock.ahead += 3600.0
    monkeypatch.setattr("jobwire.registry.queue.secrets.token_hex", lambda _: good.job_id)
    back = queue.register(JobSpec(agent_session="more")).record
    assert back.job_id == good.job_id
    write_keys(Path(town.store.home), town.keys)
    with town.running():
        # Whose first state nobody has folded cannot be told from the older one.
        newcomer = "SELECT 1 FROM job_facts WHERE session = 'more'"
        town.wait_for_row(newcomer)
        queue.claim(back.job_id, GRANT)
        town.say(worker, back, 1, "started")
        claimed = f"{newcomer} AND claimed_us IS NOT NULL"
        town.wait_for_row(claimed)
        town.wait_for_row("SELECT 1 FROM job_totals WHERE events = 1")
        town.wait_for_facts()
    worker.close()
    for statement in (JOBS, FACTS, COUNTS):
        assert town.own.ask(statement) == town.others.ask(statement)
    assert sorted(town.others.ask("SELECT outcome FROM jobs")) == sorted(
        (outcome,) for outcome in ("timed_out", "cancelled", "cancelled", "completed", "open", "open")
    )
    assert town.others.ask("SELECT DISTINCT reason FROM rejections") == [("malformed",)], (
        "cleared events only"
    )


def _purge(town: Town) -> None:
    """Remove what ended, in the way of `jobwire registry purge`."""
    sender = town.transport("registry", "purger")
    sender.connect(10.0)
    Purge(
        queue=town.queue,
        topics=TOPICS,
        clear=lambda topic: sender.publish(topic, b"", retain=True, deadline_seconds=10.0),
        send=lambda topic, payload: sender.publish(topic, payload, retain=False, deadline_seconds=10.0),
        rules=RetentionRules(0.0, 0.0),
        by="ana",
    ).run()
    sender.close()
