"""Locks: who is kept out, who is named, and what ends them."""

import os
import threading
from pathlib import Path

import pytest

from jobwire.core.clock import SystemClock
from jobwire.storage import file_lock
from jobwire.storage.file_lock import LockTimeoutError
from jobwire.testing import ManualClock


def test_deadline_names_the_holder(tmp_path: Path) -> None:
    """Waiting ends at the deadline with an error that names the holder's pid, also within one process."""
    path, clock = tmp_path / "x.lock", ManualClock()
    with file_lock.held(path, clock=clock, deadline_seconds=1, what="job x"):
        with pytest.raises(LockTimeoutError) as caught:
            file_lock.acquire(path, clock=clock, deadline_seconds=10, what="job x")
        assert caught.value.facts["pid"] == os.getpid()
        assert f"process {os.getpid()}" in caught.value.message
    assert sum(clock.slept) == pytest.approx(10)


def test_free_after_the_block(tmp_path: Path) -> None:
    """Leaving the block frees the lock, by an exception too."""
    path = tmp_path / "x.lock"
    with (
        pytest.raises(RuntimeError),
        file_lock.held(path, clock=SystemClock(), deadline_seconds=0, what="x"),
    ):
        raise RuntimeError
    descriptor = file_lock.try_acquire(path)
    assert descriptor is not None
    file_lock.release(descriptor)


def test_another_descriptor_does_not_drop_it(tmp_path: Path) -> None:
    """Opening and closing the lock file elsewhere in the process leaves the lock (classic fcntl drops it)."""
    path = tmp_path / "x.lock"
    with file_lock.held(path, clock=SystemClock(), deadline_seconds=0, what="x"):
        path.read_bytes()
        assert file_lock.try_acquire(path) is None


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    """Eight threads that each add to an unguarded number lose none."""
    path, total = tmp_path / "x.lock", [0]

    def work() -> None:
        for _ in range(20):
            with file_lock.held(path, clock=SystemClock(), deadline_seconds=20, what="x"):
                before = total[0]
                os.sched_yield()
                total[0] = before + 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total[0] == 160


def test_removed_lock_file_does_not_split_the_lock(tmp_path: Path) -> None:
    """Whoever opened the file before a purge removed it takes the lock of the new file, not of the old."""
    path = tmp_path / "x.lock"
    first = file_lock.try_acquire(path)
    assert first is not None
    path.unlink()
    second = file_lock.try_acquire(path)
    assert second is not None
    assert os.fstat(second).st_ino == path.stat().st_ino
    file_lock.release(first)
    assert file_lock.try_acquire(path) is None
    file_lock.release(second)


def test_lock_takes_no_space(tmp_path: Path) -> None:
    """The holder is known without a byte in the lock file, and nobody is named for a free one."""
    path = tmp_path / "x.lock"
    assert file_lock.holder_pid(path) is None
    with file_lock.held(path, clock=SystemClock(), deadline_seconds=0, what="x"):
        assert file_lock.holder_pid(path) == os.getpid()
        assert path.stat().st_size == 0
    assert file_lock.holder_pid(path) is None
