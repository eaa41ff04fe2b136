"""K recorders of one MQTT 5 shared subscription, one journal each: together they are one journal."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.database import open_database
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.statements import queries
from jobwire.storage.file_lock import holder_pid
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.plain_consumer import PlainConsumer
from jobwire.testing.rehearsal import CLEAN, Rehearsal
from jobwire.testing.waiting import wait_for
from jobwire.transport import PahoTransport

pytestmark = pytest.mark.mosquitto
JOBWIRE = str(Path(sys.executable).with_name("jobwire"))
SCRIPT = Rehearsal(seed=61, jobs=12, active=6, mix=CLEAN)
EVENTS = list(SCRIPT)
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `jobwire metrics ...` in the background; whatever still runs at the end gets SIGTERM."""
    children: list[subprocess.Popen[str]] = []

    def run(*words: str, **environ: str) -> "subprocess.Popen[str]":
        with (tmp_path / f"{len(children)}.log").open("w") as log:
            child = subprocess.Popen(
                [JOBWIRE, "metrics", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | environ,
            )
        children.append(child)
        return child

    yield run
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)


def publish(server: MosquittoServer, entries: Sequence[Entry]) -> None:
    """Publish as the jobs' worker."""
    transport = PahoTransport(server.settings("claude-worker"), client_id="worker", clean_session=True)
    transport.connect(10.0)
    for entry in entries:
        transport.publish(entry.topic, entry.payload, retain=entry.retained, deadline_seconds=10.0)
    transport.close()


def rows(shards: Sequence[Path]) -> list[list[Stored]]:
    """Return what each journal holds."""
    found = []
    for directory in shards:
        try:
            with JournalReader(directory) as reader:
                found.append(list(reader.read(0, max_rows=1_000_000, max_bytes=1 << 30)))
        except JournalNotFound:
            found.append([])
    return found


def recorded(shards: Sequence[Path]) -> int:
    """Return the number of rows in all of them."""
    return sum(map(len, rows(shards)))


def check_each_once(shards: Sequence[Path], events: Sequence[Entry]) -> None:
    """Assert that the shards hold every event exactly once, and that each has its part."""
    held = rows(shards)
    assert all(held), [len(part) for part in held]
    messages = [(row.topic, bytes(row.payload)) for part in held for row in part]
    assert sorted(messages) == sorted((entry.topic, entry.payload) for entry in events)


def open_tables(path: Path) -> MetricsSink:
    """Open the tables at `path`."""
    sink = MetricsSink(open_database(str(path)), clock=SystemClock())
    sink.prepare()
    return sink


def digests_of_one_journal(shards: Sequence[Path], folder: Path) -> dict[str, str]:
    """Return the tables that a plain loop gives when all messages stand in one journal, as accepted."""
    every = sorted((row for part in rows(shards) for row in part), key=lambda row: row.received_at_us)
    with JournalWriter(folder / "one", clock=SystemClock()) as writer:
        writer.append(
            [Entry(row.received_at_us, row.topic, row.payload, row.retained, "accepted") for row in every]
        )
    with open_tables(folder / "one.db") as sink:
        consumer = PlainConsumer(folder / "one", sink=sink)
        consumer.catch_up()
        consumer.close()
        return sink.digests()


def counted(path: Path) -> int:
    """Return how many rows the tables hold."""
    if not path.exists():
        return 0
    database = open_database(str(path), read_only=True)
    try:
        if "progress" not in database.tables():
            return 0
        return sum(row[2] for row in database.rows(queries()["all_progress"]))
    finally:
        database.close()


def test_two_recorders_share_one_subscription(
    fresh_mosquitto: MosquittoServer, start: Start, tmp_path: Path
) -> None:
    """Two recorders of a group hold every event exactly once between them, also of one and the same job."""
    shards = [tmp_path / "a", tmp_path / "b"]
    words = ("record", "--home", str(fresh_mosquitto.home), "--share-group", "fleet", "--json")
    recorders = [start(*words, "--journal", str(shard)) for shard in shards]
    for recorder in recorders:
        assert recorder.stdout is not None
        assert json.loads(recorder.stdout.readline())["share_group"] == "fleet"
    publish(fresh_mosquitto, EVENTS)
    wait_for(lambda: recorded(shards) >= len(EVENTS), step_seconds=0.1, what="all rows")
    check_each_once(shards, EVENTS)
    jobs = [{row.topic for row in part} for part in rows(shards)]
    assert jobs[0] & jobs[1], "the broker deals out messages, not jobs"
    for recorder in recorders:
        recorder.send_signal(signal.SIGTERM)
        recorder.communicate(timeout=60)
        assert recorder.returncode == 0


def test_a_group_needs_mqtt_5(tmp_path: Path) -> None:
    """Over MQTT 3.1.1 a group would record nothing, so it is refused in one sentence."""
    (tmp_path / "jobwire.toml").write_text('[broker]\nprotocol = "3.1.1"\ntls = "off"\n')
    refused = subprocess.run(
        [JOBWIRE, "metrics", "record", "--home", str(tmp_path), "--share-group", "fleet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == ExitCode.INVALID, refused.stderr
    assert "MQTT 5" in refused.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("java")
@pytest.mark.timeout(300)
def test_tables_over_two_shards_are_those_of_one_journal(
    fresh_mosquitto: MosquittoServer, start: Start, tmp_path: Path
) -> None:
    """`run --ingest` with two journals starts a group of two; one is killed; the tables do not show it."""
    shards, tables, keys = [tmp_path / "a", tmp_path / "b"], tmp_path / "tables.db", tmp_path / "keys.json"
    keys.write_text(json.dumps(SCRIPT.keys()))
    keys.chmod(0o600)
    run = start(
        *("run", "--home", str(fresh_mosquitto.home), "--sink", str(tables), "--history", ""),
        *("--ingest", "--verify", "--trigger", "0.1"),
        *(word for shard in shards for word in ("--journal", str(shard))),
        JOBWIRE_KEYS_FILE=str(keys),
    )
    logs = [tmp_path / f"{shard.name}-recorder.log" for shard in shards]
    wait_for(
        lambda: all(log.exists() and "subscribed" in log.read_text() for log in logs),
        deadline_seconds=60,
        step_seconds=0.1,
        what="two recorders",
    )
    half = len(EVENTS) // 2
    publish(fresh_mosquitto, EVENTS[:half])
    wait_for(lambda: recorded(shards) == half, deadline_seconds=60, step_seconds=0.1, what="the first half")
    recorder = holder_pid(shards[0] / "writer.lock")
    assert recorder is not None
    os.kill(recorder, signal.SIGKILL)
    publish(fresh_mosquitto, EVENTS[half:])
    wait_for(
        lambda: counted(tables) >= len(EVENTS), deadline_seconds=120, step_seconds=0.2, what="counted rows"
    )
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=100)
    assert run.returncode == 0
    check_each_once(shards, EVENTS)
    with open_tables(tables) as sink:
        found = sink.digests()
    assert found == digests_of_one_journal(shards, tmp_path)
