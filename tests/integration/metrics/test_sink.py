"""The contract of the metric tables, on SQLite and on PostgreSQL."""

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from jobwire.core.clock import SystemClock
from jobwire.journal.entry import Entry
from jobwire.metrics.database import open_database
from jobwire.metrics.errors import DataLossError, SinkError
from jobwire.metrics.rows import SCHEMA, Rows, rows_of
from jobwire.metrics.shards import AllShards
from jobwire.metrics.sink import MetricsSink
from jobwire.testing.rehearsal import Rehearsal

JOURNAL = "11111111-2222-3333-4444-555555555555"
ENTRIES = list(Rehearsal(seed=11, jobs=40, active=10))


def rows(entries: Sequence[Entry], first_offset: int = 0) -> Rows:
    """Turn journal entries into the rows of one batch."""
    found: list[dict[str, Any]] = []
    for place, entry in enumerate(entries):
        event = json.loads(entry.payload) if entry.verdict == "accepted" else {}
        found.append(
            {
                "offset": first_offset + place,
                "received_us": entry.received_at_us,
                "job_id": entry.topic.split("/")[-2],
                "seq": event.get("seq"),
                "label": event.get("event", entry.verdict),
                "sent_us": entry.received_at_us - 1500 if event else None,
                "note": None,
            }
        )
    return rows_of(pa.Table.from_pylist(found, schema=SCHEMA))


def new_sink(url: str, **options: Any) -> MetricsSink:
    """Open the tables at `url`."""
    sink = MetricsSink(
        open_database(url),
        clock=SystemClock(),
        session_of=lambda job: "even" if int(job, 16) % 2 == 0 else "odd",
        **options,
    )
    sink.prepare()
    return sink


@pytest.fixture
def sink(database_url: str) -> Iterator[MetricsSink]:
    """Give empty tables."""
    with new_sink(database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the digests of the tables after one undisturbed batch."""
    with new_sink(str(tmp_path_factory.mktemp("expected") / "metrics.db")) as opened:
        opened.apply(rows(ENTRIES), JOURNAL)
        return opened.digests()


@pytest.mark.parametrize("seed", range(3))
def test_replays_give_the_same_tables(sink: MetricsSink, expected: dict[str, str], seed: int) -> None:
    """Batches cut anywhere, given twice, overlapping or again from the start: the tables are equal."""
    random = Random(seed)  # noqa: S311 - a script
    done = 0
    while done < len(ENTRIES):
        start = random.choice((done, max(0, done - random.randint(0, 60)), 0))
        end = min(len(ENTRIES), done + random.randint(0, 90))
        if start < end:
            sink.apply(rows(ENTRIES[start:end], start), JOURNAL)
            done = max(done, end)
    assert sink.digests() == expected
    assert sink.progress()[JOURNAL].next_offset == len(ENTRIES)


def test_both_databases_hold_the_same_bytes(sink: MetricsSink, expected: dict[str, str]) -> None:
    """SQLite and PostgreSQL give the same rows, read back through the driver."""
    sink.apply(rows(ENTRIES), JOURNAL)
    assert sink.digests() == expected


def test_missing_rows_are_refused(sink: MetricsSink) -> None:
    """A batch that begins after the stored offset, or has a hole, changes nothing."""
    sink.apply(rows(ENTRIES[:10]), JOURNAL)
    before = sink.digests()
    with pytest.raises(DataLossError) as caught:
        sink.apply(rows(ENTRIES[20:30], 20), JOURNAL)
    assert caught.value.facts == {"wanted": 10, "first_offset": 20}
    assert sink.digests() == before
    assert sink.progress()[JOURNAL].next_offset == 10


def test_missing_rows_can_be_allowed(database_url: str) -> None:
    """Where losing data is allowed, the tables go on behind the gap."""
    with new_sink(database_url, fail_on_data_loss=False) as sink:
        sink.apply(rows(ENTRIES[:10]), JOURNAL)
        sink.apply(rows(ENTRIES[20:30], 20), JOURNAL)
        assert sink.progress()[JOURNAL].next_offset == 30


def test_two_shards_have_two_offsets(sink: MetricsSink) -> None:
    """Each journal has its own place; a replay of one does not touch the other's."""
    sink.apply(rows(ENTRIES[:10]), "a")
    sink.apply(rows(ENTRIES[10:30]), "b")
    again = sink.apply(rows(ENTRIES[:10]), "a")
    assert (again.rows, again.repeated) == (0, 10)
    assert {name: place.next_offset for name, place in sink.progress().items()} == {"a": 10, "b": 20}


def test_a_failure_in_the_middle_changes_nothing(sink: MetricsSink, database_url: str) -> None:
    """When a statement of the batch fails, neither counts nor the offset are there."""
    sink.apply(rows(ENTRIES[:50]), JOURNAL)
    before = sink.digests()
    other = open_database(database_url)
    other.execute("ALTER TABLE job_totals RENAME TO elsewhere")
    with pytest.raises(SinkError):
        sink.apply(rows(ENTRIES[50:90], 50), JOURNAL)
    other.execute("ALTER TABLE elsewhere RENAME TO job_totals")
    other.close()
    assert sink.digests() == before
    sink.apply(rows(ENTRIES[50:90], 50), JOURNAL)
    assert sink.progress()[JOURNAL].next_offset == 90


def test_two_writers_take_turns(database_url: str, expected: dict[str, str]) -> None:
    """Two processes that both believe to be the one writer still count each row once."""
    with new_sink(database_url) as first, new_sink(database_url) as second:

        def work(sink: MetricsSink) -> None:
            for start in range(0, len(ENTRIES), 30):
                sink.apply(rows(ENTRIES[start : start + 30], start), JOURNAL)

        threads = [threading.Thread(target=work, args=(sink,)) for sink in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert first.digests() == expected


def test_sessions_survive_a_rebuild(sink: MetricsSink, database_url: str) -> None:
    """They are kept while the tables are computed anew, since no journal holds them, and not for longer."""
    sink.apply(rows(ENTRIES), JOURNAL)
    before = sink.digests()
    sink.clear()
    assert sink.progress() == {}
    with MetricsSink(open_database(database_url), clock=SystemClock(), session_of=lambda _: "new") as again:
        again.apply(rows(ENTRIES), JOURNAL)
        assert again.digests() == before
        again.clear()
        again.drop_kept_sessions()
        again.apply(rows(ENTRIES), JOURNAL)
        assert again.digests() != before


def test_the_views_answer_in_seconds(sink: MetricsSink, database_url: str) -> None:
    """jobs, open_jobs and error_rates read as plain numbers from both databases."""
    sink.apply(rows(ENTRIES), JOURNAL)
    reader = open_database(database_url, read_only=True)
    jobs = reader.rows("SELECT job_id, started_at, finished_at, duration_s, waiting_s, outcome FROM jobs")
    stuck = reader.rows("SELECT job_id, last_event_at, waiting_since_at FROM open_jobs")
    rates = reader.rows(
        "SELECT accepted, rejected, finished, errors, error_rate, rejection_rate, final FROM error_rates"
        " WHERE width_seconds = 60"
    )
    reader.close()
    assert len(jobs) == 40
    assert {type(job[1]) for job in jobs} == {float}
    assert all(job[3] == pytest.approx(job[2] - job[1], abs=1e-5) for job in jobs if job[2] is not None)
    assert {job[0] for job in stuck} == {job[0] for job in jobs if job[5] == "open"}
    assert sum(rate[0] + rate[1] for rate in rates) == len(ENTRIES)
    assert all(type(rate[4]) in (float, int) and 0 <= rate[4] <= 1 for rate in rates)


def test_no_window_is_final_that_still_changes(sink: MetricsSink, database_url: str) -> None:
    """Two journals, one with a clock that is set back, one idle: final comes by the clock, and for good."""
    tables = AllShards(database_url, clock=SystemClock())
    tables.begin(JOURNAL, 0)
    tables.begin("idle", 0)
    wanted = "SELECT * FROM error_rates WHERE final = 1"
    reader = open_database(database_url, read_only=True)
    random = Random(5)  # noqa: S311 - the same test at each run
    moved = [
        entry._replace(
            received_at_us=ENTRIES[0].received_at_us + number * 500_000 - random.choice((0, 0, 0, 90_000_000))
        )
        for number, entry in enumerate(ENTRIES)
    ]
    final: set[tuple[Any, ...]] = set()
    for start in range(0, len(moved), 20):
        part = rows(moved[start : start + 20], start)
        sink.apply(part, JOURNAL)
        assert final <= set(reader.rows(wanted)), "a window changed that was final"
        assert start or not reader.rows(wanted), "the idle journal was not looked at yet"
        tables.rest("idle", 1, part.newest_us)  # it was folded to 0, so this is not its end
        tables.rest("idle", 0, part.newest_us)
        final = set(reader.rows(wanted))
    assert 0 < len(final) < len(reader.rows("SELECT * FROM error_rates"))
    for name, end in ((JOURNAL, len(moved)), ("idle", 0)):
        tables.rest(name, end, part.newest_us + 4_000_000_000)
    assert len(reader.rows(wanted)) == len(reader.rows("SELECT * FROM error_rates"))
    reader.close()


def test_tables_of_another_form_are_refused(sink: MetricsSink, database_url: str) -> None:
    """A newer program's tables are not written into."""
    other = open_database(database_url)
    other.execute("UPDATE metrics_schema SET version = 99")
    other.close()
    with pytest.raises(SinkError, match="form 99"):
        sink.prepare()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """SQLite's "full" becomes an error with the remedy, and the batch can be given again."""
    database = open_database(str(tmp_path / "small.db"))
    sink = MetricsSink(database, clock=SystemClock())
    sink.prepare()
    sink.apply(rows(ENTRIES[:5]), JOURNAL)
    pages = database.rows("PRAGMA page_count")[0][0]
    database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(SinkError) as caught:
        sink.apply(rows(ENTRIES[5:], 5), JOURNAL)
    assert caught.value.facts["disk_full"] is True
    assert "free disk space" in caught.value.hint
    reached = sink.progress()[JOURNAL].next_offset
    database.execute("PRAGMA max_page_count = 100000")
    sink.apply(rows(ENTRIES[reached:], reached), JOURNAL)
    assert sink.progress()[JOURNAL].next_offset == len(ENTRIES)
