"""Processes of the pipeline are killed at random points of a scripted stream; the tables must not show it.

    MQTT ─► recorder ─► journal ─► source runner ─► executor ─► driver (JVM + Python) ─► tables

Each round publishes a script to a real broker while recorder, JVM, source runner and executor get
SIGKILL, each once, in an order and at points that the round's seed decides. At the end every message
of the script is in the journal, and the tables equal those of an undisturbed run over that journal.

    JOBWIRE_FAULTS=long pytest tests/faults/metrics      20 rounds instead of none
    JOBWIRE_FAULT_ROUNDS=5                               any number of them
    JOBWIRE_FAULT_SEED=7                                 round n uses seed 7 + n (default 1)
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.topics import Topics
from jobwire.journal import Entry, JournalReader
from jobwire.journal.errors import JournalNotFound
from jobwire.metrics.database import open_database
from jobwire.metrics.errors import JavaMissingError
from jobwire.metrics.java import find_java
from jobwire.metrics.rehearsal import Rehearsal
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.statements import queries
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.requirements import require
from jobwire.testing.waiting import wait_for
from jobwire.transport import PahoTransport

# A round starts Spark several times and takes minutes on two cores: `make faults` is their place.
_USUAL = "20" if os.environ.get("JOBWIRE_FAULTS") == "long" else "0"
ROUNDS = int(os.environ.get("JOBWIRE_FAULT_ROUNDS", _USUAL))
SEED = int(os.environ.get("JOBWIRE_FAULT_SEED", "1"))
# An executor is a process of its own only on a cluster; this is one inside the driver's JVM.
CLUSTER = "local-cluster[1,2,1024]"
_CHUNK = 40
_LONG_SECONDS = 240.0
pytestmark = [pytest.mark.spark, pytest.mark.mosquitto, pytest.mark.timeout(900)]

# Victim -> what its command line holds. All are looked for below the process that the round started.
VICTIMS = {
    "recorder": "jobwire.metrics.source.recorder_main",
    "jvm": "org.apache.spark.deploy.SparkSubmit",
    "runner": "python_streaming_source_runner",
    "executor": "CoarseGrainedExecutorBackend",
}


class Process(NamedTuple):
    """One process as /proc shows it."""

    pid: int
    parent: int
    command: str


def processes() -> list[Process]:
    """Return every process that can be read."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError, IndexError):
            continue
        found.append(Process(int(folder.name), parent, command))
    return found


def below(root: int, words: str) -> list[Process]:
    """Return the descendants of `root` whose command line holds `words`."""
    everyone = processes()
    family, grew = {root}, True
    while grew:
        members = {process.pid for process in everyone if process.parent in family}
        grew = not members <= family
        family |= members
    return [one for one in everyone if one.pid in family - {root} and words in one.command]


class Round:
    """One home with its broker, one `jobwire metrics run`, one script."""

    def __init__(self, server: MosquittoServer, folder: Path, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - a script that must repeat
        self.server = server
        self.journal = folder / "journal"
        self.folder = folder
        self.topics = Topics()
        script = Rehearsal(seed=seed, jobs=40, active=10, topics=self.topics)
        self.script: list[Entry] = list(script)
        self.keys = folder / "keys.json"
        self.keys.write_text(json.dumps(script.keys()))
        self.keys.chmod(0o600)
        self.output = folder / "run.log"
        self.kills: list[str] = []
        self._run: subprocess.Popen[bytes] | None = None

    def command(self, mode: str, name: str, *words: str) -> list[str]:
        """Return a `jobwire metrics` command over this round's journal, with tables called `name`."""
        return [
            str(Path(sys.executable).with_name("jobwire")), "metrics", mode, "--home", str(self.server.home),
            "--journal", str(self.journal), "--history", "", "--verify",
            "--checkpoint", str(self.folder / f"{name}-checkpoint"),
            "--sink", str(self.folder / f"{name}.db"),
            *words,
        ]  # fmt: skip

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of the commands."""
        return os.environ | {"JOBWIRE_KEYS_FILE": str(self.keys)}

    def start(self) -> None:
        """Start the run whose parts are killed."""
        words = ("--ingest", "--trigger", "0.1", "--master", CLUSTER, "--max-rows", "60")
        with self.output.open("wb") as log:
            self._run = subprocess.Popen(
                self.command("run", "disturbed", *words), stdout=log, stderr=log, env=self.environ
            )

    def stop(self) -> None:
        """End the run in an orderly way."""
        run, self._run = self._run, None
        if run is None:
            return
        run.send_signal(signal.SIGTERM)
        try:
            run.wait(120)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()

    def kill(self, victim: str) -> None:
        """Send SIGKILL to the victim as soon as there is one."""

        def found() -> list[Process]:
            assert self._run is not None
            assert self._run.poll() is None, f"the run ended: {self.output.read_text()}"
            return below(self._run.pid, VICTIMS[victim])

        target = wait_for(found, deadline_seconds=_LONG_SECONDS, what=f"a {victim}")[0]
        try:
            os.kill(target.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills.append(victim)

    def durable(self) -> int:
        """Return the number of rows in the journal."""
        try:
            with JournalReader(self.journal) as reader:
                return reader.durable_offset
        except JournalNotFound:
            return 0

    def counted(self) -> int:
        """Return the number of rows in the disturbed tables."""
        if not (self.folder / "disturbed.db").exists():
            return 0
        database = open_database(str(self.folder / "disturbed.db"), read_only=True)
        try:
            if "progress" not in database.tables():
                return 0
            return sum(row[2] for row in database.rows(queries()["all_progress"]))
        finally:
            database.close()

    def journaled(self) -> set[tuple[str, bytes]]:
        """Return every distinct message in the journal."""
        with JournalReader(self.journal) as reader:
            rows = reader.read(0, max_rows=1_000_000, max_bytes=1 << 30)
        return {(row.topic, row.payload) for row in rows}

    def digests(self, name: str) -> dict[str, str]:
        """Return the digests of the tables called `name`."""
        sink = MetricsSink(
            open_database(str(self.folder / f"{name}.db")), clock=SystemClock(), session_of=lambda _: ""
        )
        with sink:
            return sink.digests()


@pytest.fixture
def new_round(tmp_path: Path, fresh_mosquitto: MosquittoServer) -> Iterator[Callable[[int], Round]]:
    """Make rounds and end what they started."""
    require("java")
    try:
        find_java(os.environ)
    except JavaMissingError as error:
        pytest.skip(str(error))
    made: list[Round] = []

    def make(seed: int) -> Round:
        made.append(Round(fresh_mosquitto, tmp_path, seed))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_tables_do_not_show_the_kills(new_round: Callable[[int], Round], number: int) -> None:
    """Whoever is killed, and whenever: nothing is missing, nothing is counted twice."""
    seed = SEED + number
    game = new_round(seed)
    game.start()
    wait_for(
        lambda: game.journal.exists() and game.durable() >= 0,
        deadline_seconds=_LONG_SECONDS,
        what="a journal",
    )
    # Subscribed once, the broker keeps what comes while the recorder is dead.
    log = game.journal.with_name("journal-recorder.log")
    wait_for(lambda: "subscribed" in log.read_text(), deadline_seconds=60, what="the recorder's session")
    chunks = [game.script[start : start + _CHUNK] for start in range(0, len(game.script), _CHUNK)]
    victims = game.random.sample(sorted(VICTIMS), len(VICTIMS))
    points = sorted(game.random.sample(range(1, len(chunks)), len(victims)))
    transport = PahoTransport(game.server.settings("claude-worker"), client_id="worker", clean_session=True)
    transport.connect(10.0)
    for place, chunk in enumerate(chunks):
        if points and place == points[0]:
            points.pop(0)
            # Some kills hit a query that is reading, some one that is only starting again.
            if game.random.random() < 0.7:
                wait_for(game.counted, deadline_seconds=_LONG_SECONDS, what="the first counted rows")
            game.kill(victims[len(game.kills)] if len(game.kills) < len(victims) else "runner")
        for entry in chunk:
            transport.publish(entry.topic, entry.payload, retain=entry.retained, deadline_seconds=10.0)
    transport.close()
    expected = {
        (entry.topic, entry.payload[:1024] if len(entry.payload) > 65536 else entry.payload)
        for entry in game.script
    }
    wait_for(
        lambda: expected <= game.journaled(), deadline_seconds=_LONG_SECONDS, what="every message journaled"
    )
    wait_for(
        lambda: game.counted() == game.durable(), deadline_seconds=_LONG_SECONDS, what="every row counted"
    )
    game.stop()
    assert len(game.kills) == len(VICTIMS), game.kills
    undisturbed = subprocess.run(
        game.command("once", "undisturbed"),
        capture_output=True,
        text=True,
        check=False,
        env=game.environ,
        timeout=300,
    )
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert game.counted() == game.durable()
    assert game.digests("disturbed") == game.digests("undisturbed"), f"seed {seed}, kills {game.kills}"
