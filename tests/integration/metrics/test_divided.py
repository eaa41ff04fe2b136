"""Tables that are divided among shards: each folds its jobs from the same journal, and readers see one."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.metrics.database import open_database
from jobwire.metrics.query import answer
from jobwire.metrics.settings import load_metrics_settings
from jobwire.metrics.shards import AllShards, open_shard
from jobwire.metrics.source.fold_form import rows_in
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.planning import plan
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=71, jobs=60, active=20))
HALF = len(ENTRIES) // 2


class Tasks(NamedTuple):
    """The tasks that fold a journal into tables with so many shards."""

    url: str
    journal: Path
    shards: int
    session_of: Callable[[str], str] = lambda job: "even" if int(job, 16) % 2 == 0 else "odd"

    def fold(self, start: int, end: int, only: int | None = None) -> None:
        """Do what the task of each shard, or of one, does with [start, end)."""
        options = SourceOptions(self.journal, shards=self.shards)
        with JournalReader(self.journal) as reader:
            tasks = list(plan(reader, options, start, end))
            identity = reader.identity
        for shard, task in enumerate(tasks):
            if only in {None, shard}:
                place = (self.url, shard, self.shards)
                with open_shard(*place, clock=SystemClock(), session_of=self.session_of) as sink:
                    for piece in task.pieces:
                        sink.apply(rows_in(options, piece, shard), identity)


@pytest.fixture
def journal(make_journal: Callable[[Sequence[Entry]], Path]) -> Path:
    """Give a journal."""
    return make_journal(ENTRIES)


@pytest.fixture
def expected(journal: Path, tmp_path: Path) -> dict[str, str]:
    """Give the digests of undivided tables."""
    url = str(tmp_path / "one" / "metrics.db")
    tables = AllShards(url, clock=SystemClock())
    assert tables.prepare(1) == 1
    Tasks(url, journal, 1).fold(0, len(ENTRIES))
    return tables.digests()


@pytest.mark.parametrize("shards", [2, 5])
def test_divided_tables_read_as_one(
    shards: int, journal: Path, database_url: str, expected: dict[str, str]
) -> None:
    """Whatever the number of shards, the views and the offsets are those of undivided tables."""
    tables = AllShards(database_url, clock=SystemClock())
    assert tables.prepare(shards) == tables.prepare(1) == shards
    Tasks(database_url, journal, shards).fold(0, HALF)
    Tasks(database_url, journal, shards).fold(HALF - 50, len(ENTRIES))
    assert tables.digests() == expected
    assert [place.next_offset for place in tables.progress().values()] == [len(ENTRIES)]
    found = answer(database_url, "SELECT COUNT(*), SUM(events) FROM jobs", limit=5, seconds=60.0)
    with_one = sum(entry.verdict == "accepted" for entry in ENTRIES)
    assert found.rows[0][0] == 60
    assert int(found.rows[0][1]) <= with_one


def test_the_slowest_shard_says_where_to_go_on(journal: Path, database_url: str) -> None:
    """After a kill between two shards' commits a run begins where the last one stands; the others skip."""
    tables = AllShards(database_url, clock=SystemClock())
    tables.prepare(3)
    Tasks(database_url, journal, 3).fold(0, HALF, only=1)
    assert [place.next_offset for place in tables.progress().values()] == [0]
    Tasks(database_url, journal, 3).fold(0, HALF)
    Tasks(database_url, journal, 3).fold(HALF, len(ENTRIES), only=2)
    assert [place.next_offset for place in tables.progress().values()] == [HALF]


def test_the_number_of_shards_may_change(journal: Path, database_url: str, expected: dict[str, str]) -> None:
    """Jobs move, figures stay, what a kill left uneven is folded first, and the fold goes on."""
    tables = AllShards(database_url, clock=SystemClock())
    tables.prepare(1)

    def catch_up(_identity: str, start: int, end: int, shards: int) -> None:
        Tasks(database_url, journal, shards).fold(start, end)

    third = len(ENTRIES) // 3
    Tasks(database_url, journal, 1).fold(0, third)
    tables.divide(3, catch_up)
    Tasks(database_url, journal, 3).fold(third, 2 * third)
    Tasks(database_url, journal, 3).fold(2 * third, 2 * third + 20, only=1)
    tables.divide(2, catch_up)
    Tasks(database_url, journal, 2).fold(2 * third + 20, len(ENTRIES))
    assert tables.digests() == expected
    tables.divide(1, catch_up)
    assert tables.digests() == expected
    assert tables.prepare(4) == 1


def test_a_kill_while_dividing_leaves_the_tables_as_they_were(
    journal: Path, tmp_path: Path, expected: dict[str, str]
) -> None:
    """New files count nothing before the first file says so, and stand in nobody's way."""
    url = str(tmp_path / "metrics.db")
    tables = AllShards(url, clock=SystemClock())
    tables.prepare(1)
    Tasks(url, journal, 1).fold(0, len(ENTRIES))
    with sqlite3.connect(tmp_path / "metrics-1-of-2.db") as half_written:
        half_written.execute("CREATE TABLE job_totals (job_id TEXT)")
    half_written.close()
    assert tables.digests() == expected
    tables.divide(2, lambda *_: None)
    assert tables.digests() == expected


def test_rebuilds_keep_the_sessions_of_every_shard(
    journal: Path, database_url: str, expected: dict[str, str]
) -> None:
    """What no journal holds is kept aside by each shard, and used when its rows come again."""
    tables = AllShards(database_url, clock=SystemClock())
    tables.prepare(2)
    Tasks(database_url, journal, 2).fold(0, len(ENTRIES))
    tables.clear()
    assert tables.progress() == {}
    Tasks(database_url, journal, 2, lambda _: "lost").fold(0, len(ENTRIES))
    tables.drop_kept_sessions()
    assert tables.digests() == expected


def test_sqlite_joins_a_few_files_only(tmp_path: Path) -> None:
    """More shards than SQLite can attach are refused with the remedy."""
    with pytest.raises(ConfigError, match="too many for SQLite"):
        load_metrics_settings(tmp_path, {"shards": 9}, {})
    url = "postgresql://db/x"
    assert load_metrics_settings(tmp_path, {"shards": 9, "sink": url}, {}).shards == 9


def test_missing_tables_are_named(tmp_path: Path) -> None:
    """A reader of divided tables says which file is gone."""
    url = str(tmp_path / "metrics.db")
    AllShards(url, clock=SystemClock()).prepare(2)
    (tmp_path / "metrics-1-of-2.db").unlink()
    with pytest.raises(Exception, match="unable to open"):
        open_database(url, read_only=True)
