"""Deadlocks: one graph of locks, open questions and tasks of all runs, from rows that live now; its circles.

An edge goes from a waiter to somebody who must act before it can go on: the holder of a file lock, the
agent that was asked, the worker of the task that it waits for.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.locks.changes import tell
from jobwire.coordination.locks.stored import waiting_tables
from jobwire.core.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    from jobwire.coordination.locks.queue import LockTable, WantedTargets
    from jobwire.coordination.locks.stored import LockWait
    from jobwire.coordination.store import CoordinationStore, Transaction

    # For whom an agent waits. Who is in the container may be left out, in this answer and in all later ones:
    # a search looks at nobody twice, and a queue of a thousand has half a million edges.
    Neighbours = Callable[[str, Container[str]], Iterable[str]]

# Queries that give (who waits, for whom) beside the locks.
_OTHER_EDGES = ("open_questions", "awaited_tasks")


class Deadlock(NamedTuple):
    """Agents of whom each waits for the next one, and who of them began last to wait for a lock, in a run."""

    agents: list[str]
    run_id: str
    youngest: WantedTargets | None


class WaitGraph:
    """For whom each agent waits: for one question, because what was looked at is not looked at again.

    `tables` are those of the runs in which somebody waits.
    """

    def __init__(self, tables: Mapping[str, LockTable], edges: Iterable[Sequence[str]]) -> None:
        self._tables = tables
        self._others: dict[str, list[str]] = {}
        for waiter, awaited in edges:
            self._others.setdefault(waiter, []).append(awaited)

    def through(self, agent: str) -> list[str]:
        """Return a circle that the agent is in; empty for none."""
        return circle_through(agent, self._waits_for)

    def deadlocks(self) -> list[Deadlock]:
        """Return the circles that there are."""
        return [
            Deadlock(agents, *self._youngest(agents)) for agents in circles(self._in_some(), self._waits_for)
        ]

    def _in_some(self) -> set[str]:
        """Return agents of whom each circle has one: a queue alone has none, because it has an order.

        Somewhere in a circle is an agent that others wait for whatever its place, or one with two places.
        """
        waits = Counter(agent for table in self._tables.values() for agent in table.waiters)
        needed = {agent for others in self._others.values() for agent in others}.union(
            *(table.owners for table in self._tables.values())
        )
        waiters = waits.keys() | self._others.keys()
        return (needed & waiters) | {agent for agent, count in waits.items() if count > 1}

    def _youngest(self, agents: Iterable[str]) -> tuple[str, WantedTargets | None]:
        waits = [
            (wanted.number, run_id, wanted)
            for run_id, table in self._tables.items()
            for agent in agents
            for wanted in table.waits_of(agent)
        ]
        return max(waits)[1:] if waits else ("", None)  # the numbers differ

    def _waits_for(self, agent: str, gone: Container[str]) -> Iterable[str]:
        found = self._others.get(agent, [])
        for table in self._tables.values():
            found = found + table.waits_for(agent, gone)
        return found


def edges_of(reader: CoordinationStore | Transaction) -> list[tuple[str, str]]:
    """Return who waits for whom but for locks."""
    return [(str(waiter), str(awaited)) for query in _OTHER_EDGES for waiter, awaited in reader.rows(query)]


def graph_of(
    reader: CoordinationStore | Transaction, now_ms: int, job_ended: Callable[[str], bool]
) -> WaitGraph:
    """Return who waits for whom now."""
    return WaitGraph(waiting_tables(reader, now_ms, job_ended), edges_of(reader))


def refuse_a_circle(
    change: Transaction, wait: LockWait, before: Collection[str], job_ended: Callable[[str], bool]
) -> None:
    """Raise ConflictError (deadlock) where an agent that begins to wait, behind `before`, waits for itself.

    Mostly nobody waits for the agent, or those before it wait for nobody: then nothing more is looked at.
    """
    edges, agent = edges_of(change), wait.agent_id
    asked = any(awaited == agent for _, awaited in edges)
    if not asked and change.row("lock_of_agent", {"agent_id": agent}) is None:
        return
    waits = change.row("lock_wait_of", {"agents": json.dumps(list(before))}) is not None
    if not waits and {waiter for waiter, _ in edges}.isdisjoint(before):
        return
    circle = graph_of(change, change.now_ms, job_ended).through(agent)
    if circle:
        raise ConflictError(
            f"waiting would be a deadlock: {' -> '.join([*circle, circle[0]])}",
            hint="release what you hold, or ask the next one to",
            code="deadlock",
            cycle=circle,
        )


def tell_youngest(change: Transaction, found: Iterable[Deadlock]) -> None:
    """Tell of each deadlock the agent that began last to wait, once for each time it waits."""
    for deadlock in found:
        wait = deadlock.youngest
        if wait is None:
            continue
        circle = " -> ".join([*deadlock.agents, deadlock.agents[0]])
        text = f"deadlock: {circle}; you began to wait last: release what you hold"
        message_id = f"deadlock-{wait.number}"
        if change.row("message", {"id": message_id}) is None:
            tell(change, wait.owner, "deadlock", text, run_id=deadlock.run_id, message_id=message_id)


def circle_through(start: str, neighbours: Neighbours) -> list[str]:
    """Return the agents of the shortest circle that `start` is in, from `start` on; empty for none."""
    came_from: dict[str, str] = {}
    to_look = deque([start])
    while to_look:
        agent = to_look.popleft()
        for other in neighbours(agent, came_from):
            if other in came_from:
                continue
            came_from[other] = agent
            if other == start:
                circle = [agent]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            to_look.append(other)
    return []


def circles(agents: Iterable[str], neighbours: Neighbours) -> list[list[str]]:
    """Return circles of `agents` that wait for each other, each agent in one at most.

    Wherever agents wait for each other, one of their circles is among them; who merely waits for such is in
    none.
    """
    found: list[list[str]] = []
    told: set[str] = set()
    over: set[str] = set()
    for root in sorted(agents):
        if root in over:
            continue
        path: dict[str, Iterator[str]] = {root: iter(neighbours(root, over))}
        while path:
            agent, others = next(reversed(path.items()))
            for other in others:
                if other in path:
                    circle = _from(path, other)
                    if told.isdisjoint(circle):
                        found.append(circle)
                        told.update(circle)
                elif other not in over:
                    path[other] = iter(neighbours(other, over))
                    break
            else:
                over.add(agent)
                del path[agent]
    return found


def _from(path: Iterable[str], first: str) -> list[str]:
    agents = list(path)
    return agents[agents.index(first) :]
