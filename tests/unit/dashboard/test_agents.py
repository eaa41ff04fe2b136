"""Agents as rows: what each is seen as, and who comes first."""

from typing import Any

import pytest

from jobwire.coordination.agents import AgentView
from jobwire.dashboard.coordination.agents import (
    AgentState,
    agent_row,
    arrange_agents,
    count_states,
    state_of,
)

NOW = 1_767_225_600.0
VIEW = AgentView(
    "builder", "worker", ("tests",), "default", "i", "host", 7, 10.0, int(NOW * 1000) - 500_000, None,
    "working", "T7", 0.5, int(NOW * 1000),
)  # fmt: skip


def silent(seconds: float, **changes: Any) -> AgentView:
    """Return the agent as it is when its last sign of life is so old."""
    return VIEW._replace(ts_ms=int((NOW - seconds) * 1000), **changes)


@pytest.mark.parametrize(
    ("view", "state"),
    [
        (silent(0), AgentState.WORKING),
        (silent(0, status="blocked"), AgentState.BLOCKED),
        (silent(99, status="idle"), AgentState.IDLE),
        (silent(100, status="blocked"), AgentState.STALE),
        (silent(299), AgentState.STALE),
        (silent(300), AgentState.DEAD),
        (silent(-60), AgentState.WORKING),
        (silent(0, status="stopped", left_at_ms=1), AgentState.LEFT),
        (silent(0, status="working", left_at_ms=1), AgentState.DEAD),
        (silent(0, status="a word of another program"), AgentState.IDLE),
    ],
)
def test_an_agent_is_seen_as_what_it_says_unless_it_is_silent(view: AgentView, state: AgentState) -> None:
    """Its own word counts for ten intervals; then it is stale, then dead; who left said so."""
    assert state_of(view, NOW) is state


def test_an_agent_that_missed_three_signs_is_late() -> None:
    """Late is no state of its own: it goes on to be what it said."""
    assert [agent_row(silent(age), 0, NOW).late for age in (29, 30, 99, 100)] == [False, True, True, False]
    assert agent_row(silent(40, left_at_ms=1), 0, NOW).late is False


def test_whoever_needs_somebody_comes_first_then_by_name() -> None:
    """Blocked, dead and stale agents stand above those that work; each state is counted."""
    views = [
        silent(0, agent_id="z"),
        silent(0, agent_id="a", status="idle"),
        silent(900, agent_id="d"),
        silent(0, agent_id="c", status="blocked"),
        silent(0, agent_id="b"),
    ]
    rows = arrange_agents(agent_row(view, 0, NOW) for view in views)
    assert [row.name for row in rows] == ["c", "d", "b", "z", "a"]
    counts = count_states(rows)
    assert (counts["working"], counts["blocked"], counts["dead"], counts["left"]) == (2, 1, 1, 0)


def test_long_words_of_an_agent_are_cut() -> None:
    """What it says that it does is a line, whatever another program wrote."""
    assert len(agent_row(silent(0, current_task="x" * 10_000), 0, NOW).task) < 1000
