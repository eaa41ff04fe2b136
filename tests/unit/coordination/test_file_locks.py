"""File locks in the store: leases on paths, with waiters, losers who are told, and no deadlock."""

import contextlib
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwire.coordination import reading
from jobwire.coordination.locks import changes
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import MAX_TARGETS, Locks, revoke
from jobwire.coordination.locks.queue import LockMode, and_above
from jobwire.coordination.locks.targets import root_of
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tables import TABLES
from jobwire.core.errors import ConflictError, InvalidInputError, NoWorkError
from jobwire.storage import wake
from jobwire.testing import wait_for
from jobwire.testing.clock import ManualClock

RUN = "default"


@pytest.fixture
def locks(store: CoordinationStore) -> Locks:
    """Give the locks of a store whose jobs all run."""
    return Locks(store, job_ended=lambda _: False)


def ask(agent: str, *targets: str, **more: Any) -> LockRequest:
    """Return a request."""
    return LockRequest(agent, targets)._replace(**more)


def code_of(caught: "pytest.ExceptionInfo[ConflictError]") -> object:
    """Return the error's word."""
    return caught.value.facts["code"]


def test_one_holder_a_path(locks: Locks, clock: ManualClock) -> None:
    """The second contender is told who holds it until when; after the lease it is his, by a higher token."""
    (first,) = locks.acquire(ask("a", "x"))
    with pytest.raises(ConflictError) as caught:
        locks.acquire(ask("b", "x"))
    assert (code_of(caught), caught.value.facts["holder"]) == ("locked", "a")
    clock.advance(1800)
    (second,) = locks.acquire(ask("b", "x"))
    assert second.token > first.token
    for change in (locks.renew, locks.release):
        with pytest.raises(ConflictError) as caught:
            change("a", ["x"], run_id=RUN, token=first.token)
        assert code_of(caught) == "lease_lost"


def test_all_or_nothing(locks: Locks) -> None:
    """A request of which one path is held takes none."""
    locks.acquire(ask("a", "x"))
    with pytest.raises(ConflictError):
        locks.acquire(ask("b", "w", "x"))
    assert [lock.target for lock in locks.state(RUN).locks] == ["x"]


def test_the_holder_extends_by_what_was_granted(locks: Locks, clock: ManualClock) -> None:
    """Renewing adds the granted seconds and keeps the token; shared becomes exclusive where nobody shares."""
    (first,) = locks.acquire(ask("a", "x", seconds=60.0, mode=LockMode.SHARED))
    clock.advance(50)
    (renewed,) = locks.renew("a", run_id=RUN)
    assert (renewed.token, renewed.lease_until_ms - first.lease_until_ms) == (first.token, 50_000)
    (upgraded,) = locks.acquire(ask("a", "x", seconds=60.0))
    assert (upgraded.mode, upgraded.token) == ("exclusive", first.token)


def test_the_loser_is_told(store: CoordinationStore, locks: Locks, clock: ManualClock) -> None:
    """A lock that ran out, was broken or whose holder died is told of by a message to the loser."""
    locks.acquire(ask("a", "x", seconds=1.0))
    clock.advance(2)
    assert [lock.target for lock in locks.clear()] == ["x"]
    locks.acquire(ask("a", "y"))
    locks.ask_to_break("b", "y", run_id=RUN, reason="gone home")
    with pytest.raises(ConflictError) as caught:
        locks.confirm_break("b", "y", run_id=RUN)
    assert code_of(caught) == "not_expected"
    locks.confirm_break("c", "y", run_id=RUN)
    locks.acquire(ask("a", "z"))
    with store.changing() as change:
        revoke(change, "a", "it is dead")
    told = [one.subject for one in reading.fetch(store, "a", statuses=("pending",), limit=10, unread=True)]
    assert sorted(told) == [
        "your lock on x ended: it ran out",
        "your lock on y ended: broken by b and c: gone home",
        "your lock on z ended: it is dead",
    ]


def test_a_lock_ends_with_its_job(store: CoordinationStore) -> None:
    """A lock that a job took is free once the job is over, lease or not."""
    over: set[str] = set()
    locks = Locks(store, job_ended=over.__contains__)
    locks.acquire(ask("a", "x", job_id="0000abcd"))
    assert locks.conflicts("b", ["x"], run_id=RUN)
    over.add("0000abcd")
    assert not locks.conflicts("b", ["x"], run_id=RUN)
    assert locks.acquire(ask("b", "x"))


def test_waiters_are_served_in_order(tmp_path: Path) -> None:
    """A release wakes the first in the queue, who gets it; then the next one, and nobody is passed over."""
    store = CoordinationStore(str(tmp_path))
    locks = Locks(store, job_ended=lambda _: False)
    locks.acquire(ask("holder", "x"))
    order: list[str] = []

    def wait(name: str) -> None:
        own = Locks(CoordinationStore(str(tmp_path)), job_ended=lambda _: False)
        own.acquire(ask(name, "x"), wait_seconds=60)
        order.append(name)
        own.release(name, run_id=RUN)

    threads = []
    for name in ("first", "second", "third"):
        threads.append(threading.Thread(target=wait, args=(name,)))
        threads[-1].start()
        wait_for(
            lambda name=name: name in [one.agent_id for one in locks.state(RUN).waits],  # type: ignore[misc]
            what="the waiter",
        )
    locks.release("holder", run_id=RUN)
    for thread in threads:
        thread.join(60)
    assert order == ["first", "second", "third"]
    assert locks.state(RUN)[:2] == ([], [])


def test_a_wait_in_vain_leaves_nothing(tmp_path: Path) -> None:
    """Who waits until its time is over is told so, and is no longer in the queue."""
    locks = Locks(CoordinationStore(str(tmp_path)), job_ended=lambda _: False)
    locks.acquire(ask("a", "x"))
    with pytest.raises(NoWorkError) as caught:
        locks.acquire(ask("b", "x"), wait_seconds=0.1)
    assert caught.value.facts["code"] == "timeout"
    assert locks.state(RUN).waits == []


def test_the_request_that_closes_a_cycle_is_refused(tmp_path: Path) -> None:
    """A holds x and waits for y, B holds y and asks for x: refused with the cycle, and none is left."""
    locks = Locks(CoordinationStore(str(tmp_path)), job_ended=lambda _: False)
    locks.acquire(ask("a", "x"))
    locks.acquire(ask("b", "y"))
    own = Locks(CoordinationStore(str(tmp_path)), job_ended=lambda _: False)
    waiter = threading.Thread(target=own.acquire, args=(ask("a", "y"),), kwargs={"wait_seconds": 60})
    waiter.start()
    wait_for(lambda: locks.state(RUN).waits, what="the waiter")
    with pytest.raises(ConflictError) as caught:
        locks.acquire(ask("b", "x"), wait_seconds=60)
    assert (code_of(caught), caught.value.facts["cycle"]) == ("deadlock", ["b", "a"])
    assert locks.deadlocks() == []
    locks.release("b", run_id=RUN)
    waiter.join(60)
    assert {lock.target: lock.agent_id for lock in locks.state(RUN).locks} == {"x": "a", "y": "a"}


def test_a_question_is_an_edge(store: CoordinationStore, locks: Locks, foreign: sqlite3.Connection) -> None:
    """Who asks the one that waits for his lock is in a circle with him."""
    sent = send(store, NewMessage("a", ("b",), kind="question", summary="may I?"))
    foreign.execute("UPDATE threads SET status = 'blocked' WHERE thread_id = ?", (sent.thread_id,))
    locks.acquire(ask("a", "x"))
    with pytest.raises(ConflictError) as caught:
        locks.acquire(ask("b", "x"), wait_seconds=60)
    assert (code_of(caught), caught.value.facts["cycle"]) == ("deadlock", ["b", "a"])


def test_runs_are_one_graph_of_several_roots(locks: Locks) -> None:
    """The same path in two runs is two files; agents who wait for each other across runs are in a circle."""
    locks.acquire(ask("a", "x"))
    (other,) = locks.acquire(ask("b", "x", run_id="two"))
    assert other.run_id == "two"
    with waiting(locks, ask("b", "x")):
        assert locks.deadlocks() == []
        with pytest.raises(ConflictError) as caught:
            locks.acquire(ask("a", "x", run_id="two"), wait_seconds=60)
        assert (code_of(caught), caught.value.facts["cycle"]) == ("deadlock", ["a", "b"])


def test_what_is_over_is_no_edge(store: CoordinationStore, clock: ManualClock) -> None:
    """A lock that ran out, or whose job ended, closes no circle, even where nobody has looked there since."""
    over: set[str] = set()
    locks = Locks(store, job_ended=over.__contains__)
    locks.acquire(ask("a", "x"))
    locks.acquire(ask("b", "short", run_id="two", seconds=5.0))
    locks.acquire(ask("b", "job", run_id="two", job_id="0000abcd"))
    with waiting(locks, ask("b", "x")):
        for target in ("short", "job"):
            with waiting(locks, ask("a", target, run_id="two")):
                assert locks.deadlocks() == [["a", "b"]]
        clock.advance(6)
        over.add("0000abcd")
        for target in ("short", "job"):
            with waiting(locks, ask("a", target, run_id="two")):
                assert locks.deadlocks() == []


def test_a_circle_that_arose_otherwise_is_told_of_once(
    store: CoordinationStore, locks: Locks, foreign: sqlite3.Connection
) -> None:
    """Where a question closes a circle after the wait began, the youngest waiter is told, once."""
    locks.acquire(ask("a", "x"))
    with waiting(locks, ask("b", "x")):
        sent = send(store, NewMessage("a", ("b",), kind="question", summary="may I?"))
        assert locks.deadlocks() == []
        foreign.execute("UPDATE threads SET status = 'blocked' WHERE thread_id = ?", (sent.thread_id,))
        assert (locks.deadlocks(), locks.deadlocks("other")) == ([["a", "b"]], [])
        locks.clear()
        locks.clear()
        Locks(store, job_ended=lambda _: False).clear()
        told = [one.subject for one in reading.fetch(store, "b", limit=10) if "deadlock" in one.subject]
        assert told == ["deadlock: a -> b -> a; you began to wait last: release what you hold"]
        foreign.execute("UPDATE threads SET status = 'done' WHERE thread_id = ?", (sent.thread_id,))
        assert locks.deadlocks() == []


def test_a_wait_is_woken_by_its_own_path_alone(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is released names the path and the waiters that can go on, and no others."""
    locks.acquire(ask("a", "src/x", "src/y"))
    with waiting(locks, ask("b", "src/x")), waiting(locks, ask("c", "src/y")):
        numbers = {wait.agent_id: wait.wait_id for wait in locks.state().waits}
        woken: list[set[str]] = []
        monkeypatch.setattr(wake, "touch", lambda _, names: woken.append(set(names)))
        locks.release("a", ["src/y"], run_id=RUN)
        assert woken == [{"events", "resource:src/y", f"resource:lock-wait-{numbers['c']}"}]


def test_what_is_near_is_read_by_index(foreign: sqlite3.Connection) -> None:
    """No part of the look at what is near a request reads all locks of its run."""
    values = {"run_id": RUN, "at": "[]", "below": "[]", "agents": "[]"}
    plan = foreign.execute(f"EXPLAIN QUERY PLAN {TABLES.queries['file_locks_near']}", values).fetchall()
    looks = [row[3] for row in plan if " file_locks " in row[3]]
    assert len(looks) == 2
    assert not [look for look in looks if look.endswith("(run_id=?)") or look.startswith("SCAN")], plan


@contextlib.contextmanager
def waiting(locks: Locks, asked: LockRequest) -> Iterator[None]:
    """Let an agent wait in the queue during the block, as a process that has just died does."""
    store = locks._store
    with store.changing() as change:
        wait = changes.begin_to_wait(change, asked)
    yield
    with store.changing() as change:
        change.execute("remove_lock_wait", {"wait_id": wait.wait_id})


@pytest.mark.parametrize(
    "asked",
    [ask("a"), ask("a", *(f"f{n}" for n in range(MAX_TARGETS + 1))), ask("a", "x", seconds=-1.0)],
    ids=["nothing", "too many", "negative"],
)
def test_what_is_no_request(locks: Locks, asked: LockRequest) -> None:
    """Nothing, too much and a lease that no clock can hold are refused before anything is written."""
    with pytest.raises(InvalidInputError):
        locks.acquire(asked)
    assert locks.state().locks == []


def test_a_root_stays_while_locks_stand_there(store: CoordinationStore, locks: Locks) -> None:
    """A run's folder can be set anew only while nothing is locked below it."""
    assert root_of(store, RUN, wanted=None, default="/a") == "/a"
    assert root_of(store, RUN, wanted="/b", default="/a") == "/b"
    locks.acquire(ask("a", "x"))
    with pytest.raises(ConflictError):
        root_of(store, RUN, wanted="/c", default="/a")
    assert root_of(store, RUN, wanted=None, default="/a") == "/b"


EXCLUSIVE = LockMode.EXCLUSIVE
AGENTS = st.sampled_from("xyz")
TARGETS = st.sampled_from(["a", "a/b", "a/c", "d", "name:a"])
STEPS = st.one_of(
    st.builds(
        LockRequest,
        AGENTS,
        TARGETS.map(lambda target: (target,)),
        st.just(RUN),
        mode=st.sampled_from(LockMode),
        seconds=st.sampled_from([5.0, 50.0]),
        incarnation=st.just(""),
        job_id=st.just(""),
    ),
    # Who gives all back, and seconds that pass.
    AGENTS,
    st.sampled_from([1.0, 10.0, 100.0]),
)
# (agent, target): how it is held, and until when.
Held = dict[tuple[str, str], tuple[LockMode, float]]


def in_the_way(held: Held, agent: str, target: str, mode: LockMode) -> list[str]:
    """Return whose locks forbid it: none where the agent itself holds enough."""
    for (owner, other), (strength, _) in held.items():
        if owner == agent and other in and_above(target) and (strength is EXCLUSIVE or mode is not EXCLUSIVE):
            return []
    return [
        owner
        for (owner, other), (strength, _) in held.items()
        if owner != agent
        and (other in and_above(target) or target in and_above(other))
        and EXCLUSIVE in {strength, mode}
    ]


@given(st.lists(STEPS, max_size=15))
@settings(max_examples=10, deadline=None)
def test_against_a_model(steps: list[LockRequest | str | float]) -> None:
    """Whatever agents take, give back and let run out, the store holds what a dictionary would."""
    clock, held = ManualClock(), Held()
    with tempfile.TemporaryDirectory() as folder:
        store = CoordinationStore(folder, clock=clock)
        locks = Locks(store, job_ended=lambda _: False)
        for step in steps:
            held = {key: value for key, value in held.items() if value[1] > clock.now()}
            if isinstance(step, LockRequest):
                take(locks, held, clock.now(), step)
            elif isinstance(step, str):
                locks.release(step, run_id=RUN)
                held = {key: value for key, value in held.items() if key[0] != step}
            else:
                clock.advance(step)
            live = {key: mode for key, (mode, until) in held.items() if until > clock.now()}
            assert {(one.agent_id, one.target): one.hold.mode for one in locks.state(RUN).locks} == live
        store.close()


def take(locks: Locks, held: Held, now: float, asked: LockRequest) -> None:
    """Take a lock in the store and in the model, or see it refused in both."""
    agent, (target,), mode = asked.agent_id, asked.targets, asked.mode
    if others := in_the_way(held, agent, target, mode):
        with pytest.raises(ConflictError) as caught:
            locks.acquire(asked)
        assert caught.value.facts["holder"] in others
        return
    locks.acquire(asked)
    before, until = held.get((agent, target), (mode, 0.0))
    strength = EXCLUSIVE if EXCLUSIVE in {before, mode} else mode
    held[agent, target] = (strength, max(until, now + asked.seconds))
