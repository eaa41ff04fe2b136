"""Waiting for answers, activity and named events in a real store: nothing is missed, and time ends it."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import mark_read
from jobwire.coordination.waiting import Waited, wait_pattern, wait_reply, watch
from jobwire.core.errors import InvalidInputError, NotFoundError

_LONG = 60.0


@pytest.fixture
def store(tmp_path: Path) -> CoordinationStore:
    """Give an empty store."""
    return CoordinationStore(str(tmp_path))


def _say(store: CoordinationStore, sender: str, to: str, kind: str = "progress", **more: object) -> int:
    new = NewMessage(sender, (to,) if to else (), kind, summary=f"{kind} of {sender}")
    return send(store, new._replace(**more)).event_id  # type: ignore[arg-type]  # as written in the test


def _asked(store: CoordinationStore) -> str:
    sent = send(store, NewMessage("worker", ("lead",), "question", summary="which port?"))
    return sent.thread_id


def _in_the_background(waiting: Callable[[], Waited]) -> tuple[threading.Thread, list[Waited]]:
    found: list[Waited] = []
    thread = threading.Thread(target=lambda: found.append(waiting()))
    thread.start()
    return thread, found


def _reply(store: CoordinationStore, thread_id: str, seconds: float = _LONG, **more: object) -> Waited:
    return wait_reply(store, agent="worker", thread_id=thread_id, seconds=seconds, **more)  # type: ignore[arg-type]


def test_an_answer_that_came_before_the_wait_is_found(store: CoordinationStore) -> None:
    """Later than my last question counts, not later than my own progress or the start of the wait."""
    thread_id = _asked(store)
    answer = _say(store, "lead", "worker", "answer", thread_id=thread_id)
    _say(store, "worker", "", "progress", thread_id=thread_id)
    waited = _reply(store, thread_id)
    assert waited.found is not None
    assert (waited.found.seq, waited.next_event_id) == (answer, answer)


def test_an_answer_to_an_earlier_question_is_not_taken_for_this_ones(store: CoordinationStore) -> None:
    """What came before my last question is no answer to it."""
    thread_id = _asked(store)
    _say(store, "lead", "worker", "answer", thread_id=thread_id)
    question = _say(store, "worker", "lead", "question", thread_id=thread_id)
    assert _reply(store, thread_id, 0.01) == Waited(None, question)


def test_a_wait_is_woken_by_the_answer(store: CoordinationStore) -> None:
    """A reply from another thread of control ends the wait; other threads' messages do not."""
    thread_id = _asked(store)
    thread, found = _in_the_background(lambda: _reply(store, thread_id))
    _say(store, "lead", "worker", "answer")
    answer = _say(store, "lead", "worker", "answer", thread_id=thread_id)
    thread.join(_LONG)
    assert found[0].next_event_id == answer


def test_a_cursor_goes_before_everything(store: CoordinationStore) -> None:
    """`--after-event` and `--after-message` find what lies behind them, and the next cursor goes on there."""
    thread_id = _asked(store)
    first = send(store, NewMessage("lead", ("worker",), "answer", thread_id=thread_id, summary="one"))
    second = _say(store, "lead", "worker", "answer", thread_id=thread_id)
    assert _reply(store, thread_id, after=0).next_event_id == first.event_id
    assert _reply(store, thread_id, after=first.event_id).next_event_id == second
    assert _reply(store, thread_id, after_message=first.message_id).next_event_id == second
    assert _reply(store, thread_id, 0.01, after=second) == Waited(None, second)


def test_only_the_kinds_that_are_wanted_wake(store: CoordinationStore) -> None:
    """Without kinds everything that is not from me counts; with kinds the others are passed over."""
    thread_id = _asked(store)
    progress = _say(store, "lead", "worker", "progress", thread_id=thread_id)
    control = _say(store, "lead", "worker", "control", thread_id=thread_id)
    assert _reply(store, thread_id).next_event_id == progress
    assert _reply(store, thread_id, kinds=("answer", "control")).next_event_id == control


def test_another_programs_row_is_found_within_two_seconds(store: CoordinationStore) -> None:
    """Who writes with plain SQL touches no file: the waiter looks by the clock."""
    thread_id = _asked(store)
    thread, found = _in_the_background(lambda: _reply(store, thread_id))
    with closing(sqlite3.connect(store.path)) as other, other:
        columns = "id, ts_ms, from_agent, to_agent, type, thread_id"
        row = ("x", 1, "nim", "worker", "note", thread_id)
        other.execute(f"INSERT INTO messages ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - ours
    thread.join(_LONG)
    assert found[0].found is not None


def test_what_is_unread_ends_a_watch_at_once(store: CoordinationStore) -> None:
    """Without a cursor, activity is what I have not read and what comes from now on."""
    sent = send(store, NewMessage("lead", ("worker",), "task", summary="fix it"))
    assert watch(store, agent="worker", seconds=_LONG).next_event_id == sent.event_id
    assert watch(store, agent="other", seconds=0.01).found is None
    mark_read(store, "worker", sent.thread_id, sent.event_id)
    assert watch(store, agent="worker", seconds=0.01) == Waited(None, store.latest_event())
    thread, found = _in_the_background(lambda: watch(store, agent="worker", seconds=_LONG))
    more = _say(store, "lead", "worker", thread_id=sent.thread_id)
    thread.join(_LONG)
    assert found[0].next_event_id == more


def test_a_watch_wants_a_status(store: CoordinationStore) -> None:
    """Activity in threads of another status, and my own, does not wake."""
    begun = store.latest_event()
    _say(store, "worker", "lead", "task")
    assert watch(store, agent="worker", seconds=0.01, after=begun).found is None
    assert watch(store, agent="lead", seconds=0.01, after=begun, statuses=("done",)).found is None
    assert (
        watch(store, agent="lead", seconds=_LONG, after=begun, statuses=("pending", "done")).found is not None
    )


def test_open_work_concerns_everybody(store: CoordinationStore) -> None:
    """A task for whoever is free ends the watch of an agent that it was not sent to."""
    begun = store.latest_event()
    thread, found = _in_the_background(lambda: watch(store, agent="worker", seconds=_LONG, after=begun))
    _say(store, "lead", "", "task")
    thread.join(_LONG)
    assert found[0].found is not None


def test_a_named_event_counts_after_the_start_of_the_wait(store: CoordinationStore) -> None:
    """A completion before the wait does not satisfy it, one after it does; a failure does too."""
    _say(store, "worker", "lead", "result", type="TASK_COMPLETE", task_id="T1")
    assert wait_pattern(store, "TASK_COMPLETE_*", seconds=0.01).found is None
    for ending in ("TASK_COMPLETE", "TASK_FAILED"):
        begun = store.latest_event()
        thread, found = _in_the_background(
            lambda begun=begun: wait_pattern(store, "TASK_*_T2", seconds=_LONG, after=begun)  # type: ignore[misc]
        )
        _say(store, "worker", "lead", "progress", type="TASK_FAILED", task_id="T20")
        event = _say(store, "worker", "lead", "result", type=ending, task_id="T2")
        thread.join(_LONG)
        assert found[0].next_event_id == event


def test_unknown_threads_messages_kinds_and_statuses_are_refused(store: CoordinationStore) -> None:
    """A wait that could never end is refused before it begins."""
    thread_id = _asked(store)
    with pytest.raises(NotFoundError):
        _reply(store, "none")
    with pytest.raises(NotFoundError):
        _reply(store, thread_id, after_message="none")
    with pytest.raises(InvalidInputError):
        _reply(store, thread_id, kinds=("answers",))
    with pytest.raises(InvalidInputError):
        watch(store, agent="worker", seconds=1, statuses=("open",))
    with pytest.raises(InvalidInputError):
        wait_pattern(store, "", seconds=1)
