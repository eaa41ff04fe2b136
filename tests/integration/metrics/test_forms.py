"""Tables of earlier forms are taken over, and tables forget what the settings say."""

import contextlib
from collections.abc import Iterator

import pytest

from jobwire.core.clock import SystemClock
from jobwire.metrics.database import Database, open_database, shard_place
from jobwire.metrics.errors import SinkError
from jobwire.metrics.retention import Keep
from jobwire.metrics.rows import SCHEMA, Rows, rows_of
from jobwire.metrics.shards import AllShards
from jobwire.metrics.sink import MetricsSink

HOUR_US = 3_600_000_000
DAY = 86_400


def events(*given: tuple[int, str, int, str], first_offset: int = 0) -> Rows:
    """Turn (microseconds, job, seq, event) into the rows of one batch."""
    import pyarrow as pa  # noqa: PLC0415 - as the product: with the first batch

    names = ("received_us", "job_id", "seq", "label")
    found = [
        {"offset": place, "sent_us": row[0], "note": None} | dict(zip(names, row, strict=True))
        for place, row in enumerate(given, start=first_offset)
    ]
    return rows_of(pa.Table.from_pylist(found, schema=SCHEMA))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Give an empty database."""
    with contextlib.closing(open_database(database_url)) as opened:
        yield opened


def test_tables_from_before_the_first_release_are_refused(database: Database) -> None:
    """They are left as they are, and the remedy is told."""
    database.execute("CREATE TABLE metrics_schema (version INTEGER NOT NULL PRIMARY KEY)")
    database.execute("INSERT INTO metrics_schema VALUES (2)")
    before = database.tables()
    with pytest.raises(SinkError, match="form 2") as caught:
        MetricsSink(database, clock=SystemClock()).prepare()
    assert "move them away" in caught.value.hint
    assert database.tables() == before


def test_the_third_form_keeps_how_many_shards_there_are(database_url: str) -> None:
    """Tables of two shards stay tables of two shards, and windows may become final."""
    tables = AllShards(database_url, clock=SystemClock())
    assert tables.prepare(2) == 2
    for shard in range(2):
        with contextlib.closing(open_database(shard_place(database_url, shard, 2))) as old:
            old.drop_views()
            for statement in ("DROP TABLE IF EXISTS idle", "UPDATE metrics_schema SET version = 3"):
                old.execute(statement)
    assert tables.prepare(1) == 2
    tables.begin("j", 0)
    tables.rest("j", 0, HOUR_US)
    with contextlib.closing(open_database(database_url, read_only=True)) as reader:
        assert reader.rows("SELECT COUNT(*), MAX(next_offset) FROM progress") == [(2, 0)]
        assert reader.rows("SELECT COUNT(*) FROM error_rates") == [(0,)]


def test_tables_forget_what_is_old_and_keep_its_sums(database: Database) -> None:
    """Windows and ended jobs go by their own settings, once an hour of the journal; open jobs stay."""
    keep = Keep(keep_10s_days=1, keep_60s_days=2, keep_jobs_days=3)
    sink = MetricsSink(database, clock=SystemClock(), keep=keep)
    sink.prepare()
    day_us = DAY * 1_000_000
    sink.apply(
        events(
            (HOUR_US, "00000001", 1, "started"),
            (HOUR_US + 1, "00000001", 2, "completed"),
            (HOUR_US + 2, "00000002", 1, "started"),
            (3 * day_us, "00000003", 1, "started"),
            (3 * day_us + 1, "00000003", 2, "completed"),
        ),
        "j",
    )
    sink.apply(events((5 * day_us, "00000004", 1, "started"), first_offset=5), "j")
    kept: dict[int, int] = dict(
        database.rows("SELECT width_seconds, MIN(window_start) FROM windows GROUP BY 1")
    )
    assert kept == {10: 5 * DAY, 60: 3 * DAY, 3600: 3600}
    lengths: dict[int, int] = dict(
        database.rows("SELECT width_seconds, MIN(window_start) FROM measured GROUP BY 1")
    )
    assert lengths == kept
    assert database.rows("SELECT job_id, outcome FROM jobs ORDER BY 1") == [
        ("00000002", "open"),
        ("00000003", "completed"),
        ("00000004", "open"),
    ]
