"""The status line over real records: right at once, whatever the index already knows."""

import time
from pathlib import Path

import pytest

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.stored import SessionRow
from jobwire.coordination.store import CoordinationStore
from jobwire.core.clock import utc_timestamp
from jobwire.dashboard import index_reader
from jobwire.dashboard.status import Line, _line, line_of
from jobwire.testing import ManualClock
from jobwire.testing.fleet_writer import FleetWriter


@pytest.fixture
def writer(tmp_path: Path) -> FleetWriter:
    """Give a home directory that jobs can be written into."""
    return FleetWriter(tmp_path / "home")


def test_line_is_right_before_and_after_the_index_is_mended(writer: FleetWriter) -> None:
    """Running, waiting and failed are counted from the index and from what changed since."""
    home = str(writer.home)
    jobs = [writer.start() for _ in range(4)]
    assert line_of(home) == Line(4, 0, 0)
    writer.say(jobs[0], "permission_required", "may I?")
    writer.say(jobs[1], "error", "broken")
    writer.say(jobs[2], "completed", "done")
    assert line_of(home) == Line(1, 1, 1)
    writer.queue.counts()
    assert line_of(home) == Line(1, 1, 1)


def test_a_failure_counts_until_it_is_dismissed(writer: FleetWriter) -> None:
    """A dismissed failure is in no status line, before and after the index is mended, nor without one."""
    home = str(writer.home)
    one, two, three = (writer.start() for _ in range(3))
    for job in (one, two, three):
        writer.say(job, "error", "broken")
    writer.queue.counts()
    writer.queue.dismiss(one)
    assert line_of(home) == Line(0, 0, 2)
    writer.queue.counts()
    assert line_of(home) == Line(0, 0, 2)
    writer.queue.dismiss(two)
    writer.close()
    Path(writer.store.queue_path("pending.sqlite")).unlink()
    assert _line(home, None, utc_timestamp(0)) == Line(0, 0, 1)


def test_sessions_are_counted_with_an_index_and_without(writer: FleetWriter) -> None:
    """Where no index can be made, on a read-only disk for instance, running sessions are still named."""
    writer.start()
    store = CoordinationStore(str(writer.home))
    row = SessionRow("work", "running", "echo", "argument", "work", "", "[]", "/", "")
    Inventory(store).begin(row)
    store.close()
    home = str(writer.home)
    assert line_of(home) == Line(1, 0, 0, 1)
    assert _line(home, None, utc_timestamp(0)) == Line(1, 0, 0, 1)


def test_a_running_job_with_a_damaged_record_still_counts(writer: FleetWriter) -> None:
    """What the index last knew of it holds: a fleet with it is not at rest."""
    path = Path(writer.store.record_path(writer.start()))
    writer.queue.counts()
    path.write_bytes(b"{")
    assert line_of(str(writer.home)) == Line(1, 0, 0)


def test_a_store_that_is_being_made_is_left_to_its_maker(writer: FleetWriter) -> None:
    """A status bar only looks: it makes no tables, which a disk that takes no change would refuse."""
    writer.start()
    store = writer.home / "coordination.db"
    store.touch()
    assert line_of(str(writer.home)) == Line(1, 0, 0)
    assert store.stat().st_size == 0


def test_a_failure_counts_for_a_while(tmp_path: Path) -> None:
    """Failures older than what is asked for are left out; a day by default."""
    clock = ManualClock(now=time.time() - 7200)
    writer = FleetWriter(tmp_path / "home", clock=clock)
    writer.say(writer.start(), "error", "broken")
    home = str(writer.home)
    assert [line_of(home).failed, line_of(home, failed_seconds=3600).failed] == [1, 0]
    writer.queue.counts()
    assert [line_of(home).failed, line_of(home, failed_seconds=3600).failed] == [1, 0]


def test_counts_by_status_need_no_mending(writer: FleetWriter) -> None:
    """The number of jobs by status is exact while the index is behind."""
    jobs = [writer.start() for _ in range(3)]
    writer.queue.counts()
    writer.say(jobs[0], "completed", "done")
    writer.register()
    found = index_reader.read_index(str(writer.home), failed_since=utc_timestamp(0))
    assert found is not None
    counts = index_reader.counts_now(str(writer.home), found)
    assert {status: count for status, count in counts.items() if count} == {
        "running": 2,
        "completed": 1,
        "pending": 1,
    }


def test_looking_takes_no_lock_and_changes_nothing(writer: FleetWriter) -> None:
    """The index is read while somebody holds the queue's lock, and its marks stay."""
    job = writer.start()
    writer.queue.counts()
    writer.say(job, "completed", "done")
    marks = sorted(Path(writer.store.queue_path("touched")).iterdir())
    with writer.queue.index():
        pass
    writer.say(writer.start(), "completed", "done")
    marks = sorted(Path(writer.store.queue_path("touched")).iterdir())
    assert index_reader.read_index(str(writer.home), failed_since=utc_timestamp(0)) is not None
    assert sorted(Path(writer.store.queue_path("touched")).iterdir()) == marks


def test_missing_or_foreign_index_is_not_believed(writer: FleetWriter, tmp_path: Path) -> None:
    """No index, an index of another version and a damaged one are all noticed."""
    assert index_reader.read_index(str(tmp_path / "none"), failed_since=utc_timestamp(0)) is None
    assert line_of(str(tmp_path / "none")) == Line(0, 0, 0)
    writer.start()
    writer.queue.counts()
    writer.close()
    index = Path(writer.store.queue_path("pending.sqlite"))
    index.write_bytes(b"no database at all" * 100)
    assert index_reader.read_index(str(writer.home), failed_since=utc_timestamp(0)) is None
    assert line_of(str(writer.home)) == Line(1, 0, 0)


def test_attention_is_found_in_any_layout(writer: FleetWriter) -> None:
    """A record that was written with another layout is read as JSON."""
    job = writer.start()
    writer.say(job, "permission_required", 'no "attention": false here')
    path = Path(writer.store.record_path(job))
    assert line_of(str(writer.home)) == Line(0, 1, 0)
    path.write_text(path.read_text().replace('\n "attention": true', '"attention":true'))
    assert line_of(str(writer.home)) == Line(0, 1, 0)
    assert index_reader.read_flags(str(writer.home), "ffffffff") is None
