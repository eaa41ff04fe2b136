"""The folder: journal to records in batches, once in effect whatever interrupts it."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.core.errors import StorageError
from jobwire.core.override import override
from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.jobs.event import Event
from jobwire.jobs.fold import next_attempt
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.registry.backlog import CONFIRMATION_SECONDS
from jobwire.registry.folding import Folder
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views
from jobwire.registry.wire import WireAdmission
from jobwire.storage import file_lock
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, StoppingFiles

Say = Callable[..., tuple[Event, bytes]]
TOPICS = Topics()
_RECEIVED_US = 1_767_225_600_000_000


class Bench(NamedTuple):
    """A journal and what folds it."""

    store: RecordStore
    writer: JournalWriter
    folder: Folder
    views: Views
    folded: list[tuple[JobRecord | None, bool]]

    def journal(self, *said: tuple[Event, bytes], verdict: str = "accepted") -> None:
        """Put messages into the journal."""
        self.writer.append(
            [Entry(_RECEIVED_US, TOPICS.events(e.job_id), payload, False, verdict) for e, payload in said]
        )

    def again(self, store: RecordStore | None = None) -> "Bench":
        """Start anew on the same journal, as after a kill; perhaps on other files."""
        return _bench(store or self.store, self.writer)


def _bench(store: RecordStore, writer: JournalWriter) -> Bench:
    views = Views(store)
    folded: list[tuple[JobRecord | None, bool]] = []
    folder = Folder(
        store=store,
        views=views,
        topics=TOPICS,
        reader=JournalReader(writer.directory),
        durable_offset=lambda: writer.next_offset,
        consumers=Consumers(writer.directory, files=store.files),
        journal=writer.append,
        on_folded=lambda _, record, urgent: folded.append((record, urgent)),
    )
    return Bench(store, writer, folder, views, folded)


@pytest.fixture
def bench(store: RecordStore, clock: ManualClock, home: Path) -> Iterator[Bench]:
    """Give an empty journal beside the test's home."""
    with JournalWriter(home.parent / "journal", clock=clock) as writer:
        yield _bench(store, writer)


def _history(store: RecordStore, job: JobRecord) -> list[object]:
    return [line.get("seq") for line in store.audit(job.job_id).lines()]


def test_one_write_for_several_events(bench: Bench, job: JobRecord, say: Say) -> None:
    """A batch makes one new record a job, with every event in the history."""
    bench.journal(say(job, 1, "started"), say(job, 2, "progress"), say(job, 3, "completed"))
    assert bench.folder.step()
    record = bench.store.get(job.job_id)
    assert (record.status, record.last_seq, record.confirmed_seq) == (Status.COMPLETED, 3, 3)
    assert _history(bench.store, job) == [None, 1, 2, 3]
    assert bench.folded == [(record, True)]
    assert bench.folder.caught_up()
    assert not bench.folder.step()


def test_goes_on_at_the_committed_offset(bench: Bench, job: JobRecord, say: Say) -> None:
    """A new process begins where the last one committed."""
    bench.journal(say(job, 1, "started"))
    bench.folder.step()
    bench.folder.close()
    bench.journal(say(job, 2, "progress"))
    again = bench.again()
    assert again.folder.offset == 1
    again.folder.step()
    assert _history(bench.store, job) == [None, 1, 2]


def test_confirmation_of_local_progress_may_wait(
    bench: Bench, clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """Mere confirmations of what is in the record wait for company; terminal ones and others do not."""
    admit = WireAdmission(topics=TOPICS, views=bench.views)
    said = [say(job, 1, "started"), say(job, 2, "progress"), say(job, 3, "completed")]
    for number, (event, payload) in enumerate(said):
        bench.store.apply(job.job_id, event, payload, source="publisher")
        admit(Message(TOPICS.events(job.job_id), payload, False, 1, 1))
        bench.journal(said[number])
        bench.folder.step()
        if number == 0:
            assert bench.store.get(job.job_id).confirmed_seq == 0
            assert not bench.folder.caught_up()
            clock.advance(CONFIRMATION_SECONDS)
            bench.folder.step()
        assert bench.store.get(job.job_id).confirmed_seq == (1, 1, 3)[number]
    assert bench.folder.caught_up()


def test_busy_record_holds_up_nobody_else(bench: Bench, clock: ManualClock, job: JobRecord, say: Say) -> None:
    """A job whose lock is held waits by itself; the offset stays before its event until it is folded."""
    other = job._replace(job_id="ffffffff")
    bench.store.create(other)
    bench.journal(say(job, 1, "started"), say(other, 1, "started"))
    with file_lock.held(bench.store.lock_path(job.job_id), clock=clock, deadline_seconds=0, what="x"):
        bench.folder.step()
        assert bench.store.get(other.job_id).last_seq == 1
        assert bench.store.get(job.job_id).last_seq == 0
        assert bench.folder.offset == 0
    clock.advance(1)
    bench.folder.step()
    assert bench.store.get(job.job_id).last_seq == 1
    assert bench.folder.offset == 2


def test_tells_until_when_the_records_are_complete(
    bench: Bench, clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """What waits keeps the time back at which it was received, and nothing later; else it is now."""
    folder, received_at = bench.folder, _RECEIVED_US / 1e6
    clock.set_wall(received_at + 100)
    assert folder.complete_until() == clock.now()
    bench.journal(say(job, 1, "started"))
    assert folder.complete_until() == float("-inf")
    with file_lock.held(bench.store.lock_path(job.job_id), clock=clock, deadline_seconds=0, what="x"):
        folder.step()
        assert folder.complete_until() == received_at
    clock.advance(1)
    folder.step()
    assert folder.complete_until() == clock.now()
    bench.journal(say(job, 2, "progress"))
    assert folder.complete_until() == received_at


def test_foreign_and_unknown_entries_are_passed(bench: Bench, job: JobRecord, say: Say) -> None:
    """Jobs without a record, other topics and suppression notes do not stop the fold."""
    stranger = job._replace(job_id="00000000")
    bench.journal(say(stranger, 1, "started"), verdict="unknown_job")
    bench.writer.append([Entry(1, "$jobwire/suppressed", b"{}", False, "suppressed")])
    bench.folder.step()
    assert bench.folder.caught_up()


def test_torn_record_does_not_stop_the_fold(bench: Bench, job: JobRecord, say: Say) -> None:
    """A record that cannot be read goes to quarantine; the others are folded."""
    other = job._replace(job_id="ffffffff")
    bench.store.create(other)
    Path(bench.store.record_path(job.job_id)).write_bytes(b"{")
    bench.journal(say(job, 1, "started"), say(other, 1, "started"))
    bench.folder.step()
    assert bench.store.get(other.job_id).last_seq == 1
    assert bench.folder.caught_up()


def test_a_damaged_line_does_not_stop_the_fold(bench: Bench, job: JobRecord, say: Say) -> None:
    """A line of the history without a seq is passed over where the fold asks what the history holds."""
    bench.store.apply(job.job_id, *say(job, 1, "started"), source="publisher")
    with bench.store.locked(job.job_id) as locked:
        again = locked.replace(next_attempt(locked.record, "n" * 43, 0.0, "the test"), cause="the test")
    with Path(bench.store.audit(job.job_id).events_path).open("ab") as history:
        history.write(b'{"kind":"event","verdict":"accepted"}\n')
    bench.journal(say(again, 2, "started"))
    bench.folder.step(hurry=True)
    assert bench.store.get(job.job_id).last_seq == 2


def test_full_disk_is_waited_out(bench: Bench, clock: ManualClock, job: JobRecord, say: Say) -> None:
    """While the disk is full nothing is committed; with room again everything is folded once."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    bench.journal(say(job, 1, "started"))
    broken = RecordStore(bench.store.home, clock=clock, files=StoppingFiles(stop_at=4, act=full))
    again = bench.again(broken)
    again.folder.step()
    assert bench.store.get(job.job_id).last_seq == 0
    assert again.folder.offset == 0
    assert again.folded == [(None, True)], "nobody can tell how much was written: the state is to be read"
    clock.advance(5)
    again.folder.step()
    assert bench.store.get(job.job_id).last_seq == 1
    assert _history(bench.store, job) == [None, 1]


def test_place_that_cannot_be_committed_waits(
    bench: Bench, clock: ManualClock, job: JobRecord, say: Say
) -> None:
    """Where only the committed place has no room, folding goes on, and it is committed with room again."""

    class Full(SystemFiles):
        full = True

        @override
        def create(self, path: StrPath, mode: int) -> int:
            if self.full and "registry.json" in str(path):
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().create(path, mode)

    files = Full()
    folder = bench.again(RecordStore(bench.store.home, clock=clock, files=files)).folder
    bench.journal(say(job, 1, "started"))
    folder.step()
    assert bench.store.get(job.job_id).last_seq == 1
    consumers = Consumers(bench.writer.directory)
    with pytest.raises(StorageError):
        folder.commit()
    assert [one[:2] for one in consumers.all()] == [("registry", 0)]
    files.full = False
    folder.commit()
    assert [one[:2] for one in consumers.all()] == [("registry", 1)]


@pytest.mark.parametrize("torn", [False, True])
def test_stopped_at_every_call(
    bench: Bench, clock: ManualClock, job: JobRecord, say: Say, torn: bool
) -> None:
    """Killed before any system call of a batch, the next process folds it once, history included."""
    jobs = [job, job._replace(job_id="ffffffff")]
    bench.store.create(jobs[1])
    bench.journal(*(say(one, 1, "started") for one in jobs))
    stop_at, seq, finished = 0, 1, False
    while not finished:
        files = StoppingFiles(stop_at=stop_at, torn=torn)
        stopped = bench.again(RecordStore(bench.store.home, clock=clock, files=files))
        try:
            stopped.folder.step()
        except Crash:
            pass
        else:
            finished = True
        again = bench.again()
        while not again.folder.caught_up():
            again.folder.step()
        again.folder.close()
        for one in jobs:
            assert bench.store.get(one.job_id).confirmed_seq == seq
            assert _history(bench.store, one) == [None, *range(1, seq + 1)]
        stop_at, seq = stop_at + 1, seq + 1
        bench.journal(*(say(one, seq, "progress") for one in jobs))
    assert stop_at > 10
