"""Who joins, beats, leaves and dies, in a real store."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import take
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import InvalidInputError, NotFoundError, NoWorkError
from jobwire.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """Give a clock that stands still."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> CoordinationStore:
    """Give an empty store."""
    return CoordinationStore(str(tmp_path), clock=clock)


def _join(store: CoordinationStore, name: str, **said: object) -> None:
    with store.changing() as change:
        agents.join(change, name, Joining(**said))  # type: ignore[arg-type]  # as written in the test


def _beat(store: CoordinationStore, name: str, said: Beat = Beat()) -> None:  # noqa: B008 - immutable
    with store.changing() as change:
        agents.beat(change, name, said)


def _bury(store: CoordinationStore, name: str) -> bool:
    with store.changing() as change:
        return agents.bury(change, name)


def _liveness(store: CoordinationStore) -> dict[str, object]:
    now = store.clock.now()
    return {view.agent_id: view.to_json(now)["liveness"] for view in agents.present(store)}


def test_silence_is_counted_in_the_agents_own_intervals(store: CoordinationStore, clock: ManualClock) -> None:
    """Who beats each 10 s is WARN, STALE and DEAD after 30, 100 and 300 s; who beats seldom, later."""
    _join(store, "often")
    _join(store, "seldom", interval_seconds=100.0)
    found = []
    for seconds in (29, 1, 69, 1, 199, 1):
        clock.advance(seconds)
        found.append((_liveness(store)["often"], _liveness(store)["seldom"]))
    assert [one for one, _ in found] == ["fresh", "WARN", "WARN", "STALE", "STALE", "DEAD"]
    assert {other for _, other in found[:-1]} == {"fresh"}
    assert found[-1][1] == "WARN"
    _beat(store, "often", Beat("working", "T7", 0.5))
    view = agents.find(store, "often")
    assert (view.status, view.current_task, view.progress) == ("working", "T7", 0.5)
    assert _liveness(store)["often"] == "fresh"


def test_a_death_gives_back_what_the_agent_held_and_nobody_elses(
    store: CoordinationStore, clock: ManualClock
) -> None:
    """Its messages are queued again, its names are free, others keep theirs, and the lead is told."""
    _join(store, "lead", kind="lead")
    for name in ("a", "b"):
        _join(store, name)
        send(store, NewMessage("lead", (name,), "task", summary=f"for {name}"))
        take(store, name)
        with closing(sqlite3.connect(store.path)) as other, other:
            other.execute(
                "INSERT INTO task_claims VALUES (?, ?, 0, 9e15, '', NULL, NULL)", (f"of {name}", name)
            )
    clock.advance(300)
    _beat(store, "b")
    _beat(store, "lead")
    assert _bury(store, "a") is True
    assert _bury(store, "b") is False
    assert {view.agent_id for view in agents.present(store)} == {"b", "lead"}
    assert [store.rows("names_of", {"agent_id": name}) for name in "ab"] == [[], [("of b",)]]
    clock.advance(2)
    assert take(store, "a").message.summary == "for a"
    with pytest.raises(NoWorkError):
        take(store, "b")
    told = take(store, "lead").message
    assert (told.type, told.from_agent) == ("agent_dead", "jobwire")
    assert told.summary == "agent a is dead: no sign of life for 300 s"


def test_who_beats_again_is_here_again(store: CoordinationStore, clock: ManualClock) -> None:
    """An agent that was taken for dead and lives is on the list with its next sign of life."""
    _join(store, "a")
    clock.advance(301)
    assert _bury(store, "a")
    assert _bury(store, "a") is False
    assert _liveness(store) == {}
    _beat(store, "a")
    assert _liveness(store) == {"a": "fresh"}


def test_a_sign_of_life_in_between_saves_the_agent(store: CoordinationStore, clock: ManualClock) -> None:
    """Between a judge's look and its deed an agent may speak: then nothing is done."""
    _join(store, "a")
    clock.advance(301)
    send(store, NewMessage("a", ("b",), summary="I live"))
    assert _bury(store, "a") is False
    assert _liveness(store) == {"a": "fresh"}


def test_taking_and_acting_count_as_signs_of_life(store: CoordinationStore, clock: ManualClock) -> None:
    """Whatever an agent does in the store shows that it lives."""
    _join(store, "a")
    send(store, NewMessage("b", ("a",), summary="work"))
    clock.advance(200)
    assert _liveness(store) == {"a": "STALE"}
    take(store, "a")
    assert _liveness(store) == {"a": "fresh"}


def test_who_leaves_gives_back_what_it_holds(store: CoordinationStore) -> None:
    """Leaving is no death: at once, without a message, and again without an error."""
    _join(store, "a")
    for _ in range(2):
        with store.changing() as change:
            agents.leave(change, "a")
    assert agents.present(store) == []
    assert agents.find(store, "a").status == "stopped"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("0a1b2c3d", {}),
        ("a", {"kind": "boss"}),
        ("a", {"interval_seconds": 0.0}),
        ("a", {"interval_seconds": float("nan")}),
        ("a", {"interval_seconds": 1e9}),
        ("a", {"roles": ("a\nb",)}),
        ("a", {"roles": ("r",) * 65}),
        ("a", {"host": "x" * 300}),
        ("a", {"status": "asleep"}),
    ],
)
def test_nobody_joins_as_what_cannot_be(store: CoordinationStore, name: str, said: dict[str, object]) -> None:
    """A name of a job, an unknown kind, an interval without end: refused, and nothing is stored."""
    with pytest.raises(InvalidInputError):
        _join(store, name, **said)
    assert agents.present(store) == []


@pytest.mark.parametrize("said", [Beat("asleep"), Beat("idle", "x" * 300), Beat("idle", None, 1.5)])
def test_a_beat_has_bounds(store: CoordinationStore, said: Beat) -> None:
    """Status, task and progress are checked where they enter."""
    _join(store, "a")
    with pytest.raises(InvalidInputError):
        _beat(store, "a", said)


def test_who_never_joined_cannot_beat(store: CoordinationStore) -> None:
    """A sign of life of nobody is refused with the way to join."""
    with pytest.raises(NotFoundError) as caught:
        _beat(store, "a")
    assert caught.value.facts["code"] == "agent_not_found"


def test_what_an_agent_holds_is_what_it_works_on(store: CoordinationStore) -> None:
    """Whoever claims a task is at work without a word of its own, blocked where it asks, idle at the end."""
    Tasks(store, "lead").add(NewTask("parse", "T1", owner="builder"))
    _join(store, "builder")
    _join(store, "other")
    work = Tasks(store, "builder", environ={})
    thread = work.claim("T1").task.thread_id

    def seen() -> list[tuple[str, str | None]]:
        listed = [(view.status, view.current_task) for view in agents.present(store)]
        assert listed[1] == ("idle", None)
        assert agents.find(store, "builder")[10:12] == listed[0]
        return listed[:1]

    assert seen() == [("working", "T1")]
    asked = NewMessage("builder", thread_id=thread, summary="which port?")
    ThreadWork(store, "builder", environ={}).update(asked, "blocked")
    assert seen() == [("blocked", "T1")]
    _beat(store, "builder", Beat("working", "the parser"))
    assert seen() == [("working", "the parser")]
    work.complete("T1", NewMessage("builder", summary="it works"))
    _beat(store, "builder")
    assert seen() == [("idle", None)]
