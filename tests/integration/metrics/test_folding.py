"""What a task does, without Spark around it; and that Spark's driver learns counts only."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset
import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.errors import JournalCorrupt
from jobwire.journal.history import History
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.seal import seal
from jobwire.journal.verify import verify
from jobwire.metrics.database import open_database
from jobwire.metrics.errors import SinkError
from jobwire.metrics.folding import close_tables, fold
from jobwire.metrics.health import read_progress
from jobwire.metrics.pipeline import Pipeline, open_journals
from jobwire.metrics.session import QUERY_SETTINGS, SparkSettings, start_session
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import AllShards
from jobwire.metrics.sink import MetricsSink
from jobwire.metrics.source.data_source import JournalTable
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.stream import JournalStream
from jobwire.testing.plain_consumer import PlainConsumer
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=81, jobs=60, active=20))
HALF = len(ENTRIES) // 2
MANY = 100_000


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what the tasks opened."""
    yield
    close_tables()


def given(options: SourceOptions, start: int, end: int) -> list[Any]:
    """Return what each task of a batch is given."""
    stream = JournalStream(options)
    place = stream.initialOffset()
    tasks = stream.partitions({**place, "offset": start}, {**place, "offset": end})
    stream.stop()
    return tasks


def folded(task: MetricsSettings, options: SourceOptions, parts: list[Any]) -> list[dict[str, Any]]:
    """Run the tasks of a batch; return their counts."""
    return [row for part in parts for batch in fold(task, options, part) for row in batch.to_pylist()]


def run(task: MetricsSettings, journal: Path, start: int, end: int) -> int:
    """Run the tasks of one batch; return the rows they counted."""
    options = SourceOptions(journal, shards=task.shards, folds=True)
    counts = folded(task, options, given(options, start, end))
    assert [count["shard"] for count in counts] == list(range(task.shards))
    return sum(count["rows"] for count in counts)


def settings_of(home: Path, journal: Path, sink: str, shards: int) -> MetricsSettings:
    """Return the settings of a run without history."""
    return MetricsSettings(home, (journal,), sink, None, shards=shards)


def digests_of_a_plain_loop(journal: Path, folder: Path) -> dict[str, str]:
    """Return the digests of the tables that one loop gives."""
    with MetricsSink(open_database(str(folder / "plain.db")), clock=SystemClock()) as sink:
        sink.prepare()
        consumer = PlainConsumer(journal, sink=sink)
        consumer.catch_up()
        consumer.close()
        return sink.digests()


@pytest.mark.parametrize("shards", [1, 3])
def test_tasks_give_the_tables_of_a_plain_loop(
    shards: int, make_journal: Callable[[Sequence[Entry]], Path], database_url: str, tmp_path: Path
) -> None:
    """Run once, twice, or by a driver that died: each row counts once."""
    journal = make_journal(ENTRIES)
    tables = AllShards(database_url, clock=SystemClock())
    tables.prepare(shards)
    task = settings_of(tmp_path, journal, database_url, shards)
    assert run(task, journal, 0, HALF) == HALF
    assert run(task, journal, 0, HALF) == 0
    assert run(task, journal, HALF - 9, len(ENTRIES)) == len(ENTRIES) - HALF
    assert tables.digests() == digests_of_a_plain_loop(journal, tmp_path)


def test_a_task_may_bring_its_bytes(make_journal: Callable[[Sequence[Entry]], Path], tmp_path: Path) -> None:
    """With inline=true the journal's directory need not be there when the task runs."""
    journal = make_journal(ENTRIES)
    expected = digests_of_a_plain_loop(journal, tmp_path)
    sink = str(tmp_path / "metrics.db")
    tables = AllShards(sink, clock=SystemClock())
    tables.prepare(2)
    task = settings_of(tmp_path, journal, sink, 2)
    options = SourceOptions(journal, shards=2, inline=True, folds=True)
    parts = given(options, 0, len(ENTRIES))
    journal.rename(tmp_path / "elsewhere")
    assert folded(task, options, parts)
    assert tables.digests() == expected


def test_a_task_connects_anew_after_its_database_was_restarted(
    make_journal: Callable[[Sequence[Entry]], Path], postgres: str, tmp_path: Path
) -> None:
    """The task whose connection is gone fails and changes nothing; the next one goes on."""
    journal = make_journal(ENTRIES)
    name = f"t{os.urandom(6).hex()}"
    url = postgres.removesuffix("postgres") + name
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        tables = AllShards(url, clock=SystemClock())
        tables.prepare(1)
        task = settings_of(tmp_path, journal, url, 1)
        run(task, journal, 0, HALF)
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        with pytest.raises(SinkError):
            run(task, journal, HALF, len(ENTRIES))
        run(task, journal, HALF, len(ENTRIES))
    assert tables.digests() == digests_of_a_plain_loop(journal, tmp_path)


def damaged(journal: Path, at: int) -> None:
    """Flip one bit of the journal's first segment."""
    path = min(journal.glob("*.seg"))
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("place", ["body", "header", "segment"])
def test_one_flipped_bit_costs_the_entries_that_it_took(
    place: str, make_journal: Callable[..., Path], tmp_path: Path, *, inline: bool
) -> None:
    """They are counted as damaged, each once, in the tables and in sealed files, and all others as ever."""
    journal = make_journal(ENTRIES, batch=5, segment_bytes=40_000)
    first, second = sorted(journal.glob("*.seg"))[:2]
    damaged(journal, {"body": 200, "header": 64 + 6, "segment": 12}[place])
    lost = sum(found.end_offset - found.first_offset for found in verify(journal).damage)
    # A segment's header takes no entry with it.
    assert (0 < lost <= int(second.stem) - int(first.stem)) != (lost == 0 and place == "segment")
    sink = str(tmp_path / "metrics.db")
    tables = AllShards(sink, clock=SystemClock())
    tables.prepare(2)
    task = settings_of(tmp_path, journal, sink, 2)
    options = SourceOptions(journal, shards=2, inline=inline, folds=True)
    counts = folded(task, options, given(options, 0, len(ENTRIES)))
    told = sum(count["damaged"] for count in counts)
    assert told == lost
    # Where the header is sound, reading goes on behind the block.
    assert told == 5 or place != "body"
    database = open_database(sink, read_only=True)
    try:
        counted = "SELECT SUM(events) FROM rejections WHERE width_seconds = 3600 AND reason = 'damaged'"
        assert database.rows(counted) == [(told or None,)]
        rest = "SELECT SUM(accepted) + SUM(rejected) FROM error_rates WHERE width_seconds = 3600"
        assert database.rows(rest) == [(len(ENTRIES),)]
    finally:
        database.close()
    history = History(str(tmp_path / "history"))
    assert list(seal(journal, history, clock=SystemClock(), topics=Topics()))[-1] == len(ENTRIES)
    files = pyarrow.dataset.dataset(tmp_path / "history").to_table().sort_by("offset")
    assert files.column("offset").to_pylist() == list(range(len(ENTRIES)))
    words = [(row.verdict, row.payload) for row in ENTRIES]
    found = list(zip(*(files.column(name).to_pylist() for name in ("verdict", "payload")), strict=True))
    assert found.count(("damaged", b"")) == told
    assert all(one in {said, ("damaged", b"")} for one, said in zip(found, words, strict=True))


def test_a_damaged_sealed_file_costs_its_entries(make_journal: Callable[..., Path], tmp_path: Path) -> None:
    """Of a pruned journal whose first sealed file is damaged the rest is counted."""
    journal = make_journal(ENTRIES, batch=5, segment_bytes=40_000)
    list(seal(journal, History(str(tmp_path / "history")), clock=SystemClock(), topics=Topics()))
    Retention(journal, clock=SystemClock(), limits=RetentionPolicy(0, 0)).prune()
    path = min((tmp_path / "history").rglob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    lost = int(path.name[21:41])
    sink = str(tmp_path / "metrics.db")
    AllShards(sink, clock=SystemClock()).prepare(1)
    task = settings_of(tmp_path, journal, sink, 1)
    options = SourceOptions(journal, shards=1, history=str(tmp_path / "history"), folds=True)
    (part,) = given(options, 0, len(ENTRIES))
    counts = folded(task, options, [part])
    assert (sum(row["rows"] for row in counts), sum(row["damaged"] for row in counts)) == (len(ENTRIES), lost)
    with pytest.raises(JournalCorrupt):
        list(JournalTable(options._replace(folds=False)).read(part))


def test_a_task_without_its_tables_says_so(
    make_journal: Callable[[Sequence[Entry]], Path], tmp_path: Path
) -> None:
    """On a host that does not see the SQLite file no other one is made."""
    journal = make_journal(ENTRIES[:10])
    task = settings_of(tmp_path, journal, str(tmp_path / "elsewhere.db"), 1)
    with pytest.raises(ConfigError, match="sees no tables"):
        run(task, journal, 0, 10)
    assert not (tmp_path / "elsewhere.db").exists()


@pytest.fixture
def spark(tmp_path: Path, java: None) -> Iterator[Any]:
    """Give a session that lets little through to the driver: 100,000 rows of the fold are several MB."""
    extra = {**QUERY_SETTINGS, "spark.driver.maxResultSize": "512k"}
    session = start_session(
        SparkSettings(log_file=tmp_path / "spark.log", home=tmp_path / "home", extra=extra)
    )
    yield session
    session.stop()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_driver_learns_counts_only(spark: Any, make_journal: Callable[..., Path], tmp_path: Path) -> None:
    """Of 100,000 rows in two shards it receives the sums of a batch; the tables are those of a plain loop."""
    entries: list[Entry] = []
    while len(entries) < MANY:
        entries += ENTRIES
    journal = make_journal(entries[:MANY], batch=1000)
    settings = settings_of(tmp_path, journal, str(tmp_path / "metrics.db"), 2)._replace(max_rows=MANY // 2)
    tables = AllShards(settings.sink, clock=SystemClock())
    tables.prepare(2)
    pipeline = Pipeline(session=spark, settings=settings, journals=open_journals(settings, {}))
    query = pipeline.start(available_now=True)
    query.awaitTermination()
    batches = [read_progress(json.loads(progress.json)) for progress in query.recentProgress]
    assert [batch.rows for batch in batches if batch.rows] == [MANY // 2, MANY // 2]
    with JournalReader(journal) as reader:
        assert tables.progress()[reader.identity].next_offset == MANY
    assert tables.digests() == digests_of_a_plain_loop(journal, tmp_path)
