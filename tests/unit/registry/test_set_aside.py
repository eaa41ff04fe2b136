"""Jobs that cannot be read or folded: nothing of theirs is lost, and nobody waits for them."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.journal.consumers import Consumers
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.registry.queue import JobQueue
from jobwire.registry.set_aside import KEEP_SECONDS
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage import file_lock
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing import ManualClock

if TYPE_CHECKING:
    Registry = Any  # conftest.Registry: test folders are no packages

Say = Callable[..., tuple[Event, bytes]]


@contextmanager
def _unreadable(store: RecordStore, job: JobRecord) -> Iterator[None]:
    """Make reading the record fail, for root as well (EISDIR stands for EIO and EACCES), and well again."""
    path = Path(store.record_path(job.job_id))
    kept = path.with_suffix(".kept")
    path.rename(kept)
    path.mkdir()
    yield
    path.rmdir()
    kept.rename(path)


def _other(store: RecordStore, job: JobRecord) -> JobRecord:
    other = job._replace(job_id="ffffffff")
    store.create(other)
    return other


def _history(store: RecordStore, job: JobRecord) -> list[tuple[object, object]]:
    lines = store.audit(job.job_id).lines()
    return [(line["verdict"], line["seq"]) for line in lines if line["kind"] == "event"]


def _held_back(registry: "Registry") -> dict[str, int]:
    return {known.name: known.offset for known in Consumers(registry.writer.directory).all()}


def _wait(registry: "Registry", clock: ManualClock, seconds: float = 120) -> None:
    clock.advance(seconds)
    registry.fold()


# Messages of a job whose record cannot be read now.


def test_genuine_event_of_an_unreadable_job(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """It is kept undecided, so that it may be acknowledged, and counts in full when it can be judged."""
    said = [say(job, 1, "started"), say(job, 2, "progress"), say(job, 3, "completed")]
    with _unreadable(registry.store, job):
        judged = [registry.hear(*one) for one in said]
        assert [(one.verdict, one.keep) for one in judged] == [("undecided", True)] * 3
        registry.fold()
    _wait(registry, clock)
    record = registry.store.get(job.job_id)
    assert (record.status, record.last_seq, record.confirmed_seq) == (Status.COMPLETED, 3, 3)
    assert _history(registry.store, job) == [("accepted", 1), ("accepted", 2), ("accepted", 3)]
    verdicts = [(row.verdict, row.payload) for row in registry.journaled()]
    assert verdicts[3:] == [("accepted", payload) for _, payload in said], "other readers count them"
    assert [registry.hear(*one).verdict for one in said] == ["duplicate"] * 3


def test_what_comes_after_waits_for_what_came_before(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """No event is judged before an earlier one, though the record can be read again."""
    with _unreadable(registry.store, job):
        registry.hear(*say(job, 1, "started"))
    assert registry.hear(*say(job, 2, "progress")).verdict == "undecided"
    registry.fold()
    assert registry.hear(*say(job, 3, "progress")).verdict == "accepted"
    with _unreadable(registry.store, job):
        registry.fold()
        assert registry.hear(*say(job, 4, "progress")).verdict == "undecided"
        registry.fold()
    assert registry.hear(*say(job, 5, "progress")).verdict == "undecided"
    _wait(registry, clock)
    assert registry.store.get(job.job_id).confirmed_seq == 5
    assert registry.hear(*say(job, 6, "completed")).verdict == "accepted"


def test_forgeries_are_found_when_they_can_be(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """Kept undecided is not accepted: what nobody signed changes nothing, and stands in the history."""
    forged = say(job._replace(auth_token="f" * 43), 1, "started")
    genuine = say(job, 1, "started")
    with _unreadable(registry.store, job):
        for one in (forged, genuine, genuine):
            assert registry.hear(*one).verdict == "undecided"
        registry.fold()
    _wait(registry, clock)
    assert registry.store.get(job.job_id).last_seq == 1
    assert _history(registry.store, job) == [("bad_signature", 1), ("accepted", 1)]


def test_undecided_events_of_a_publisher_on_this_disk(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """What record and history have already is confirmed, once."""
    said = [say(job, 1, "started"), say(job, 2, "progress")]
    for one in said:
        registry.store.apply(job.job_id, *one, source="publisher")
    with _unreadable(registry.store, job):
        for one in said:
            registry.hear(*one)
    _wait(registry, clock)
    assert registry.store.get(job.job_id).confirmed_seq == 2
    assert _history(registry.store, job) == [("accepted", 1), ("accepted", 2)]


def test_only_what_is_absent_is_unknown(registry: "Registry", job: JobRecord, say: Say) -> None:
    """A job without a record is unknown; one whose record stands in quarantine is not."""
    assert registry.hear(*say(job._replace(job_id="00000000"), 1, "started")).verdict == "unknown_job"
    Path(registry.store.record_path(job.job_id)).write_bytes(b"{")
    assert registry.hear(*say(job, 1, "started")).verdict == "undecided"
    registry.fold()
    assert not registry.store.exists(job.job_id)
    again = registry.again()
    assert again.hear(*say(job, 2, "progress")).verdict == "undecided"


def test_a_flood_about_unknown_jobs_lists_no_folder(
    registry: "Registry", job: JobRecord, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many stand in quarantine, a message about an unknown job costs a look at the folder's time."""
    folder = Path(registry.store.jobs_path(), "quarantine")
    folder.mkdir()
    (folder / f"{job.job_id}.1.json").write_bytes(b"{")
    os.utime(folder, (1, 1))
    stranger = job._replace(job_id="00000000")
    registry.hear(*say(stranger, 1, "started"))
    monkeypatch.setattr("jobwire.registry.quarantine.find", lambda *_: pytest.fail("listed again"))
    assert {registry.hear(*say(stranger, seq, "started")).verdict for seq in range(1, 9)} == {"unknown_job"}


def test_a_stranger_cannot_fill_the_disk(
    registry: "Registry", job: JobRecord, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept unjudged of one job is bounded; the rest is a matter of the budget for evidence."""
    monkeypatch.setattr("jobwire.registry.views.MAX_UNDECIDED_BYTES", 1000)
    with _unreadable(registry.store, job):
        kept = [registry.hear(*say(job, 1, "started")).keep for _ in range(9)]
    assert kept[0]
    assert not kept[-1]


# Jobs that cannot be folded.


def test_unreadable_record_holds_up_nobody(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say, caplog: pytest.LogCaptureFixture
) -> None:
    """Its events wait in the journal, over a restart; the others are folded, and leases go by them."""
    other = _other(registry.store, job)
    assert registry.hear(*say(job, 1, "started")).verdict == "accepted"
    with _unreadable(registry.store, job):
        registry.hear(*say(other, 1, "started"))
        registry.fold()
        assert registry.store.get(other.job_id).last_seq == 1
        assert registry.folder.complete_until() == clock.now()
        assert list(registry.folder.put_off()) == [job.job_id]
        registry.folder.close()
        assert _held_back(registry) == {"registry": 2, f"registry-{job.job_id}": 0}
        for _ in range(20):
            _wait(registry, clock)
        assert len([record for record in caplog.records if "set aside" in record.message]) == 1
        again = registry.again()
        assert again.hear(*say(job, 2, "completed"), retain=True).verdict == "undecided"
        again.fold()
    _wait(again, clock)
    assert again.folder.put_off() == {}
    assert list(_held_back(registry)) == ["registry"]
    assert _history(registry.store, job) == [("accepted", 1), ("accepted", 2)]
    assert registry.store.get(job.job_id).status is Status.COMPLETED


def test_it_is_tried_ever_more_seldom(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a second to a minute: neither a long wait at first nor a look each second for days."""
    looks: list[float] = []
    registry.hear(*say(job, 1, "started"))
    with _unreadable(registry.store, job):
        registry.fold()
        get = RecordStore.get

        def look(store: RecordStore, job_id: str) -> JobRecord:
            looks.append(clock.monotonic())
            return get(store, job_id)

        monkeypatch.setattr(RecordStore, "get", look)
        for _ in range(300):
            clock.advance(1)
            registry.folder.step()
    pauses = [round(after - before) for before, after in pairwise(looks)]
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_lock_that_is_kept(registry: "Registry", clock: ManualClock, job: JobRecord, say: Say) -> None:
    """Who was stopped with a record's lock keeps up that job alone; its messages are judged meanwhile."""
    other = _other(registry.store, job)
    registry.hear(*say(job, 1, "started"))
    with file_lock.held(registry.store.lock_path(job.job_id), clock=clock, deadline_seconds=0, what="x"):
        for _ in range(8):
            registry.folder.step()
            clock.advance(1)
        assert f"process {os.getpid()}" in registry.folder.put_off()[job.job_id]
        assert registry.hear(*say(job, 2, "progress")).verdict == "accepted"
        registry.hear(*say(other, 1, "started"))
        registry.fold()
        assert registry.folder.caught_up()
    _wait(registry, clock)
    assert registry.store.get(job.job_id).confirmed_seq == 2


def test_a_record_that_comes_back_from_quarantine(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """What was said while it stood there is folded when it was put right and moved back."""
    path = Path(registry.store.record_path(job.job_id))
    good = path.read_bytes()
    registry.hear(*say(job, 1, "started"))
    path.write_bytes(good[:50])
    registry.fold()
    registry.hear(*say(job, 2, "progress"))
    registry.fold()
    assert not path.exists()
    path.write_bytes(good)
    _wait(registry, clock)
    assert registry.store.get(job.job_id).confirmed_seq == 2


def test_a_later_version_is_left_to_a_later_program(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """A record of a later schema version is put off and stays as it is."""
    path = Path(registry.store.record_path(job.job_id))
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"schema_version": 1', b'"schema_version": 2'))
    assert registry.hear(*say(job, 1, "started")).verdict == "undecided"
    registry.fold()
    assert "schema version 2" in registry.folder.put_off()[job.job_id]
    path.write_bytes(good)
    _wait(registry, clock)
    assert registry.store.get(job.job_id).last_seq == 1


def test_one_job_that_cannot_be_written(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """Of many that are written together, one that fails is put off alone, and folded once later."""

    class Failing(SystemFiles):
        fails = True

        @override
        def create(self, path: StrPath, mode: int) -> int:
            if self.fails and job.job_id in str(path) and "json" in str(path) and "registry" not in str(path):
                raise OSError(errno.EIO, "Input/output error")
            return super().create(path, mode)

    files = Failing()
    again = registry.again(RecordStore(registry.store.home, clock=clock, files=files))
    others = [job._replace(job_id=f"{number:08x}") for number in range(5)]
    for one in others:
        registry.store.create(one)
    for one in (job, *others):
        again.hear(*say(one, 1, "started"))
    again.fold()
    assert [registry.store.get(one.job_id).last_seq for one in (job, *others)] == [0, 1, 1, 1, 1, 1]
    assert list(again.folder.put_off()) == [job.job_id]
    files.fails = False
    _wait(again, clock)
    assert [_history(registry.store, one) for one in (job, *others)] == [[("accepted", 1)]] * 6


def test_much_that_waited_is_taken_in_by_and_by(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long journal is read in parts, between which the others get their turn."""
    monkeypatch.setattr("jobwire.registry.folding._CATCH_UP_ROWS", 3)
    other = _other(registry.store, job)
    registry.hear(*say(job, 1, "started"))
    with _unreadable(registry.store, job):
        for seq in range(1, 11):
            registry.hear(*say(other, seq, "started" if seq == 1 else "progress"))
            if seq > 1:
                registry.hear(*say(job, seq, "progress"))
            registry.fold()
    clock.advance(60)
    steps = 0
    while registry.folder.put_off():
        steps += 1
        registry.folder.step()
    assert steps > 5
    registry.fold()
    assert [registry.store.get(one.job_id).confirmed_seq for one in (job, other)] == [10, 10]


def test_the_journal_is_not_kept_for_ever(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say, caplog: pytest.LogCaptureFixture
) -> None:
    """After a week nothing is kept for it any more, which is said."""
    registry.hear(*say(job, 1, "started"))
    with _unreadable(registry.store, job):
        registry.fold()
        registry.folder.close()
        _wait(registry, clock, KEEP_SECONDS - 100)
        assert f"registry-{job.job_id}" in _held_back(registry)
        _wait(registry, clock, 200)
    assert f"registry-{job.job_id}" not in _held_back(registry)
    assert "could not be folded for 7 days" in caplog.text


def test_retention_waits_for_it(registry: "Registry", clock: ManualClock, job: JobRecord, say: Say) -> None:
    """No segment goes that it needs, and the report names it."""
    registry.hear(*say(job, 1, "started"))
    with _unreadable(registry.store, job):
        registry.fold()
        registry.folder.close()
        clock.advance(2 * 3600)
        registry.writer.roll_if_due()
        clock.advance(1)
        retention = Retention(registry.writer.directory, clock=clock, limits=RetentionPolicy(keep_seconds=0))
        assert retention.prune().held_by == f"registry-{job.job_id}"
    _wait(registry, clock)
    assert registry.store.get(job.job_id).last_seq == 1


def test_where_everything_fails_nothing_is_passed(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more jobs than can be set aside the rest keep the fold where it stands, and are folded later."""
    monkeypatch.setattr("jobwire.registry.set_aside.MOST_JOBS", 1)
    other = _other(registry.store, job)
    with _unreadable(registry.store, job), _unreadable(registry.store, other):
        registry.hear(*say(job, 1, "started"))
        registry.hear(*say(other, 1, "started"))
        for _ in range(3):
            registry.folder.step(hurry=True)
            clock.advance(1)
        assert registry.folder.offset == 1
        assert not registry.folder.caught_up()
    _wait(registry, clock)
    assert [registry.store.get(one.job_id).last_seq for one in (job, other)] == [1, 1]


def test_purged_while_it_waited(registry: "Registry", clock: ManualClock, job: JobRecord, say: Say) -> None:
    """A job that is gone is waited for no more."""
    registry.hear(*say(job, 1, "started"))
    with _unreadable(registry.store, job):
        registry.fold()
    Path(registry.store.record_path(job.job_id)).unlink()
    shutil.rmtree(registry.store.log_dir(job.job_id))
    _wait(registry, clock)
    assert registry.folder.put_off() == {}
    assert list(_held_back(registry)) == ["registry"]


def test_consumer_removed_by_hand(registry: "Registry", clock: ManualClock, job: JobRecord, say: Say) -> None:
    """`journal consumers remove` lets the journal go; what is still there is folded all the same."""
    registry.hear(*say(job, 1, "started"))
    with _unreadable(registry.store, job):
        registry.fold()
    Consumers(registry.writer.directory).remove(f"registry-{job.job_id}")
    _wait(registry, clock)
    assert registry.folder.put_off() == {}
    assert registry.store.get(job.job_id).last_seq == 1


def test_unread_history_is_no_reason_to_end(
    registry: "Registry", clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """Where the history cannot be read the job waits as well: gaps, admission and fold."""
    registry.hear(*say(job, 1, "started"))
    registry.fold()
    events = Path(registry.store.audit(job.job_id).events_path)
    kept = events.with_suffix(".kept")
    events.rename(kept)
    events.mkdir()
    again = registry.again()
    assert again.hear(*say(job, 3, "progress")).verdict == "undecided"
    again.repair(job.job_id, range(2, 3))
    again.fold()
    assert list(again.folder.put_off()) == [job.job_id]
    events.rmdir()
    kept.rename(events)
    _wait(again, clock)
    assert registry.store.get(job.job_id).last_seq == 3


def test_no_lease_runs_out_meanwhile(queue: JobQueue, clock: ManualClock) -> None:
    """A job whose signs of life wait in the journal is left alone by the reaper until they are folded."""
    queue.register(JobSpec())
    job = queue.pick(LeaseGrant("me", 60))
    clock.advance(100)
    assert queue.reap(skip={job.job_id}) == []
    clock.advance(5)
    assert [item.record.job_id for item in queue.reap()] == [job.job_id]


def test_journal_can_be_read_by_all(registry: "Registry", job: JobRecord, say: Say) -> None:
    """An undecided entry is one like any other for those who read the journal."""
    with _unreadable(registry.store, job):
        registry.hear(*say(job, 1, "started"))
    with JournalReader(registry.writer.directory) as reader:
        assert [row.verdict for row in reader.read(0)] == ["undecided"]
