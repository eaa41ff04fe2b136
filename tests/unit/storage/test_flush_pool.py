"""Helping threads: every file is done once, errors come back, and nothing depends on help."""

import errno
import threading
from collections import Counter

import pytest

from jobwire.storage.flush_pool import FlushPool


@pytest.mark.parametrize("count", [0, 1, 2, 3, 200])
def test_each_once(count: int) -> None:
    """Every descriptor is given to the function once, first call or later, with few or many."""
    pool, done = FlushPool(most=4), Counter[int]()
    for _ in range(3):
        pool.each(lambda number: done.update([number]), range(count))
    assert done == Counter(dict.fromkeys(range(count), 3))


def test_one_small_change_starts_no_thread() -> None:
    """A command that makes one change pays for no thread."""
    pool, threads = FlushPool(), set[int]()
    pool.each(lambda _: threads.add(threading.get_ident()), [1, 2])
    assert threads == {threading.get_ident()}


def test_one_file_is_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is woken for a single call, however many there were before."""
    monkeypatch.setattr(threading.Thread, "start", pytest.fail)
    pool, done = FlushPool(), list[int]()
    for number in range(5):
        pool.each(done.append, [number])
    assert done == [0, 1, 2, 3, 4]


def test_calls_overlap() -> None:
    """Several calls wait at the same time: each of these ends only when all have begun."""
    barrier = threading.Barrier(4)
    FlushPool(most=4).each(lambda _: _meet(barrier), range(4))


def _meet(barrier: threading.Barrier) -> None:
    barrier.wait(60)


def test_first_error_is_raised_after_all_calls() -> None:
    """An error of one file does not keep the others from being flushed, and is not lost."""
    done = []

    def flush(number: int) -> None:
        if number == 3:
            raise OSError(errno.ENOSPC, "full")
        done.append(number)

    with pytest.raises(OSError, match="full"):
        FlushPool(most=2).each(flush, range(20))
    assert sorted(done) == [number for number in range(20) if number != 3]


def test_block_runs_meanwhile_and_its_error_wins() -> None:
    """What the block raises is raised, after the calls have ended."""
    done: list[int] = []
    with pytest.raises(KeyError), FlushPool().meanwhile(done.append, range(9)):
        raise KeyError
    assert sorted(done) == list(range(9))


def test_without_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started, the caller does it all."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    FlushPool().each(done.append, range(9))
    assert done == list(range(9))


def test_many_callers() -> None:
    """Threads that share the pool get their own work done."""
    pool, total = FlushPool(most=3), Counter[int]()
    guard = threading.Lock()

    def flush(number: int) -> None:
        with guard:
            total[number] += 1

    callers = [threading.Thread(target=pool.each, args=[flush, range(50)]) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert total == Counter(dict.fromkeys(range(50), 6))
