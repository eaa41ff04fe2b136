"""Who is there, read from the store: what each does or that it is missing, the problems first."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from jobwire.coordination.agents import AgentView, gone, present
from jobwire.coordination.liveness import AgentStatus, Liveness
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.foreign import cut

# Who left or died is shown for a day; more than these are no list for people.
_GONE_SECONDS = 86_400
_MOST_GONE = 100
MOST_AGENTS = 2000
MOST_COUNTED = 100


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
        cut(view.current_task or ""),
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


def agent_rows(store: CoordinationStore, now: float, *, counted: bool = True) -> list[AgentRow]:
    """Return the agents that are there, and those that have gone within a day, problems first.

    What each has not read is counted if asked for.
    """
    with store.reading():
        since_ms = int((now - _GONE_SECONDS) * 1000)
        views = [*present(store)[:MOST_AGENTS], *gone(store, since_ms=since_ms, limit=_MOST_GONE)]
        names = json.dumps([view.agent_id for view in views if counted])
        unread = dict(store.rows("unread_by_all", {"agents": names, "limit": MOST_COUNTED}))
        rows = [agent_row(view, unread.get(view.agent_id, 0), now) for view in views]
    return arrange_agents(rows)


def agent_page(store: CoordinationStore, now: float) -> dict[str, object]:
    """Return the agents for the page, and how many there are in each state."""
    rows = agent_rows(store, now)
    return {"agents": [row._asdict() for row in rows], "counts": count_states(rows)}


def unread_of(store: CoordinationStore, agent: str) -> int:
    """Return how many messages the agent has not read, at most MOST_COUNTED."""
    return int(store.rows("unread_by", {"agent_id": agent, "limit": MOST_COUNTED})[0][0])
