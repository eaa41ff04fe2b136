"""Processes of the pipeline are killed at random points of a scripted stream; the tables must not show it.

    MQTT ─► recorder ─► journal ─► source runner ─► executor ─► driver (JVM + Python) ─► tables

Each round publishes a script to a real broker while recorder, JVM, source runner and executor get
SIGKILL, each once, in an order and at points that the round's seed decides. At the end every message of the
script is in the journal, and the tables, of two shards, equal those of an undisturbed run over that journal.
One kill is put where chance seldom puts it: between the commits of the two shards of a batch.

    JOBWIRE_FAULTS=long pytest tests/faults/metrics      20 rounds instead of 2
    JOBWIRE_FAULT_ROUNDS=5                               any number of them
    JOBWIRE_FAULT_SEED=7                                 the first round's seed (default 1)

Each test is named by its seed; what was killed when is printed where it fails.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.database import open_database, shard_place
from jobwire.metrics.shards import AllShards
from jobwire.metrics.statements import queries
from jobwire.testing.mosquitto_server import MosquittoServer
from jobwire.testing.rehearsal import Rehearsal
from jobwire.testing.standalone import descendants
from jobwire.testing.waiting import wait_for
from jobwire.transport import PahoTransport

# A round starts Spark three times: a minute or more on two cores.
_USUAL = "20" if os.environ.get("JOBWIRE_FAULTS") == "long" else "1"
ROUNDS = int(os.environ.get("JOBWIRE_FAULT_ROUNDS", _USUAL))
SEED = int(os.environ.get("JOBWIRE_FAULT_SEED", "1"))
# An executor is a process of its own only on a cluster; this is one inside the driver's JVM.
CLUSTER = "local-cluster[1,2,1024]"
_CHUNK = 40
_KILLED_AT_WORK = 0.7
_LONG_SECONDS = 240.0
# Questions that read /proc, a journal or a database: asked without a pause they would take a core.
_STEP_SECONDS = 0.1
pytestmark = [
    pytest.mark.spark,
    pytest.mark.mosquitto,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(900),
]

# Victim -> what its command line holds. All are looked for below the process that the round started.
VICTIMS = {
    "recorder": "jobwire.metrics.source.recorder_main",
    # As a flag of its own: in the launcher's line the same words are part of another one.
    "jvm": "\0-Djobwire.log=",
    "runner": "python_streaming_source_runner",
    "executor": "CoarseGrainedExecutorBackend",
}


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
        self._since = time.monotonic()
        self._run: subprocess.Popen[bytes] | None = None

    def command(self, mode: str, name: str, *words: str) -> list[str]:
        """Return a `jobwire metrics` command over this round's journal, with tables called `name`."""
        return [
            str(Path(sys.executable).with_name("jobwire")), "metrics", mode, "--home", str(self.server.home),
            "--journal", str(self.journal), "--history", "", "--verify",
            "--sink", str(self.folder / f"{name}.db"),
            *words,
        ]  # fmt: skip

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of the commands."""
        return os.environ | {"JOBWIRE_KEYS_FILE": str(self.keys)}

    def start(self, *words: str) -> None:
        """Start the run whose parts are killed."""
        words = (*words, "--shards", "2", "--trigger", "0.1", "--master", CLUSTER, "--max-rows", "60")
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

        def killed() -> bool:
            assert self._run is not None
            assert self._run.poll() is None, f"the run ended: {self.output.read_text()}"
            # The oldest: a younger one of that name may be its child on the way to another program.
            for pid in descendants(self._run.pid, VICTIMS[victim])[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return True
            return False

        wait_for(killed, deadline_seconds=_LONG_SECONDS, step_seconds=_STEP_SECONDS, what=f"a {victim}")
        self.kills.append(victim)
        self.say(f"killed {victim}, {self.counted()} of {self.durable()} rows counted")

    def say(self, what: str) -> None:
        """Print a line for whoever looks into a failure."""
        print(f"{time.monotonic() - self._since:6.1f} s  {what}")  # noqa: T201 - shown where a test fails

    def durable(self) -> int:
        """Return the number of rows in the journal."""
        try:
            with JournalReader(self.journal) as reader:
                return reader.durable_offset
        except JournalNotFound:
            return 0

    def counted(self) -> int:
        """Return the number of rows in the disturbed tables."""
        return sum(row[2] for row in self._asked("all_progress"))

    def uneven(self) -> bool:
        """Tell whether one shard of the disturbed tables has rows that the other has not."""
        return bool(self._asked("uneven_progress"))

    def _asked(self, query: str) -> list[tuple[Any, ...]]:
        if not (self.folder / "disturbed.db").exists():
            return []
        with contextlib.closing(open_database(str(self.folder / "disturbed.db"), read_only=True)) as database:
            return database.rows(queries()[query]) if "progress" in database.tables() else []

    def write(self, entries: Sequence[Entry]) -> None:
        """Append to the journal as a recorder does."""
        with JournalWriter(self.journal, clock=SystemClock()) as writer:
            writer.append(entries)

    @contextlib.contextmanager
    def held(self, shard: int) -> Iterator[None]:
        """Let no transaction of this shard of the disturbed tables begin."""
        place = shard_place(str(self.folder / "disturbed.db"), shard, 2)
        with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def finish(self) -> None:
        """Wait until all is counted; then hold that an undisturbed run over the journal gives the same."""
        wait_until(lambda: self.counted() == self.durable(), "every row counted")
        self.say("every row is counted")
        self.stop()
        undisturbed = subprocess.run(
            self.command("once", "undisturbed"),
            capture_output=True,
            text=True,
            check=False,
            env=self.environ,
            timeout=300,
        )
        assert undisturbed.returncode == 0, undisturbed.stderr
        self.say("the undisturbed run is over")
        assert self.counted() == self.durable()
        assert self.digests("disturbed") == self.digests("undisturbed"), f"kills {self.kills}"

    def journaled(self) -> set[tuple[str, bytes]]:
        """Return every distinct message in the journal."""
        with JournalReader(self.journal) as reader:
            rows = reader.read(0, max_rows=1_000_000, max_bytes=1 << 30)
        return {(row.topic, row.payload) for row in rows}

    def digests(self, name: str) -> dict[str, str]:
        """Return the digests of the tables called `name`."""
        return AllShards(str(self.folder / f"{name}.db"), clock=SystemClock()).digests()


@pytest.fixture
def new_round(tmp_path: Path, fresh_mosquitto: MosquittoServer) -> Iterator[Callable[[int], Round]]:
    """Make rounds and end what they started."""
    made: list[Round] = []

    def make(seed: int) -> Round:
        made.append(Round(fresh_mosquitto, tmp_path, seed))
        return made[-1]

    yield make
    for one in made:
        one.stop()
        one.say(one.output.read_text() if one.output.exists() else "never started")


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS), ids=lambda seed: f"seed{seed}")
def test_tables_do_not_show_the_kills(new_round: Callable[[int], Round], seed: int) -> None:
    """Whoever is killed, and whenever: nothing is missing, nothing is counted twice."""
    game = new_round(seed)
    game.say(f"seed {seed}: {len(game.script)} messages")
    game.start("--ingest")
    # Subscribed once, the broker keeps what comes while the recorder is dead.
    log = game.journal.with_name("journal-recorder.log")
    wait_until(lambda: log.exists() and "subscribed" in log.read_text(), "the recorder's session")
    play(game)
    expected = {
        (entry.topic, entry.payload[:1024] if len(entry.payload) > 65536 else entry.payload)
        for entry in game.script
    }
    wait_until(lambda: expected <= game.journaled(), "every message journaled")
    game.finish()
    assert sorted(game.kills) == sorted(VICTIMS)


@pytest.mark.parametrize("victim", ["executor", "jvm"])
def test_a_kill_between_the_commits_of_two_shards(new_round: Callable[[int], Round], victim: str) -> None:
    """One shard has a batch and the other has not when its process dies: both end with each row once."""
    game = new_round(SEED)
    game.write(game.script[:-_CHUNK])
    game.start()
    wait_until(lambda: game.counted() == game.durable(), "rows counted")
    with game.held(1):
        game.write(game.script[-_CHUNK:])
        wait_until(game.uneven, "a shard ahead of the other")
        game.kill(victim)
        assert game.uneven()
    game.finish()


def play(game: Round) -> None:
    """Publish the script; at four places of it, kill somebody."""
    chunks = [game.script[start : start + _CHUNK] for start in range(0, len(game.script), _CHUNK)]
    victims = game.random.sample(sorted(VICTIMS), len(VICTIMS))
    points = sorted(game.random.sample(range(1, len(chunks)), len(victims)))
    due = dict(zip(points, victims, strict=True))
    transport = PahoTransport(game.server.settings("claude-worker"), client_id="worker", clean_session=True)
    transport.connect(30.0)
    for place, chunk in enumerate(chunks):
        if place in due:
            # Some kills hit a query that is reading, some one that is only starting (again).
            if game.random.random() < _KILLED_AT_WORK:
                before = game.counted()
                wait_until(lambda: game.counted() > before or before == game.durable(), "rows counted")  # noqa: B023 - called at once
            game.kill(due[place])
        for entry in chunk:
            transport.publish(entry.topic, entry.payload, retain=entry.retained, deadline_seconds=30.0)
    transport.close()


def wait_until(fact: Callable[[], bool], what: str) -> None:
    """Wait for what costs milliseconds to find out."""
    wait_for(fact, deadline_seconds=_LONG_SECONDS, step_seconds=_STEP_SECONDS, what=what)
