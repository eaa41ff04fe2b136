"""Taking an event stopped at every system call: one home for each."""

import errno
import tempfile
from pathlib import Path

import pytest

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import StorageError
from jobwire.delivery.signing import Draft
from jobwire.jobs.record import JobRecord
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, StoppingFiles
from jobwire.testing.memory import memory_directory

JOB = "0a1b2c3d"
STARTED, PROGRESS, COMPLETED = Draft("started"), Draft("progress", "x"), Draft("completed", "done")


def _home(folder: str, clock: ManualClock) -> RecordStore:
    store = RecordStore(Path(folder, "home"), clock=clock)
    now = utc_timestamp(clock.now())
    store.create(JobRecord(JOB, "t" * 43, now, now))
    HomeEventLog(store, JOB, attempt=1).append(STARTED)
    return store


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("draft", [PROGRESS, COMPLETED])
def test_a_crash_at_any_call_loses_nothing_and_doubles_nothing(
    draft: Draft,
    torn: bool,  # a table's column
) -> None:
    """Killed before any system call of taking an event: afterwards it is there once, or not at all."""
    clock, step, finished = ManualClock(), 0, False
    while not finished:
        with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
            store = _home(folder, clock)
            files = StoppingFiles(stop_at=step, torn=torn)
            try:
                HomeEventLog(RecordStore(store.home, clock=clock, files=files), JOB, attempt=1).append(draft)
                finished = True
            except Crash:
                pass
            events = HomeEventLog(store, JOB, attempt=1)
            position = events.recover()
            assert position.last_seq in {1, 2}
            assert [entry.seq for entry in events.outbox.entries()] == list(range(1, position.last_seq + 1))
            history = [line["seq"] for line in store.audit(JOB).lines() if line["kind"] == "event"]
            assert history == list(range(1, position.last_seq + 1)) or history == [1, 2]
            if position.last_seq == 1 or draft is PROGRESS:
                assert events.append(PROGRESS).seq == position.last_seq + 1
            else:
                assert store.get(JOB).status == "completed"
            step += 1
    assert step > 6


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_leaves_the_job_as_it_was(number: int) -> None:
    """At whichever call the disk refuses, the event is in both places or in none, and it is said.

    Only a copy for scripts may fail unsaid; and a flush that failed is said although the event is in.
    """

    def refuse() -> None:
        raise OSError(number, "refused")

    refusals: list[str] = []
    clock, step = ManualClock(), 0
    while True:
        with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
            store = _home(folder, clock)
            files = StoppingFiles(stop_at=step, act=refuse)
            events = HomeEventLog(RecordStore(store.home, clock=clock, files=files), JOB, attempt=1)
            seq = 2
            try:
                assert events.append(COMPLETED).seq == seq
                assert step >= len(files.calls) or "status.json" in files.calls[step]
            except StorageError:
                refusals.append(files.calls[step])
                seq = 2 if files.calls[step] == "sync_directory jobs" else 1
            whole = HomeEventLog(store, JOB, attempt=1)
            assert whole.position().last_seq == whole.outbox.last_seq == seq
            if step >= len(files.calls):
                break
            step += 1
    assert len(refusals) > 4
    assert "sync_directory jobs" in refusals
