"""The metrics view over the tables that the streaming query writes."""

import time
from pathlib import Path
from typing import Any

import pytest

from jobwire.core.clock import SystemClock
from jobwire.dashboard.figures import JournalEnd
from jobwire.dashboard.report import Live, MetricsReport, safe_report
from jobwire.dashboard.tables import TablesLocator
from jobwire.dashboard.waiting import WaitingHistory
from jobwire.metrics.settings import LOCK_NAME
from jobwire.storage.file_lock import held
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.metric_tables import speak, write_tables

NOW = float(int(time.time()) // 60 * 60 + 30)
START = int(NOW) // 30 * 30 - 600
JOURNAL = JournalEnd("j1", 100)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Give metric tables with ten minutes of figures."""
    write_tables(tmp_path, START)
    return tmp_path


def ask(home: Path, *, journal: JournalEnd = JOURNAL, runs: bool | None = None) -> MetricsReport:
    """Return the figures of the last hour."""
    live = Live({}, [], journal, runs)
    return safe_report(TablesLocator(home=home, location=None).open, live, seconds=3600, now=NOW)


def close(values: Any) -> Any:
    """Allow for what a bucket does not know."""
    return pytest.approx(values, rel=0.01)


def test_figures_are_those_of_the_tables(tables: Path) -> None:
    """Rates, refusals, durations, waits, delays and outcomes of the range are what the tables hold."""
    speak(tables, updated_at=NOW)
    found = ask(tables)
    place = found.points.index(START)
    assert found.events["progress"][place] == 2.0
    assert sum(found.events["progress"]) * found.step == pytest.approx(1200)
    assert found.rejections == {"bad_signature": [1.0 if point == START else 0.0 for point in found.points]}
    assert found.durations_total == close({"p50": 60.0, "p95": 60.0, "p99": 60.0})
    assert found.waiting_total == close({"p50": 10.0, "p95": 30.0, "p99": 30.0})
    assert (found.delay["p50"][place], found.delay["p95"][place]) == close((0.004, 0.012))
    assert [share for share in found.error_rate if share is not None] == [0.3333]
    assert found.finished == {"completed": 2, "error": 1}
    assert found.sessions == [{"session": "docs", "events": 1204}]
    assert found.jobs["running"][place] == 3
    assert found.jobs["running"][-1] == 0  # the open one is unknown to the fleet: it was cancelled


def test_jobs_that_the_journal_never_saw_are_named(tables: Path) -> None:
    """A job that spoke before the registry process ran is in no figure: the page says how many there are."""
    writer = FleetWriter(tables)
    at = TablesLocator(home=tables, location=None)
    assert at.missing_jobs() == ""
    writer.start("before serve")
    assert at.missing_jobs().startswith("1 job of this registry is missing in the metrics")
    writer.close()
    assert TablesLocator(home=tables / "nowhere", location=None).missing_jobs() == ""


@pytest.mark.parametrize(
    ("age", "next_offset", "end", "state"),
    [
        (1, 100, 100, "live"), (1, 50, 100, "live"), (15, 50, 100, "behind"), (31, 50, 100, "stopped"),
        (31, 100, 100, "idle"), (99_999, 100, 100, "idle"), (99_999, 99, 100, "stopped"),
    ],
)  # fmt: skip
def test_stopped_query_is_told_from_a_quiet_one(
    tables: Path, age: float, next_offset: int, end: int, state: str
) -> None:
    """Old figures with nothing new in the journal are idle; with messages waiting the query has stopped."""
    speak(tables, updated_at=NOW - age, next_offset=next_offset)
    fresh = ask(tables, journal=JournalEnd("j1", end)).freshness
    assert (fresh.state, fresh.updated_at) == (state, NOW - age)


def test_query_that_does_not_run_has_stopped(tables: Path) -> None:
    """Where its lock shows that nothing runs, it is stopped, however fresh and complete the figures are."""
    speak(tables, updated_at=NOW)
    assert ask(tables, runs=False).freshness.state == "stopped"
    assert ask(tables, runs=True).freshness.state == "live"


def test_lock_tells_whether_the_query_runs(tables: Path) -> None:
    """The lock of the query's process is seen without being touched."""
    found = TablesLocator(home=tables, location=None)
    assert found.query_runs() is False
    lock = tables / "metrics" / LOCK_NAME
    with held(lock, clock=SystemClock(), deadline_seconds=0, what="test"):
        assert found.query_runs() is True
    assert found.query_runs() is False


def test_another_journal_is_not_counted_as_read(tables: Path) -> None:
    """Offsets of an earlier journal say nothing of the present one."""
    speak(tables, updated_at=NOW - 40)
    assert ask(tables, journal=JournalEnd("j2", 5)).freshness.state == "stopped"


def test_no_tables_say_how_to_get_them(tmp_path: Path) -> None:
    """Without tables the page tells that the query has not run, and looking creates nothing."""
    assert ask(tmp_path).freshness.state == "none"
    assert list(tmp_path.iterdir()) == []


def test_damaged_tables_are_told(tables: Path) -> None:
    """Tables that cannot be read are an answer, not a crash."""
    (tables / "metrics" / "metrics.db").write_bytes(b"junk" * 1000)
    found = ask(tables)
    assert found.freshness.state == "none"
    assert "metric tables" in found.freshness.why


def test_waits_are_folded_from_the_journal(tmp_path: Path) -> None:
    """A wait begins with permission_required and ends with the job's next event; an open one lasts."""
    writer = FleetWriter(tmp_path)
    first, second = writer.start(), writer.start()
    for job, event in ((first, "permission_required"), (second, "permission_required"), (first, "progress")):
        writer.journal(job, writer.next_event(job, event, "")[1])
    writer.journal(second, b"garbage", verdict="malformed")
    history = WaitingHistory(tmp_path / "journal", seconds=3600)
    history.advance(time.time())
    assert history.complete
    ended, lasting = history.intervals({second}, time.time())
    assert ended[1] < float("inf") == lasting[1]
    # Cancelled jobs say nothing: the fleet knows that the wait is over.
    assert all(until < float("inf") for _, until in history.intervals(set(), time.time() + 60))
    writer.close()
