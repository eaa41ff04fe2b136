"""The registry process notices who is dead, and nobody too early."""

from pathlib import Path

import pytest

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.companions import DeathWatch
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import take
from jobwire.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> CoordinationStore:
    """Give a store with an agent that holds a message."""
    one = CoordinationStore(str(tmp_path), clock=clock)
    with one.changing() as change:
        agents.join(change, "a", Joining())
    send(one, NewMessage("lead", ("a",), "task", summary="fix it"))
    take(one, "a")
    return one


def _look(watch: DeathWatch, clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.advance(1)
        watch.look()


def test_thirty_intervals_of_silence_are_a_death(store: CoordinationStore, clock: ManualClock) -> None:
    """Not at 299 s, but at 300; and what it held is queued again."""
    watch = DeathWatch(store.home, clock)
    _look(watch, clock, 299)
    assert watch.facts() == {"buried": 0}
    _look(watch, clock, 1)
    assert watch.facts() == {"buried": 1}
    assert agents.present(store) == []
    clock.advance(2)
    assert take(store, "a").message.summary == "fix it"


def test_a_process_that_has_just_begun_buries_nobody(store: CoordinationStore, clock: ManualClock) -> None:
    """Who starts after a night finds old signs of life: it looks on for 30 intervals first."""
    clock.advance(86_400)
    watch = DeathWatch(store.home, clock)
    _look(watch, clock, 299)
    assert len(agents.present(store)) == 1
    _look(watch, clock, 1)
    assert agents.present(store) == []


@pytest.mark.parametrize("trouble", ["jump", "standstill"])
def test_after_a_jump_or_a_standstill_nobody_dies(
    store: CoordinationStore, clock: ManualClock, trouble: str
) -> None:
    """A clock that was set, and a machine that slept, are no silence of the agents."""
    watch = DeathWatch(store.home, clock)
    _look(watch, clock, 200)
    if trouble == "jump":
        clock.set_wall(clock.now() + 3600)
    else:
        clock.advance(3600)
    _look(watch, clock, 250)
    assert watch.facts() == {"buried": 0}
    with store.changing() as change:
        agents.beat(change, "a", Beat())
    _look(watch, clock, 290)
    assert len(agents.present(store)) == 1


def test_a_home_without_a_store_stays_without(tmp_path: Path, clock: ManualClock) -> None:
    """Looking makes nothing."""
    DeathWatch(str(tmp_path), clock).look()
    assert list(tmp_path.iterdir()) == []
