"""Killed at each call, taken up by the next process, and then the power goes.

What the first process had written and not flushed, the next one sees all the same: the kernel has it.
Whatever that one acknowledges must stand on the disk, also where it found it done and wrote nothing.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobwire.core.errors import ConflictError, NoWorkError, StoppedError
from jobwire.core.lease import LeaseGrant
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.signing import Draft
from jobwire.delivery.ticket_log import TicketEventLog
from jobwire.jobs.record import JobRecord
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.files import FileSystem
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, PowerCutFiles, StoppingFiles
from jobwire.testing.memory import memory_directory

ROWS = [Entry(i, "python/mqtt/jobs/00000000/events", b"%d" % i * 50, False, "accepted") for i in range(12)]
CLOCK = ManualClock()


Step = Callable[[Path, FileSystem], None]


def _lives(tmp_path: Path, prepare: Step, first: Step) -> Iterator[tuple[Path, PowerCutFiles]]:
    """Run `first` in a prepared home again and again, killed before its first call, its second, and so on."""
    step = 0
    while True:
        home, disk = tmp_path / f"{step}" / "home", PowerCutFiles()
        home.parent.mkdir()
        disk.sync_directory(home.parent)
        prepare(home, disk)
        files = StoppingFiles(stop_at=step, inner=disk)
        with contextlib.suppress(Crash):
            first(home, files)
        yield home, disk
        if step >= len(files.calls):
            return
        step += 1


def _power_cut(home: Path, disk: PowerCutFiles) -> Path:
    """Return what the disk holds of `home`, in another place."""
    after = home.parent.with_name(f"{home.parent.name}-after")
    disk.materialise(home.parent, after)
    return after / "home"


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a directory in memory where there is one: thousands of flushes belong on no disk."""
    with tempfile.TemporaryDirectory(dir=memory_directory() or tmp_path_factory.mktemp("x")) as name:
        yield Path(name)


def _nothing(home: Path, files: FileSystem) -> None:
    """Prepare nothing."""


def _journal(home: Path, files: FileSystem) -> None:
    RecordStore(home, files=files).make_layout()
    with JournalWriter(home / "journal", clock=CLOCK, files=files, segment_bytes=1000) as writer:
        for start in range(0, len(ROWS), 4):
            writer.append(ROWS[start : start + 4])
        Consumers(home / "journal", clock=CLOCK, files=files).register("fold", 0)


def test_the_next_writers_entries_are_kept(tmp_path: Path) -> None:
    """What is appended and committed after a kill outlives the power, whatever had been begun before."""
    for home, disk in _lives(tmp_path, _nothing, _journal):
        RecordStore(home, files=disk).make_layout()
        with JournalWriter(home / "journal", clock=CLOCK, files=disk, segment_bytes=1000) as writer:
            promised = writer.append(ROWS[:1])
        consumers = Consumers(home / "journal", clock=CLOCK, files=disk)
        consumers.register("fold", 0)
        committed = consumers.commit("fold", promised)
        after = _power_cut(home, disk) / "journal"
        with JournalWriter(after, clock=CLOCK, segment_bytes=1000) as writer:
            assert writer.next_offset >= promised
        with JournalReader(after) as reader:
            assert len(reader.read(0, max_rows=100)) >= promised
        assert {one.name: one.offset for one in Consumers(after).all()}["fold"] == committed


def _queue(home: Path, files: FileSystem) -> JobQueue:
    return JobQueue(RecordStore(home, clock=CLOCK, files=files), warn=pytest.fail)


def _register(queue: JobQueue) -> None:
    queue.register(JobSpec(idempotency_key="one"))


def _cancel(queue: JobQueue) -> None:
    queue.cancel(_only(queue).job_id)


def _release(queue: JobQueue) -> None:
    with contextlib.suppress(NoWorkError):
        queue.pick(LeaseGrant("me", 3600))
    with contextlib.suppress(StoppedError):
        queue.release(_only(queue).job_id, owner="me")


def _only(queue: JobQueue) -> JobRecord:
    return queue.store.get(next(iter(queue.store.job_ids())))


def _said(home: Path) -> list[tuple[str, int, list[object]]]:
    """Return what the home says of its jobs: status, attempt, and the states in the history."""
    store = RecordStore(home, clock=CLOCK)
    records = [store.get(job_id) for job_id in store.job_ids()]
    return [
        (str(one.status), one.attempt, [line.get("after") for line in store.audit(one.job_id).lines()])
        for one in records
    ]


@pytest.mark.parametrize("change", [_register, _cancel, _release])
def test_a_repeated_change_is_kept(tmp_path: Path, change: Callable[[JobQueue], None]) -> None:
    """Who repeats a change after a kill, and is told that it is done, finds it done after a power cut.

    A pick is no such change: whoever repeats it is told of another job, or of none.
    """

    def prepare(home: Path, disk: FileSystem) -> None:
        if change is not _register:
            _register(_queue(home, disk))

    def first(home: Path, files: FileSystem) -> None:
        change(_queue(home, files))

    for home, disk in _lives(tmp_path, prepare, first):
        change(_queue(home, disk))
        promised = _said(home)
        assert _said(_power_cut(home, disk)) == promised


def _home_log(home: Path, files: FileSystem) -> EventLog:
    store = RecordStore(home, clock=CLOCK, files=files)
    return HomeEventLog(store, next(iter(store.job_ids())), attempt=1)


def _ticket_log(home: Path, files: FileSystem) -> EventLog:
    return TicketEventLog(home / "job.ticket", clock=CLOCK, files=files)


def _open_home(home: Path, disk: FileSystem) -> None:
    """Make a home with one job and a ticket for it."""
    _register(_queue(home, disk))
    (home / "job.ticket").touch(0o600)
    descriptor = disk.open(home / "job.ticket")
    ticket = ticket_for(_only(_queue(home, disk)), broker={}, topic_root="python/mqtt/jobs")
    disk.write(descriptor, encode_ticket(ticket))
    disk.sync_all([descriptor])
    disk.close(descriptor)
    disk.sync_directory(home)


@pytest.mark.parametrize("events", [_home_log, _ticket_log])
def test_what_the_next_worker_says_is_kept(
    tmp_path: Path, events: Callable[[Path, FileSystem], EventLog]
) -> None:
    """An event that is kept after a kill is in the outbox after a power cut, with those before it."""

    def first(home: Path, files: FileSystem) -> None:
        events(home, files).append(Draft("started"))

    for home, disk in _lives(tmp_path, _open_home, first):
        worker = events(home, disk)
        with contextlib.suppress(ConflictError):
            worker.recover()
        draft = Draft("progress", "on") if worker.position().last_seq else Draft("started")
        entry = worker.append(draft)
        after = _power_cut(home, disk)
        (after / "locks").mkdir(exist_ok=True)
        (after / "job.ticket").chmod(0o600)
        left = events(after, PowerCutFiles())
        assert [one.seq for one in left.outbox.entries()] == list(range(1, entry.seq + 1))
