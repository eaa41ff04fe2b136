"""What was pruned from the journal is read from its sealed files, as if it were still there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.core.topics import Topics
from jobwire.journal.errors import JournalTruncated
from jobwire.journal.history import History
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.seal import seal
from jobwire.metrics.folding import close_tables
from jobwire.metrics.folding import fold as fold_task
from jobwire.metrics.pipeline import open_journals
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.shards import AllShards
from jobwire.metrics.source.data_source import JournalTable
from jobwire.metrics.source.options import SourceOptions
from jobwire.metrics.source.stream import JournalStream
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=82, jobs=60, active=20))
CLOCK = SystemClock()
MakeJournal = Callable[..., Path]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what the tasks opened."""
    yield
    close_tables()


def seal_and_prune(journal: Path, place: Path) -> int:
    """Seal all of the journal and prune what its limits allow; return its first offset."""
    list(seal(journal, History(str(place)), clock=CLOCK, topics=Topics()))
    Retention(journal, clock=CLOCK, limits=RetentionPolicy(keep_bytes=0)).prune()
    with JournalReader(journal) as reader:
        return reader.first_offset


def fold(options: SourceOptions, home: Path, name: str) -> dict[str, str]:
    """Run a streaming query's batches from the oldest offset, as Spark would; return the tables' digests."""
    sink = str(home / f"{name}.db")
    tables = AllShards(sink, clock=CLOCK)
    tables.prepare(options.shards)
    task = MetricsSettings(home, (options.journal,), sink, None, shards=options.shards)
    stream = JournalStream(options)
    place: dict[str, Any] = stream.initialOffset()
    while (end := stream.latestOffset(place, stream.getDefaultReadLimit())) != place:
        for part in stream.partitions(place, end):
            assert list(fold_task(task, options, part))
        place = end
    stream.stop()
    return tables.digests()


def offsets(options: SourceOptions) -> list[int]:
    """Return the offsets that a batch read gives."""
    table = JournalTable(options)
    return [
        offset
        for part in table.partitions()
        for batch in table.read(part)
        for offset in batch.column("offset").to_pylist()
    ]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_tables_are_the_same_from_sealed_files(
    shards: int, inline: bool, make_journal: MakeJournal, tmp_path: Path
) -> None:
    """A query that begins in sealed files and goes on in the journal counts what the whole journal gives."""
    journal = make_journal(ENTRIES, segment_bytes=20_000)
    options = SourceOptions(journal, shards=shards, max_rows=100, inline=inline, folds=True)
    expected = fold(options, tmp_path, "whole")
    first = seal_and_prune(journal, tmp_path / "history")
    assert 100 < first < len(ENTRIES)
    again = options._replace(history=str(tmp_path / "history"))
    assert fold(again, tmp_path, "sealed") == expected
    assert fold(options, tmp_path, "rest") != expected


def test_a_read_of_the_source_begins_with_the_sealed_files(make_journal: MakeJournal, tmp_path: Path) -> None:
    """Option history: earliest is the first sealed offset, each row comes once, topics select in both."""
    journal = make_journal(ENTRIES, segment_bytes=20_000)
    with JournalReader(journal) as reader:
        wanted = [row.offset for row in reader.read(0, max_rows=10_000) if row.topic == ENTRIES[0].topic]
    first = seal_and_prune(journal, tmp_path / "history")
    options = SourceOptions(journal, parse="event", history=str(tmp_path / "history"))
    assert offsets(options) == list(range(len(ENTRIES)))
    assert offsets(options._replace(starting_offset="5", ending_offset=str(first - 1))) == [
        *range(5, first - 1)
    ]
    assert offsets(options._replace(topics=(ENTRIES[0].topic,))) == wanted
    assert offsets(options._replace(history="")) == list(range(first, len(ENTRIES)))
    with pytest.raises(ConfigError, match="finds times in the journal only"):
        offsets(options._replace(starting_time="2026-01-01T00:00:00Z"))


def test_a_hole_between_sealed_files_and_journal_is_told(make_journal: MakeJournal, tmp_path: Path) -> None:
    """Where sealed files are missing, nothing begins below the hole, and no range is read over it."""
    journal = make_journal(ENTRIES, segment_bytes=20_000)
    with JournalReader(journal) as reader:
        identity = reader.identity
    seal_and_prune(journal, tmp_path / "history")
    files = History(str(tmp_path / "history")).sealed(identity)
    Path(files[1].place).unlink()
    options = SourceOptions(journal, history=str(tmp_path / "history"))
    assert offsets(options)[0] == files[2].first_offset
    with pytest.raises(JournalTruncated):
        offsets(options._replace(starting_offset="0"))


def test_pruned_rows_that_are_sealed_are_no_lost_rows(make_journal: MakeJournal, tmp_path: Path) -> None:
    """A run whose tables are behind the journal's first entry goes on; without the files it is told so."""
    journal = make_journal(ENTRIES, segment_bytes=20_000)
    first = seal_and_prune(journal, tmp_path / "history")
    settings = MetricsSettings(tmp_path, (journal,), "", str(tmp_path / "history"))
    (opened,) = open_journals(settings, {})
    assert opened.start == 0
    (later,) = open_journals(settings._replace(history=None), {})
    assert later.start == first
