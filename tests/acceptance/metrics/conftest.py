"""`jobwire metrics` as people run it: a process on a home directory with a journal."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.journal.entry import Entry
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.database import open_database
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.statements import queries
from jobwire.testing import new_home
from jobwire.testing.plain_consumer import PlainConsumer

JOBWIRE = str(Path(sys.executable).with_name("jobwire"))


class Home:
    """A home directory, its journal, and the commands on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal"
        self._children: list[subprocess.Popen[str]] = []

    def record(self, entries: Sequence[Entry], *, batch: int = 50, **options: Any) -> None:
        """Append to the journal."""
        with JournalWriter(self.journal, clock=SystemClock(), **options) as writer:
            for start in range(0, len(entries), batch):
                writer.append(entries[start : start + batch])

    def run(self, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run `jobwire metrics ...` to its end."""
        return subprocess.run(
            self._command(words),
            capture_output=True,
            text=True,
            timeout=560,
            check=False,
            env=os.environ | environ,
        )

    def start(
        self, *words: str, errors: IO[str] | int = subprocess.PIPE, **environ: str
    ) -> "subprocess.Popen[str]":
        """Start `jobwire metrics ...`; the fixture ends it. `errors` takes its standard error."""
        child = subprocess.Popen(
            self._command(words),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env=os.environ | environ,
        )
        self._children.append(child)
        return child

    def _command(self, words: Sequence[str]) -> list[str]:
        return [JOBWIRE, "metrics", *words, "--home", str(self.path)]

    def sink(self, sink: str | None = None) -> MetricsSink:
        """Open the tables."""
        opened = MetricsSink(
            open_database(sink or str(self.path / "metrics" / "metrics.db")), clock=SystemClock()
        )
        opened.prepare()
        return opened

    def counted(self, tables: Path | None = None) -> int:
        """Return how many rows the tables hold (the usual ones); 0 where there are none yet."""
        path = tables or self.path / "metrics" / "metrics.db"
        if not path.exists():
            return 0
        database = open_database(str(path), read_only=True)
        try:
            if "progress" not in database.tables():
                return 0
            return sum(row[2] for row in database.rows(queries()["all_progress"]))
        finally:
            database.close()

    def digests(self) -> dict[str, str]:
        """Return the digests of the tables."""
        with self.sink() as sink:
            return sink.digests()

    def expected(self) -> dict[str, str]:
        """Return the digests of the tables as one plain loop over the journal gives them."""
        path = self.path / "expected.db"
        with self.sink(str(path)) as sink:
            consumer = PlainConsumer(self.journal, sink=sink)
            consumer.catch_up()
            consumer.close()
            return sink.digests()

    def end(self) -> None:
        """End what was started."""
        for child in self._children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            child.communicate(timeout=120)


@pytest.fixture
def home(tmp_path: Path, java: None) -> Iterator[Home]:
    """Give a new home."""
    made = Home(new_home(tmp_path))
    yield made
    made.end()
