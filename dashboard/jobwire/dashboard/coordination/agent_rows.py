"""An agent as a row: what it does or that it is missing, the problems first. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from jobwire.coordination.agents import AgentView
from jobwire.coordination.liveness import AgentStatus, Liveness

_MAX_TEXT = 300


class AgentState(StrEnum):
    """What an agent is seen as, in the order in which agents are listed."""

    BLOCKED = "blocked"
    DEAD = "dead"
    STALE = "stale"
    WORKING = "working"
    IDLE = "idle"
    STOPPED = "stopped"
    LEFT = "left"


_ORDER = {state: place for place, state in enumerate(AgentState)}


class AgentRow(NamedTuple):
    """One agent for a table. Times in epoch seconds; `late`: it has missed three signs of life."""

    name: str
    state: AgentState
    late: bool
    kind: str
    roles: tuple[str, ...]
    run: str
    task: str
    progress: float | None
    unread: int
    last: float
    joined: float
    interval: float
    host: str
    pid: int | None


def agent_row(view: AgentView, unread: int, now: float) -> AgentRow:
    """Return the agent's row at this time."""
    return AgentRow(
        view.agent_id,
        state_of(view, now),
        view.left_at_ms is None and view.liveness(now) is Liveness.WARN,
        view.kind,
        view.roles,
        view.run_id,
        (view.current_task or "")[:_MAX_TEXT],
        view.progress,
        unread,
        view.ts_ms / 1000,
        view.joined_at_ms / 1000,
        view.interval_seconds,
        view.host,
        view.pid,
    )


def state_of(view: AgentView, now: float) -> AgentState:
    """Return what the agent is seen as: its own word, unless it has been silent for too long."""
    if view.left_at_ms is not None:
        # Who leaves says that it stopped; the dead say nothing.
        return AgentState.LEFT if view.status == AgentStatus.STOPPED else AgentState.DEAD
    found = view.liveness(now)
    if found is Liveness.DEAD:
        return AgentState.DEAD
    if found is Liveness.STALE:
        return AgentState.STALE
    # Another program may have written any word.
    return AgentState(view.status) if view.status in set(AgentStatus) else AgentState.IDLE


def arrange_agents(rows: Iterable[AgentRow]) -> list[AgentRow]:
    """Return the rows in their order: whoever needs somebody first, then by name."""
    return sorted(rows, key=lambda row: (_ORDER[row.state], row.name))


def count_states(rows: Iterable[AgentRow]) -> Mapping[str, int]:
    """Return how many there are in each state."""
    counts = dict.fromkeys(map(str, AgentState), 0)
    for row in rows:
        counts[row.state] += 1
    return counts
