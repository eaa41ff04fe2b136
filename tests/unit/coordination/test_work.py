"""Threads of work stand on jobs: one lease, one lifecycle, whoever speaks."""

import json
import sqlite3
from collections.abc import Callable

import pytest

from jobwire.coordination import reading, sending
from jobwire.coordination.marks import behind, catch_up
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError
from jobwire.jobs.lifecycle import Status
from jobwire.registry.queue import JobQueue
from jobwire.testing.clock import ManualClock

TASK = NewMessage(
    "lead", ("builder",), kind="task", subject="fix the parser", body="it breaks on empty files"
)
Worker = Callable[..., ThreadWork]


@pytest.fixture
def worker(store: CoordinationStore) -> Worker:
    """Give what works in threads under a name."""

    def make(agent: str = "builder", incarnation: str = "") -> ThreadWork:
        return ThreadWork(store, agent, incarnation=incarnation, environ={})

    return make


@pytest.fixture
def thread_id(store: CoordinationStore) -> str:
    """Give a thread that waits for its builder."""
    return sending.send(store, TASK).thread_id


def code(caught: pytest.ExceptionInfo[JobwireError]) -> object:
    """Return the error's word."""
    return caught.value.facts.get("code")


def said(thread_id: str, summary: str = "halfway", **more: str) -> NewMessage:
    """Return what the builder says in the thread."""
    return NewMessage("builder", kind="progress", thread_id=thread_id, summary=summary, **more)  # type: ignore[arg-type]


def test_a_thread_goes_from_pending_to_done_with_its_job(
    store: CoordinationStore, worker: Worker, thread_id: str
) -> None:
    """Each step of the inbox is a step of the job, and the thread's status is the job's."""
    work = worker()
    claimed = work.claim(thread_id, 60)
    assert claimed.thread.status == "claimed"
    record = work.records.get(claimed.token.job_id)
    assert (record.status, record.title, record.instructions) == (Status.RUNNING, "fix the parser", TASK.body)
    assert record.lease is not None
    assert (record.lease.owner, record.lease.seconds) == ("builder", 60)
    assert work.update(said(thread_id), "in_progress").thread.status == "in_progress"
    blocked = work.update(said(thread_id, "may I?"), "blocked")
    assert blocked.thread.status == "blocked"
    assert work.records.get(record.job_id).attention
    done = work.done(said(thread_id, "it works"))
    assert done.thread.status == "done"
    record = work.records.get(record.job_id)
    assert (record.status, record.detail, record.last_seq) == (Status.COMPLETED, "it works", 4)
    kinds = [one.kind for one in reading.messages_of(store, thread_id)]
    assert kinds == ["task", "progress", "question", "result"]
    assert record.result is not None
    assert record.result["data"] == {"op": done.posted.message_id}


def test_only_one_holds_a_thread(worker: Worker, store: CoordinationStore) -> None:
    """A second claim is a lease_conflict with holder and end; the holder's own renews, not another life's."""
    thread_id = sending.send(store, TASK._replace(to=())).thread_id
    first = worker("a").claim(thread_id, 60)
    for other in (worker("b"), worker("a", "other life")):
        with pytest.raises(ConflictError) as caught:
            other.claim(thread_id)
        assert (code(caught), caught.value.facts["holder"]) == ("lease_conflict", "a")
    assert worker("a").claim(thread_id, 90).token == first.token


def test_a_lease_that_ran_out_is_taken_by_the_next_and_fences_the_first(
    worker: Worker, store: CoordinationStore, clock: ManualClock
) -> None:
    """After the end of the lease another claims; every write of the first gets lease_lost."""
    thread_id = sending.send(store, TASK._replace(to=())).thread_id
    worker("a").claim(thread_id, 60)
    clock.advance(61)
    second = worker("b").claim(thread_id, 60)
    assert second.token.attempt == 2
    late = NewMessage("a", thread_id=thread_id, summary="late")
    for write in (
        lambda: worker("a").done(late),
        lambda: worker("a").fail(late),
        lambda: worker("a").update(late, "in_progress"),
        lambda: worker("a").renew(thread_id),
    ):
        with pytest.raises(ConflictError) as caught:
            write()
        assert code(caught) == "lease_lost"
    assert reading.thread_of(store, thread_id).assigned_to == "b"


def test_a_renewal_is_for_what_was_granted(worker: Worker, thread_id: str, clock: ManualClock) -> None:
    """Both renew and update extend by the granted seconds."""
    work = worker()
    first = work.claim(thread_id, 60)
    clock.advance(50)
    assert work.renew(thread_id).expires_at > first.expires_at
    clock.advance(50)
    assert work.update(said(thread_id), "in_progress").thread.status == "in_progress"
    with pytest.raises(ConflictError):
        worker("thief").claim(thread_id)


def test_without_a_claim_nothing_is_said_of_work(worker: Worker, thread_id: str) -> None:
    """Words on work that nobody claimed are lease_lost; another's thread is not claimed."""
    with pytest.raises(ConflictError) as caught:
        worker().done(said(thread_id))
    assert code(caught) == "lease_lost"
    with pytest.raises(ConflictError) as caught:
        worker("thief").claim(thread_id)
    assert code(caught) == "owner_mismatch"


def test_what_is_over_stays_over(worker: Worker, store: CoordinationStore, thread_id: str) -> None:
    """Every verb on an ended thread is already_terminal; a new task in it makes the next job."""
    work = worker()
    first = work.claim(thread_id)
    work.fail(said(thread_id, "no"))
    for again in (
        lambda: work.claim(thread_id),
        lambda: work.done(said(thread_id)),
        lambda: worker("lead").cancel(thread_id),
    ):
        with pytest.raises(ConflictError) as caught:
            again()
        assert code(caught) == "already_terminal"
    sending.send(store, TASK._replace(thread_id=thread_id))
    second = work.claim(thread_id)
    assert second.token.job_id != first.token.job_id
    assert work.done(said(thread_id, "now it works")).thread.status == "done"


def test_the_same_word_again_is_said_once(worker: Worker, store: CoordinationStore, thread_id: str) -> None:
    """What is said with an id of its own, repeated, is a success that says duplicate."""
    work = worker()
    work.claim(thread_id)
    first = work.done(said(thread_id, "works", id="op1"))
    again = work.done(said(thread_id, "works", id="op1"))
    assert (first.posted.duplicate, again.posted.duplicate) == (False, True)
    with pytest.raises(ConflictError) as caught:
        work.done(said(thread_id, "other", id="op1"))
    assert code(caught) == "duplicate_id"


def test_who_may_cancel(worker: Worker, store: CoordinationStore, foreign: sqlite3.Connection) -> None:
    """Creator, assignee and lead may; anybody else is forbidden, 30."""
    foreign.execute("INSERT INTO agents (agent_id, kind, joined_at_ms) VALUES ('boss', 'lead', 1)")
    for who, may in (("lead", True), ("builder", True), ("boss", True), ("stranger", False)):
        for claimed in (False, True):
            thread_id = sending.send(store, TASK).thread_id
            if claimed:
                worker().claim(thread_id)
            if may:
                assert worker(who).cancel(thread_id, "no longer needed").thread.status == "cancelled"
            else:
                with pytest.raises(InvalidInputError) as caught:
                    worker(who).cancel(thread_id)
                assert code(caught) == "forbidden"


def test_what_the_job_says_elsewhere_is_in_the_thread(
    worker: Worker, store: CoordinationStore, thread_id: str
) -> None:
    """A job that is cancelled in the registry is a cancelled thread, with one receipt for who asked."""
    work = worker()
    claimed = work.claim(thread_id)
    JobQueue(work.records, warn=print).cancel(claimed.token.job_id, reason="by hand")
    assert behind(store)
    for _ in range(2):
        catch_up(store)
    assert not behind(store)
    assert reading.thread_of(store, thread_id).status == "cancelled"
    receipts = [one for one in reading.messages_of(store, thread_id) if one.type == "receipt"]
    assert [(one.to, one.summary) for one in receipts] == [(("lead",), "by hand")]


def test_a_free_thread_lives_in_the_store_alone(worker: Worker, store: CoordinationStore) -> None:
    """A question makes no job: its participants end it."""
    thread_id = sending.send(store, TASK._replace(kind="question")).thread_id
    with pytest.raises(InvalidInputError):
        worker("stranger").done(NewMessage("stranger", thread_id=thread_id, summary="x"))
    assert worker().done(said(thread_id, "answered")).thread.status == "done"
    assert list(worker().records.job_ids()) == []


def test_nothing_of_the_message_leaves_the_host_but_its_clean_summary(worker: Worker, thread_id: str) -> None:
    """Paths in a summary are cut on the job's event, and stay in the message."""
    work = worker()
    job_id = work.claim(thread_id).token.job_id
    posted = work.update(
        said(thread_id, "wrote /home/me/secret/out.txt", body="all of it"), "in_progress"
    ).posted
    assert "/home/me" not in work.records.get(job_id).detail
    assert reading.message_of(work.store, posted.message_id).summary == "wrote /home/me/secret/out.txt"
    lines = [json.dumps(line) for line in work.records.audit(job_id).lines()]
    assert not any("all of it" in line for line in lines)
