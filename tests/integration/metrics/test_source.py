"""The data source `mqtt` under a real Spark: streams, tables, limits, loss, several queries."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.core.errors import StorageError
from jobwire.journal.consumers import Consumers
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.writer import JournalWriter
from jobwire.testing.rehearsal import Mix, Rehearsal
from jobwire.testing.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ENTRIES = list(Rehearsal(seed=21, jobs=60, active=10))
Batches = list[list[int]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, java: None) -> Iterator[Any]:
    """Share one small Spark session."""
    from jobwire.metrics.session import SparkSettings, start_session  # noqa: PLC0415 - after Java is there

    folder = tmp_path_factory.mktemp("spark")
    session = start_session(SparkSettings(log_file=folder / "spark.log", home=folder / "home"))
    yield session
    session.stop()


@pytest.fixture
def run_stream(spark: Any, tmp_path: Path) -> Callable[..., Batches]:
    """Run a query to the journal's end; give the offsets of each batch."""

    def run(journal: Path, *, checkpoint: str = "checkpoint", **options: str) -> Batches:
        batches: Batches = []

        def note(frame: Any, _batch_id: int) -> None:
            batches.append(sorted(row.offset for row in frame.select("offset").collect()))

        reader = spark.readStream.format("mqtt").option("journal", str(journal))
        for name, value in options.items():
            reader = reader.option(name, value)
        query = (
            reader.load()
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches

    return run


def table(spark: Any, journal: Path, **options: str) -> Any:
    """Return a batch read."""
    reader = spark.read.format("mqtt").option("journal", str(journal))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def test_two_lines_read_a_journal(spark: Any, make_journal: Callable[..., Path]) -> None:
    """The format is known without registering anything, and every row is what was stored."""
    journal = make_journal(ENTRIES)
    frame = spark.read.format("mqtt").option("journal", str(journal)).load()
    assert frame.columns == ["offset", "received_at", "topic", "job_id", "retained", "verdict", "payload"]
    rows = frame.selectExpr("*", "unix_micros(received_at) AS us").orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(len(ENTRIES)))
    for row, entry in zip(rows, ENTRIES, strict=True):
        assert (row.us, row.topic, bytes(row.payload)) == (entry.received_at_us, entry.topic, entry.payload)
        assert (row.retained, row.verdict) == (entry.retained, entry.verdict)
        assert row.job_id == entry.topic.split("/")[-2]


def test_python_workers_take_what_is_installed(spark: Any) -> None:
    """No Python process of Spark compiles the sources that Spark carries zipped beside the installed ones."""

    def place(_row: Any) -> str:
        import pyspark  # noqa: PLC0415 - asked in the worker

        return str(pyspark.__file__)

    assert set(spark.sparkContext.range(1).map(place).collect()) == {place(None)}


def test_parsed_events_are_what_json_says(spark: Any, make_journal: Callable[..., Path]) -> None:
    """With parse=event the accepted rows hold the event's fields, hostile text included."""
    odd = [
        ENTRIES[0]._replace(payload=json.dumps(json.loads(ENTRIES[0].payload), indent=2).encode()),
        ENTRIES[1]._replace(verdict="accepted", payload=b"not json at all"),
    ]
    journal = make_journal([*ENTRIES, *odd])
    rows = table(spark, journal, parse="event").orderBy("offset").collect()
    for row, entry in zip(rows, [*ENTRIES, *odd], strict=True):
        if entry.verdict != "accepted" or entry.payload == b"not json at all":
            assert (row.seq, row.event, row.detail, row.data) == (None, None, None, None)
            continue
        event = json.loads(entry.payload)
        assert (row.seq, row.event, row.detail) == (event["seq"], event["event"], event["detail"])
        assert row.timestamp == event["timestamp"]
        assert json.loads(row.data) == event["data"]


def test_ranges_of_offsets_and_times(spark: Any, make_journal: Callable[..., Path]) -> None:
    """A batch read takes [start, end) by offset or by time of receipt."""
    journal = make_journal(ENTRIES)
    part = table(spark, journal, startingOffset="17", endingOffset="230")
    assert sorted(row.offset for row in part.collect()) == list(range(17, 230))
    since = ENTRIES[100].received_at_us
    moment = spark.range(1).selectExpr(f"string(timestamp_micros({since})) AS at").collect()[0]["at"]
    later = table(spark, journal, startingTime=f"{moment.replace(' ', 'T')}Z")
    expected = [n for n, entry in enumerate(ENTRIES) if entry.received_at_us >= since]
    assert sorted(row.offset for row in later.collect()) == expected


def test_topics_filter(spark: Any, make_journal: Callable[..., Path]) -> None:
    """Only topics that match one of the MQTT filters are read."""
    journal = make_journal(ENTRIES)
    wanted = ENTRIES[0].topic
    rows = table(spark, journal, topics=f"{wanted},no/such/#").collect()
    assert len(rows) == sum(entry.topic == wanted for entry in ENTRIES)
    assert table(spark, journal, topics="python/mqtt/jobs/+/events").count() == len(ENTRIES)


def test_inline_partitions_need_no_directory(
    spark: Any, make_journal: Callable[..., Path], tmp_path: Path
) -> None:
    """With inline=true the bytes travel in the task: the directory may be gone when it runs."""
    journal = make_journal(ENTRIES)
    frame = table(spark, journal, inline="true", partitionBytes="65536")
    planned = frame.rdd  # plans the read: from here on nobody needs the files
    assert planned.getNumPartitions() > 1
    shutil.move(journal, tmp_path / "elsewhere")
    assert sorted(row.offset for row in planned.collect()) == list(range(len(ENTRIES)))


def test_batches_keep_both_limits_and_lose_nothing(
    run_stream: Callable[..., Batches], make_journal: Callable[..., Path]
) -> None:
    """AvailableNow reads all of it in batches within the limits, a restart reads only what is new."""
    journal = make_journal(ENTRIES, batch=7)
    half = run_stream(journal, maxRowsPerBatch="100")
    assert max(map(len, half)) <= 100
    assert [offset for batch in half for offset in batch] == list(range(len(ENTRIES)))
    with JournalWriter(journal, clock=SystemClock()) as writer:
        writer.append(ENTRIES[:30])
    again = run_stream(journal, maxRowsPerBatch="100")
    assert [offset for batch in again for offset in batch] == list(range(len(ENTRIES), len(ENTRIES) + 30))
    by_bytes = run_stream(journal, checkpoint="by-bytes", maxBytesPerBatch="70000")
    assert len(by_bytes) > 2
    assert [offset for batch in by_bytes for offset in batch] == list(range(len(ENTRIES) + 30))


def test_several_queries_and_their_consumers(
    run_stream: Callable[..., Batches], make_journal: Callable[..., Path]
) -> None:
    """Two queries read one journal; each commits its own place, behind what it has read."""
    journal = make_journal(ENTRIES)
    for name in ("one", "two"):
        run_stream(journal, checkpoint=name, consumer=name, maxRowsPerBatch="50")
    committed = {known.name: known.offset for known in Consumers(journal).all()}
    assert set(committed) == {"one", "two"}
    assert all(0 <= offset <= len(ENTRIES) for offset in committed.values())


def test_a_consumer_holds_retention_back(
    run_stream: Callable[..., Batches], make_journal: Callable[..., Path]
) -> None:
    """What a registered query has not read is not pruned."""
    journal = make_journal(ENTRIES, segment_bytes=16 << 10)
    Consumers(journal).register("slow", 0)
    Retention(journal, clock=SystemClock(), limits=RetentionPolicy(0.0, 0)).prune()
    batches = run_stream(journal, consumer="slow")
    assert sum(map(len, batches)) == len(ENTRIES)


def pruned(journal: Path) -> int:
    """Prune whatever can go; return the first offset left."""
    Retention(journal, clock=SystemClock(), limits=RetentionPolicy(0.0, 0)).prune(force=True)
    with JournalReader(journal) as reader:
        return reader.first_offset


def test_a_truncated_journal_raises_or_is_skipped(
    run_stream: Callable[..., Batches], make_journal: Callable[..., Path]
) -> None:
    """A query whose next rows were pruned fails, or goes on behind them where that is allowed."""
    journal = make_journal(ENTRIES, segment_bytes=16 << 10)
    # Few batches: Spark keeps the last ten, and the first one is what the next run shall begin with.
    rows = len(ENTRIES) // 5
    run_stream(journal, maxRowsPerBatch=str(rows), startingOffset="0", topics="none")
    shutil.rmtree(journal.parent / "checkpoint" / "commits")
    offsets = journal.parent / "checkpoint" / "offsets"
    for path in sorted(offsets.iterdir(), key=lambda p: p.name)[1:]:
        path.unlink()
    first = pruned(journal)
    assert first > rows
    with pytest.raises(Exception, match="JournalTruncated"):
        run_stream(journal, startingOffset="0")
    batches = run_stream(journal, startingOffset="0", failOnDataLoss="false")
    assert [offset for batch in batches for offset in batch] == list(range(first, len(ENTRIES)))


def test_a_recreated_journal_raises_or_is_read_from_its_start(
    run_stream: Callable[..., Batches], make_journal: Callable[..., Path]
) -> None:
    """Offsets of another journal are never taken for this one's."""
    journal = make_journal(ENTRIES[:100])
    run_stream(journal)
    shutil.rmtree(journal)
    with JournalWriter(journal, clock=SystemClock()) as writer:
        writer.append(ENTRIES[:150])
    with pytest.raises(Exception, match="JournalRecreated"):
        run_stream(journal)
    batches = run_stream(journal, failOnDataLoss="false")
    assert [offset for batch in batches for offset in batch] == list(range(150))


def test_progress_reports_the_backlog(spark: Any, make_journal: Callable[..., Path], tmp_path: Path) -> None:
    """While a capped query runs, its progress tells how much of the journal is ahead."""
    journal = make_journal(ENTRIES)
    reader = spark.readStream.format("mqtt").option("journal", str(journal)).option("maxRowsPerBatch", "50")
    query = (
        reader.load()
        .writeStream.foreachBatch(lambda frame, _: frame.count())
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(
            lambda: any(json.loads(p.json)["numInputRows"] for p in query.recentProgress), deadline_seconds=60
        )
        first = next(json.loads(p.json) for p in query.recentProgress if json.loads(p.json)["numInputRows"])[
            "sources"
        ][0]
        assert first["endOffset"]["offset"] == 50
        assert first["latestOffset"]["offset"] == len(ENTRIES)
    finally:
        query.stop()


def test_signatures_are_checked_in_the_executors(spark: Any, make_journal: Callable[..., Path]) -> None:
    """A journal recorded without keys gets the recorder's verdicts from the keys file."""
    script = Rehearsal(seed=22, jobs=20, mix=Mix(refused=0, repeated=0), verdicts=False)
    keys = script.keys()
    unknown = script.job_ids()[0]
    del keys[unknown]
    entries = list(script)
    forged = entries[5]._replace(payload=entries[5].payload.replace(b'"files":', b'"fileS":'))
    file = Path(os.environ["JOBWIRE_KEYS_FILE"])
    file.write_text(json.dumps(keys))
    file.chmod(0o644)
    journal = make_journal([*entries, forged, entries[0]._replace(payload=b"{}")])
    frame = table(spark, journal, verify="true")
    with pytest.raises(Exception, match="keys file"):
        frame.count()
    file.chmod(0o600)
    found = Counter(row.verdict for row in frame.select("verdict").collect())
    of_unknown = sum(entry.topic.split("/")[-2] == unknown for entry in entries)
    assert found["unknown_job"] == of_unknown
    assert found["accepted"] == len(entries) - of_unknown
    assert found["bad_signature"] == 1
    assert found["schema_version"] == 1


def test_wrong_options_are_named(spark: Any, make_journal: Callable[..., Path]) -> None:
    """A misspelt or unusable option is an error that says which, when the read is made."""
    journal = make_journal(ENTRIES[:5])
    for options, words in (
        ({"topix": "x"}, "no option topix"),
        ({"startingOffset": "soon"}, "startingOffset"),
        ({"verify": "maybe"}, "verify"),
        ({"startingTime": "2026-01-01T00:00:00"}, "with a zone"),
    ):
        with pytest.raises(Exception, match=words):
            table(spark, journal, **options).count()
    with pytest.raises(Exception, match="needs the option journal"):
        spark.read.format("mqtt").load()
    with pytest.raises(Exception, match="no journal in"):
        table(spark, journal / "nowhere").count()


def test_a_foreign_checkpoint_is_refused() -> None:
    """An offset that is not ours is an error, not a guess."""
    from jobwire.metrics.source.stream import read_place  # noqa: PLC0415 - for this test only

    with pytest.raises(StorageError, match="another source"):
        read_place({"partition-1": 3})
