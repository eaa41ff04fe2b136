"""Waiting for file locks: the store and a small model that knows no index agree on any history."""

import tempfile
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.queue import LockMode
from jobwire.coordination.locks.stored import LockWait
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError
from jobwire.testing.clock import ManualClock

RUN, EXCLUSIVE = "default", LockMode.EXCLUSIVE
AGENTS = st.sampled_from("wxyz")
ASKED = st.builds(
    LockRequest,
    AGENTS,
    st.lists(st.sampled_from(["a", "a/b", "a/c", "d", "name:a"]), min_size=1, max_size=2, unique=True).map(
        tuple
    ),
    st.just(RUN),
    mode=st.sampled_from(LockMode),
    seconds=st.sampled_from([5.0, 500.0]),
    incarnation=st.just(""),
    job_id=st.just(""),
)
# Somebody asks, looks again, gives all back, stops to wait, or seconds pass: fewer than silence forgives.
STEPS = st.one_of(
    ASKED,
    st.tuples(st.sampled_from(["look", "release", "give up"]), AGENTS),
    st.sampled_from([1.0, 3.0]),
)
Step = LockRequest | tuple[str, str] | float


class Waiter(NamedTuple):
    """Somebody who waits."""

    asked: LockRequest
    wait: LockWait


class Model:
    """Who holds what until when, and who waits, first come first."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], tuple[LockMode, float]] = {}
        self.queue: list[Waiter] = []

    def before(self, asked: LockRequest, earlier: list[LockRequest]) -> set[str]:
        """Return who must go first."""
        holds = [(agent, target, mode) for (agent, target), (mode, _) in self.held.items()]
        own = [(target, mode) for agent, target, mode in holds if agent == asked.agent_id]
        found = set()
        for target in asked.targets:
            if any(covers(one, target) and EXCLUSIVE in {mode, opposite(asked)} for one, mode in own):
                continue
            found |= {agent for agent, one, mode in holds if clash(one, mode, target, asked.mode)}
            for other in earlier:
                for_us = any(clash(one, mode, t, other.mode) for one, mode in own for t in other.targets)
                if not for_us and any(clash(t, other.mode, target, asked.mode) for t in other.targets):
                    found.add(other.agent_id)
        return found - {asked.agent_id}

    def waits_for_itself(self, queue: list[LockRequest]) -> set[str]:
        """Return who waits for itself, by the closure of all edges."""
        far: dict[str, set[str]] = {agent: set() for agent in "wxyz"}
        for number, asked in enumerate(queue):
            far[asked.agent_id] |= self.before(asked, queue[:number])
        for middle, beyond in far.items():
            for others in far.values():
                if middle in others:
                    others.update(beyond)
        return {agent for agent, others in far.items() if agent in others}

    def grant(self, asked: LockRequest, now: float) -> None:
        """Let it have them."""
        for target in asked.targets:
            mode, until = self.held.get((asked.agent_id, target), (asked.mode, 0.0))
            mode = EXCLUSIVE if EXCLUSIVE in {mode, asked.mode} else mode
            self.held[asked.agent_id, target] = (mode, max(until, now + asked.seconds))


def opposite(asked: LockRequest) -> LockMode:
    """Return exclusive for who asks to share: what it holds in either mode is enough."""
    return LockMode.SHARED if asked.mode is EXCLUSIVE else EXCLUSIVE


def covers(one: str, other: str) -> bool:
    """Tell whether a lock on `one` is one on `other`."""
    return one == other or (":" not in one + other and other.startswith(f"{one}/"))


def clash(one: str, mode: LockMode, other: str, other_mode: LockMode) -> bool:
    """Tell whether both cannot be held by two."""
    return EXCLUSIVE in {mode, other_mode} and (covers(one, other) or covers(other, one))


@given(st.lists(STEPS, max_size=14))
@settings(max_examples=2 * settings().max_examples)
def test_waiting_against_a_model(steps: list[Step]) -> None:
    """Who gets a lock, who waits, whose request is refused for a circle, and which circles there are."""
    clock, model = ManualClock(), Model()
    with tempfile.TemporaryDirectory() as folder:
        store = CoordinationStore(folder, clock=clock)
        locks = Locks(store, job_ended=lambda _: False)
        for step in steps:
            model.held = {key: value for key, value in model.held.items() if value[1] > clock.now()}
            if isinstance(step, float):
                clock.advance(step)
            elif isinstance(step, LockRequest):
                ask(locks, model, clock.now(), step)
            else:
                act(locks, model, clock.now(), *step)
            model.held = {key: value for key, value in model.held.items() if value[1] > clock.now()}
            state = locks.state(RUN)
            assert {(one.agent_id, one.target): one.hold.mode for one in state.locks} == {
                key: mode for key, (mode, _) in model.held.items()
            }
            assert [one.wait_id for one in state.waits] == [one.wait.wait_id for one in model.queue]
            around = model.waits_for_itself([one.asked for one in model.queue])
            found = locks.deadlocks()
            assert bool(found) == bool(around)
            assert {agent for circle in found for agent in circle} <= around
        store.close()


def ask(locks: Locks, model: Model, now: float, asked: LockRequest) -> None:
    """Ask in the store and in the model. Who waits asks for nothing else meanwhile."""
    queue = [one.asked for one in model.queue]
    if asked.agent_id in {one.agent_id for one in queue}:
        return
    blocked = model.before(asked, queue)
    if blocked and asked.agent_id in model.waits_for_itself([*queue, asked]):
        with pytest.raises(ConflictError) as caught:
            locks.begin(asked)
        assert caught.value.facts["code"] == "deadlock"
        return
    begun = locks.begin(asked)
    if isinstance(begun, LockWait):
        assert blocked
        model.queue.append(Waiter(asked, begun))
    else:
        assert not blocked
        model.grant(asked, now)


def act(locks: Locks, model: Model, now: float, what: str, agent: str) -> None:
    """Give all back, or look again or give up by the agent's first wait, in both."""
    if what == "release":
        locks.release(agent, run_id=RUN)
        model.held = {key: value for key, value in model.held.items() if key[0] != agent}
        return
    at = next((n for n, one in enumerate(model.queue) if one.asked.agent_id == agent), None)
    if at is None:
        return
    waiter = model.queue[at]
    if what == "give up":
        locks.give_up(waiter.wait)
        del model.queue[at]
        return
    blocked = model.before(waiter.asked, [one.asked for one in model.queue[:at]])
    granted = locks.look_again(waiter.asked, waiter.wait)
    assert bool(granted) == (not blocked)
    if granted:
        model.grant(waiter.asked, now)
        del model.queue[at]
