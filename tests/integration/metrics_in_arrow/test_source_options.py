"""Options of the source, places in its checkpoint, and what must not happen when Spark pickles it."""

import itertools
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.core.topics import filter_matches
from jobwire.journal.errors import JournalNotFound, JournalRecreated, JournalTruncated
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.metrics.source.columns import ddl, read_partition
from jobwire.metrics.source.data_source import microseconds
from jobwire.metrics.source.options import INLINE_PARTITION_BYTES, SourceOptions, read_options
from jobwire.metrics.source.planning import SpanPartition, plan
from jobwire.metrics.source.stream import JournalStream
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=1, jobs=30))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Give a journal of a few hundred small blocks."""
    with JournalWriter(tmp_path / "journal", clock=SystemClock()) as writer:
        for start in range(0, len(ENTRIES), 3):
            writer.append(ENTRIES[start : start + 3])
    return tmp_path / "journal"


def test_options_are_read_without_regard_to_case() -> None:
    """Names as Spark hands them over; the rest keeps its default."""
    options = read_options(
        {"JOURNAL": "/j", "MaxRowsPerBatch": "5", "topics": "a/+/b, c/#", "inline": "TRUE"}
    )
    assert options.journal == Path("/j")
    assert (options.max_rows, options.topics, options.inline) == (5, ("a/+/b", "c/#"), True)
    assert options.partition_bytes == INLINE_PARTITION_BYTES


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs the option journal"),
        ({"journal": "/j", "jurnal": "/k"}, "no option jurnal"),
        ({"journal": "/j", "maxRowsPerBatch": "0"}, "positive"),
        ({"journal": "/j", "startingOffset": "-1"}, "earliest"),
        ({"journal": "/j", "parse": "all"}, "parse"),
        ({"journal": "/j", "folds": "true"}, "no option folds"),
        ({"journal": "/j", "consumer": "a/b"}, "consumer"),
        ({"journal": "/j", "password": "secret"}, "no option password"),
    ],
)
def test_unusable_options_are_named(given: dict[str, str], words: str) -> None:
    """The message says which option it is; a password is not one."""
    with pytest.raises(ConfigError, match=words):
        read_options(given)


def test_the_schema_follows_the_options() -> None:
    """Parsed columns are there when asked for."""
    plain, parsed = SourceOptions(Path("/j")), SourceOptions(Path("/j"), parse="event")
    assert ddl(parsed).startswith(ddl(plain))
    assert "seq bigint" in ddl(parsed)


def test_only_the_named_columns_are_given(journal: Path) -> None:
    """In the order of the option, whatever has to be read for them; what does not exist is named."""
    options = SourceOptions(journal, parse="event", columns=("event", "offset"))
    assert ddl(options) == "event string, offset bigint"
    with JournalReader(journal) as reader:
        tasks = list(plan(reader, options, 0, len(ENTRIES)))
    found = pa.Table.from_batches([batch for task in tasks for batch in read_partition(options, task)])
    assert found.column_names == ["event", "offset"]
    assert found.column("offset").to_pylist() == list(range(len(ENTRIES)))
    assert found.column("event").null_count == sum(entry.verdict != "accepted" for entry in ENTRIES)
    with pytest.raises(ConfigError, match="no column seq"):
        ddl(SourceOptions(journal, columns=("seq",)))


@pytest.mark.parametrize("wanted", ["python/+/jobs/+/events", "python/mqtt/jobs/#,no/#", "none"])
def test_filters_keep_matching_topics(journal: Path, wanted: str) -> None:
    """Rows whose topic matches none of the filters are not given."""
    options = read_options({"journal": str(journal), "topics": wanted, "columns": "offset,payload"})
    with JournalReader(journal) as reader:
        tasks = list(plan(reader, options, 0, len(ENTRIES)))
    found = pa.Table.from_batches([batch for task in tasks for batch in read_partition(options, task)])
    assert found.column_names == ["offset", "payload"]
    expected = [
        (offset, entry.payload)
        for offset, entry in enumerate(ENTRIES)
        if any(filter_matches(pattern, entry.topic) for pattern in wanted.split(","))
    ]
    assert list(zip(*found.to_pydict().values(), strict=True)) == expected


@pytest.mark.parametrize("inline", [False, True])
def test_tasks_may_be_divided_by_job(journal: Path, inline: bool) -> None:
    """With the option shards a task has whole jobs, in order; together they have every row once."""
    options = SourceOptions(journal, shards=3, inline=inline, columns=("offset", "job_id"))
    with JournalReader(journal) as reader:
        tasks = [pickle.loads(pickle.dumps(task)) for task in plan(reader, options, 7, len(ENTRIES))]  # noqa: S301 - what Spark does
    parts = [pa.Table.from_batches(read_partition(options, task)) for task in tasks]
    offsets = [part.column("offset").to_pylist() for part in parts]
    assert all(part == sorted(part) for part in offsets)
    assert sorted(itertools.chain(*offsets)) == list(range(7, len(ENTRIES)))
    jobs = [set(part.column("job_id").to_pylist()) for part in parts]
    assert all(jobs)
    assert sum(map(len, jobs)) == len(set.union(*jobs))


def test_a_pickled_reader_has_opened_nothing(journal: Path) -> None:
    """Building, pickling and unpickling touch no file; an opened reader pickles as a fresh one."""
    nowhere = JournalStream(SourceOptions(Path("/nowhere/journal")))
    again = pickle.loads(pickle.dumps(nowhere))  # noqa: S301 - what Spark does
    with pytest.raises(JournalNotFound):
        again.initialOffset()
    used = JournalStream(SourceOptions(journal))
    used.initialOffset()
    copy = pickle.loads(pickle.dumps(used))  # noqa: S301 - what Spark does
    assert copy.initialOffset() == used.initialOffset()
    used.stop()
    copy.stop()


def test_partitions_come_first_after_a_crash(journal: Path) -> None:
    """Without any call before it, `partitions` plans exactly the range, and each task reads its part."""
    first = JournalStream(SourceOptions(journal))
    start = first.initialOffset()
    end = {"journal": start["journal"], "offset": 77}
    first.stop()
    reader = JournalStream(SourceOptions(journal, partition_bytes=4096))
    tasks = reader.partitions({**start, "offset": 10}, end)
    offsets = [
        offset
        for task in tasks
        for batch in reader.read(pickle.loads(pickle.dumps(task)))  # noqa: S301 - what Spark does
        for offset in batch.column("offset").to_pylist()
    ]
    assert offsets == list(range(10, 77))
    assert reader.partitions(end, end) == []
    reader.stop()


def test_inline_tasks_carry_their_bytes(journal: Path) -> None:
    """An executor without the directory reads what the task brought."""
    reader = JournalStream(SourceOptions(journal, inline=True))
    start = reader.initialOffset()
    tasks = reader.partitions(start, {**start, "offset": 50})
    assert all(isinstance(task, SpanPartition) and task.pieces[0].data for task in tasks)
    elsewhere = JournalStream(SourceOptions(Path("/nowhere"), inline=True))
    rows = sum(batch.num_rows for task in tasks for batch in elsewhere.read(task))
    assert rows == 50
    reader.stop()


def test_offsets_obey_limits_and_stand_still_when_idle(journal: Path) -> None:
    """A row limit caps the batch, "all available" does not; the same dict comes back when nothing is new."""
    reader = JournalStream(SourceOptions(journal, max_rows=20))
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert list(start) == sorted(start)
    assert reader.latestOffset(start, ReadMaxRows(20))["offset"] == 20
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["offset"] == len(ENTRIES)
    assert reader.latestOffset(end, ReadMaxRows(20)) is end
    reader.stop()


def test_available_now_stops_at_the_noted_end(journal: Path) -> None:
    """Rows that come after the preparation are left for the next query, but reported as backlog."""
    reader = JournalStream(SourceOptions(journal))
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    with JournalWriter(journal, clock=SystemClock()) as writer:
        writer.append(ENTRIES[:9])
    end = reader.latestOffset(start, ReadMaxRows(10_000))
    assert end["offset"] == len(ENTRIES)
    assert reader.latestOffset(end, ReadMaxRows(10_000)) is end
    assert reader.reportLatestOffset()["offset"] == len(ENTRIES) + 9
    reader.stop()


def test_places_of_another_journal_or_beyond_its_end_raise(journal: Path) -> None:
    """An offset that means nothing here is never taken for one that does."""
    reader = JournalStream(SourceOptions(journal))
    start = reader.initialOffset()
    foreign = {"journal": "00000000-0000-0000-0000-000000000000", "offset": 3}
    with pytest.raises(JournalRecreated):
        reader.latestOffset(foreign, ReadAllAvailable())
    beyond = {**start, "offset": len(ENTRIES) + 5}
    with pytest.raises(JournalTruncated):
        reader.partitions(start, beyond)
    reader.stop()
    lenient = JournalStream(SourceOptions(journal, fail_on_data_loss=False))
    assert lenient.latestOffset(foreign, ReadAllAvailable())["offset"] == len(ENTRIES)
    assert lenient.partitions(start, beyond)
    assert lenient.partitions(start, {**foreign, "offset": 9}) == []
    lenient.stop()


def test_times_need_a_zone() -> None:
    """A time without a zone would mean another moment on another host."""
    assert microseconds("2026-01-01T00:00:00.000001Z") == 1_767_225_600_000_001
    assert microseconds("2026-01-01T01:00:00+01:00") == 1_767_225_600_000_000
    for text in ("2026-01-01T00:00:00", "yesterday"):
        with pytest.raises(ConfigError):
            microseconds(text)
