"""The fleet over real records, a real journal and the real inotify."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.dashboard.fleet import Row, Thresholds
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.records import RecordSource
from jobwire.registry.store import RecordStore
from jobwire.testing.clock import ManualClock
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.waiting import wait_for


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[FleetWriter]:
    """Give a home directory that jobs can be written into."""
    made = FleetWriter(tmp_path / "home")
    yield made
    made.close()


def new_model(
    home: Path, *, poll: bool = False, clock: ManualClock | None = None, keep: int = 1000
) -> FleetModel:
    """Return a model of `home`, not started; any warning is an error."""
    store = RecordStore(home, clock=clock)
    return FleetModel(store, limits=Thresholds(), poll=poll, warn=_fail, keep_finished=keep)


def _fail(text: str) -> None:
    raise AssertionError(text)


def changed(model: FleetModel) -> list[Row]:
    """Return the rows of the next look that brings some."""
    found: list[Row] = []

    def look() -> bool:
        found.extend(model.refresh().rows)
        return bool(found)

    wait_for(look, what="a change")
    return found


@pytest.mark.parametrize("poll", [False, True])
def test_fleet_follows_the_records(writer: FleetWriter, poll: bool) -> None:
    """Registration, every event and the end of a job change its row; with inotify and by polling."""
    model = new_model(writer.home, poll=poll)
    model.start()
    assert model.rows == {}
    job = writer.register("one", agent_session="docs")
    assert [(row.id, row.group) for row in changed(model)] == [(job, "pending")]
    writer.say(job, "started", "begun")
    assert changed(model)[0].detail == "begun"
    writer.say(job, "permission_required", "may I?", percent=40)
    [row] = changed(model)
    assert (row.group, row.detail, row.percent) == ("waiting", "may I?", 40.0)
    writer.say(job, "completed", "done")
    assert changed(model)[0].group == "done"
    model.close()


def test_fleet_is_rebuilt_from_the_disk(writer: FleetWriter) -> None:
    """A new process knows what the old one knew: groups, progress, time of the last event."""
    for number in range(3):
        job = writer.start(f"job {number}")
        writer.say(job, "progress", "half", percent=50)
    writer.say(job, "error", "broken")
    model = new_model(writer.home)
    model.start()
    assert sorted(row.group for row in model.rows.values()) == ["failed", "running", "running"]
    assert {row.percent for row in model.rows.values()} == {50.0}
    again = new_model(writer.home)
    again.start()
    assert again.rows == model.rows
    again.close()
    model.close()


def test_renewed_lease_is_no_sign_of_progress(writer: FleetWriter) -> None:
    """Idle time counts from the last event: a wrapper that renews its lease does not hide a stuck agent."""
    job = writer.start()
    at = writer.store.get(job)
    with writer.store.locked(job) as locked:
        locked.replace(at._replace(updated_at=utc_timestamp(4_000_000_000)), cause="renewed")
    model = new_model(writer.home)
    model.start()
    assert model.rows[job].last is not None
    assert abs((model.rows[job].last or 0) - SystemClock().now()) < 60
    model.close()


def test_journal_is_ahead_of_the_record(writer: FleetWriter) -> None:
    """An event shows once it is in the journal, before its record is written; a refused one does not."""
    job = writer.start()
    writer.journal(job, b"older", verdict="malformed")
    model = new_model(writer.home)
    model.start()
    _, payload = writer.next_event(job, "progress", "seen first in the journal", percent=30)
    writer.journal(job, b"garbage", verdict="malformed")
    writer.journal(job, payload)
    [row] = changed(model)
    assert (row.detail, row.percent) == ("seen first in the journal", 30.0)
    assert dict(model.journal.verdicts) == {"malformed": 1, "accepted": 1}
    # The record arrives later with the same event: nothing changes, nothing is shown twice.
    seq = row.seq
    writer.say(job, "progress", "seen first in the journal", percent=30)
    writer.say(job, "progress", "next")
    assert [found.seq for found in changed(model)] == [seq + 1]
    model.close()


def test_suppressed_refusals_are_counted(writer: FleetWriter) -> None:
    """In a flood one journal entry stands for many refusals: each counts under its own reason."""
    job = writer.start()
    writer.journal(job, b"x", verdict="malformed")
    model = new_model(writer.home)
    model.start()
    writer.journal(job, b'{"bad_signature": 40, "unsigned": 2}', verdict="suppressed")
    writer.journal(job, b"no object", verdict="suppressed")
    wait_for(lambda: model.refresh() is not None and sum(model.journal.verdicts.values()) == 42)
    assert dict(model.journal.verdicts) == {"bad_signature": 40, "unsigned": 2}
    model.close()


def test_journal_may_come_and_be_replaced(writer: FleetWriter) -> None:
    """A journal that appears later is followed; one that was made anew is noticed and followed."""
    job = writer.start()
    model = new_model(writer.home)
    model.start()
    assert model.journal.offset == -1
    _, payload = writer.next_event(job, "progress", "first")
    writer.journal(job, b"x", verdict="malformed")
    model.refresh()
    writer.journal(job, payload)
    assert changed(model)[0].detail == "first"
    before = model.journal.end.identity
    writer.close()
    shutil.rmtree(writer.home / "journal")
    other = FleetWriter(writer.home)
    other.journal(job, b"x", verdict="malformed")
    model.journal._warn = lambda _: None
    wait_for(lambda: model.refresh() is None or model.journal.end.identity not in {before, ""})
    other.close()
    model.close()


def test_time_alone_makes_a_job_stuck(tmp_path: Path) -> None:
    """A silent job becomes stuck at its limit without any event, and an event frees it."""
    clock = ManualClock()
    writer = FleetWriter(tmp_path / "home", clock=clock)
    job = writer.start()
    model = new_model(writer.home, clock=clock)
    model.start()
    clock.advance(299)
    assert not model.refresh()
    clock.advance(1)
    assert [row.group for row in model.refresh().rows] == ["stuck"]
    writer.say(job, "progress", "alive")
    assert [row.group for row in changed(model)] == ["running"]
    model.close()
    writer.close()


def test_finished_jobs_leave_the_page_but_failures_stay(tmp_path: Path) -> None:
    """Memory is bounded: old finished jobs go, recent failures do not."""
    clock = ManualClock()
    writer = FleetWriter(tmp_path / "home", clock=clock)
    failed = writer.start()
    writer.say(failed, "error", "broken")
    model = new_model(writer.home, clock=clock, keep=5)
    model.start()
    for _ in range(70):
        clock.advance(1)
        writer.say(writer.start(), "completed", "done")
    wait_for(lambda: model.refresh() is None or len(model.rows) < 60)
    assert failed in model.rows
    model.close()
    writer.close()


def test_purged_job_leaves_the_page(writer: FleetWriter) -> None:
    """A record that is removed takes its row with it."""
    job = writer.start()
    model = new_model(writer.home)
    model.start()
    Path(writer.store.record_path(job)).unlink()
    wait_for(lambda: model.refresh().gone == (job,))
    model.close()


@pytest.mark.parametrize("removed", [False, True])
def test_lost_watch_is_made_good(writer: FleetWriter, removed: bool) -> None:
    """When the directory goes away and comes back, moved or made anew, nothing stays unseen."""
    writer.start("kept")
    model = new_model(writer.home)
    model.start()
    jobs = Path(writer.store.jobs_path())
    if removed:
        shutil.rmtree(jobs)
        model.refresh()
        jobs.mkdir()
    else:
        jobs.rename(jobs.with_name("aside"))
        model.refresh()
        jobs.with_name("aside").rename(jobs)
    late = writer.start("late")
    wait_for(lambda: model.refresh() is None or late in model.rows)
    model.close()


def test_unreadable_record_is_reported_and_left_out(writer: FleetWriter) -> None:
    """A damaged record does not stop the page; the operator is told."""
    good, bad = writer.start("good"), writer.start("bad")
    path = Path(writer.store.record_path(bad))
    path.write_text("{")
    told: list[str] = []
    source = RecordSource(writer.store, warn=told.append, failed_seconds=86_400)
    assert set(source.read_all(source.job_ids())) == {good}


def test_many_finished_jobs_are_not_read(writer: FleetWriter) -> None:
    """The start reads open and recent jobs only, not the whole history of the registry."""
    for _ in range(30):
        writer.say(writer.start(), "completed", "done")
    running = writer.start("running")
    writer.queue.counts()
    source = RecordSource(writer.store, warn=_fail, failed_seconds=86_400, recent=10)
    ids = source.job_ids()
    assert running in ids
    assert len(ids) == 11


def test_history_of_a_job(writer: FleetWriter) -> None:
    """The history is given newest first, as text, without tokens."""
    job = writer.start("one")
    token = writer.store.get(job).auth_token
    writer.say(job, "progress", f"token {token}")
    model = new_model(writer.home)
    model.start()
    lines = model.source.history(job, 10)
    assert "progress" in lines[0]
    assert "[redacted]" in lines[0]
    assert "new -> pending" in lines[-1]
    assert token not in json.dumps(lines)
    model.close()


def test_home_that_does_not_exist_is_an_empty_fleet(tmp_path: Path) -> None:
    """Looking at a directory creates nothing in it."""
    model = new_model(tmp_path / "none")
    model.start()
    assert not model.refresh()
    assert model.rows == {}
    assert not os.path.lexists(tmp_path / "none")
    model.close()
