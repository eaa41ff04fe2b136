"""`jobwire notify`: told once, by whoever looks next."""

import pytest

from jobwire.coordination import agents, notices, reading, sending
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import InvalidInputError, NotFoundError

TASK = NewMessage("lead", ("builder",), kind="task", subject="fix it")


def told(store: CoordinationStore) -> list[str]:
    """Return what the lead was told by now, the store brought up."""
    catch_up(store)
    rows = store.rows("messages_after", {"after": 0, "limit": -1})
    return [row[14] for row in rows if row[5].startswith("notify_")]


def joined(store: CoordinationStore, status: str = "working") -> None:
    """Let the builder be there."""
    with store.changing() as change:
        agents.join(change, "builder", Joining(status=status))


def beat(store: CoordinationStore, status: str) -> None:
    """Let the builder say how it is."""
    with store.changing() as change:
        agents.beat(change, "builder", Beat(status))


@pytest.mark.parametrize("word", ["idle", "blocked", "stopped"])
def test_an_agent_that_comes_to_rest_is_told_once(store: CoordinationStore, word: str) -> None:
    """Working is no rest; the word that was wanted is told once, and no later one."""
    joined(store)
    notices.ask_for(store, "lead", "builder", [word])
    assert told(store) == []
    beat(store, word)
    assert told(store) == [f"builder is {word}"]
    beat(store, "working")
    beat(store, word)
    assert len(told(store)) == 1


def test_what_holds_already_is_told_now(store: CoordinationStore) -> None:
    """Who asks about an agent that is idle need not wait; one that left has stopped."""
    joined(store, "idle")
    notices.ask_for(store, "lead", "builder", ["idle", "stopped"])
    assert told(store) == ["builder is idle"]
    with store.changing() as change:
        agents.leave(change, "builder")
    notices.ask_for(store, "lead", "builder", ["stopped"])
    assert told(store)[1:] == ["builder is stopped: it has left"]


def test_a_job_and_its_agent_are_done_with_the_result(store: CoordinationStore) -> None:
    """Blocked is told while somebody is waited for, done with the result that was handed in."""
    joined(store)
    thread = sending.send(store, TASK).thread_id
    work = ThreadWork(store, "builder", environ={})
    job = work.claim(thread).token.job_id
    for subject in ("builder", job):
        notices.ask_for(store, "lead", subject, ["blocked"])
        notices.ask_for(store, "lead", subject, ["done"])
    assert told(store) == []
    said = NewMessage("builder", thread_id=thread)
    work.update(said._replace(summary="which port?"), "blocked")
    assert sorted(told(store)) == sorted([f"{job} is blocked: which port?", "builder is blocked: fix it"])
    work.done(said._replace(summary="it works"))
    assert sorted(told(store)[2:]) == sorted([f"{job} is done: it works", "builder is done: it works"])
    assert not store.rows("notices")
    (first,) = [one for one in reading.fetch(store, "lead", unread=True) if one.subject.endswith("fix it")][
        :1
    ]
    assert first.created_by == "jobwire"


def test_a_cancelled_job_has_stopped(store: CoordinationStore) -> None:
    """Failed and cancelled is stopped; whoever wants only done hears nothing."""
    thread = sending.send(store, TASK).thread_id
    job = ThreadWork(store, "builder", environ={}).claim(thread).token.job_id
    notices.ask_for(store, "lead", job, ["done"])
    notices.ask_for(store, "lead", job, ["stopped"])
    ThreadWork(store, "lead", environ={}).cancel(thread, "not needed")
    assert told(store) == [f"{job} is stopped: not needed"]


def test_nonsense_is_refused(store: CoordinationStore) -> None:
    """Unknown words, agents and jobs are named, and nothing is kept."""
    joined(store)
    for words in ([], ["asleep"], ["idle", ""]):
        with pytest.raises(InvalidInputError):
            notices.ask_for(store, "lead", "builder", words)
    for subject in ("nobody", "0a1b2c3d"):
        with pytest.raises(NotFoundError):
            notices.ask_for(store, "lead", subject, ["done"])
    with pytest.raises(InvalidInputError):
        notices.ask_for(store, "lead", "no agent", ["done"])
    assert not store.rows("notices")
