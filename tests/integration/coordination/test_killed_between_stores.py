"""A change that crosses the store and a job's record, stopped at every step of both."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.coordination import reading, sending
from jobwire.coordination.marks import behind, catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock
from jobwire.testing.broken_disks import Crash, StoppingFiles
from jobwire.testing.memory import memory_directory
from jobwire.testing.stopping_store import StoppingStore

TASK = NewMessage("lead", ("builder",), kind="task", subject="fix it", body="now")
WORDS = NewMessage("builder", kind="progress", id="op", summary="said", body="b" * 5000)
_ENDED = {"done": "done", "fail": "failed", "cancel": "cancelled", "update": "in_progress"}
Act = Callable[[ThreadWork, str], object]


def _act(verb: str) -> Act:
    if verb == "cancel":
        return lambda work, thread: work.cancel(thread, "stop", message_id="op")
    if verb == "update":
        return lambda work, thread: work.update(WORDS._replace(thread_id=thread), "in_progress")
    return lambda work, thread: getattr(work, verb)(WORDS._replace(thread_id=thread))


def _claimed(home: str, clock: ManualClock) -> str:
    store = CoordinationStore(home, clock=clock)
    thread = sending.send(store, TASK).thread_id
    ThreadWork(store, "builder", environ={}).claim(thread)
    store.close()
    return thread


def _stopped(home: str, clock: ManualClock, act: Act, thread: str, *, call: int, commit: int) -> bool:
    """Tell whether the verb was stopped: before that call of the file system, or after that commit."""
    store = StoppingStore(home, clock=clock, stop_after=commit)
    work = ThreadWork(store, "builder", environ={})
    work.records = RecordStore(home, clock=clock, files=StoppingFiles(stop_at=call))
    try:
        act(work, thread)
    except Crash:
        return True
    finally:
        store.close()
    return False


@pytest.mark.parametrize("verb", sorted(_ENDED))
def test_what_was_said_is_there_once_or_not_at_all(verb: str, tmp_path: Path) -> None:
    """Killed anywhere, the next command finishes it: message, record and thread agree; it can be repeated."""
    clock, act = ManualClock(), _act(verb)
    thread = _claimed(str(tmp_path), clock)
    outcomes = set()
    for kind in ("call", "commit"):
        step, stopped = 0, True
        while stopped:
            step += 1
            with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
                home = shutil.copytree(tmp_path, Path(folder, "home"))
                numbers = {"call": 10_000, "commit": 10_000, kind: step}
                stopped = _stopped(str(home), clock, act, thread, **numbers)
                outcomes.add(_agreed(str(home), clock, act, thread, verb))
        assert step > 2
    assert outcomes == {"said", "not said"}


def _agreed(home: str, clock: ManualClock, act: Act, thread: str, verb: str) -> str:
    store = CoordinationStore(home, clock=clock)
    catch_up(store)
    assert not behind(store)
    said = [one for one in reading.messages_of(store, thread) if one.id == "op"]
    status = reading.thread_of(store, thread).status
    assert status == (_ENDED[verb] if said else status)
    assert len(reading.messages_of(store, thread)) == 1 + len(said)
    work = ThreadWork(store, "builder", environ={})
    record = work.records.get(str(reading.thread_of(store, thread).job_id))
    assert record.terminal == (status in {"done", "failed", "cancelled"})
    act(work, thread)  # once more: said now, or known
    assert [one.id for one in reading.messages_of(store, thread)].count("op") == 1
    assert reading.thread_of(store, thread).status == _ENDED[verb]
    store.close()
    return "said" if said else "not said"


def test_a_claim_that_was_killed_is_the_claimers_own(tmp_path: Path) -> None:
    """Killed anywhere in a claim, the thread has one job at most, and the claimer gets it again."""
    clock, step, stopped = ManualClock(), 0, True
    store = CoordinationStore(str(tmp_path), clock=clock)
    thread = sending.send(store, TASK._replace(to=())).thread_id
    store.close()
    while stopped:
        step += 1
        with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
            home = str(shutil.copytree(tmp_path, Path(folder, "home")))
            stopped = _stopped(
                home, clock, lambda work, name: work.claim(name), thread, call=step, commit=10_000
            )
            store = CoordinationStore(home, clock=clock)
            made = list(RecordStore(home, clock=clock).job_ids())
            other = ThreadWork(store, "other", environ={})
            if made:
                with pytest.raises(ConflictError):
                    other.claim(thread)
                assert ThreadWork(store, "builder", environ={}).claim(thread).token.job_id == made[0]
            else:
                other.claim(thread)
            assert len(list(RecordStore(home).job_ids())) == 1
            store.close()
    assert step > 4
