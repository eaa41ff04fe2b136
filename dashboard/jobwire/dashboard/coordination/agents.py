"""Who is there, read from the store."""

import json

from jobwire.coordination.agents import gone, present
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.coordination.agent_rows import AgentRow, agent_row, arrange_agents, count_states

# Who left or died is shown for a day; more than these are no list for people.
_GONE_SECONDS = 86_400
_MOST_GONE = 100
MOST_AGENTS = 2000
MOST_COUNTED = 100


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
