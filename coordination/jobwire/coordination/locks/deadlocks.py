"""Deadlocks in the store: one graph of locks, open questions and tasks of all runs, from live rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.locks.changes import tell
from jobwire.coordination.locks.queue import LockTable
from jobwire.coordination.locks.stored import GONE_MS, holds_of, waits_of
from jobwire.coordination.locks.wait_graph import circle_through, circles
from jobwire.core.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

    from jobwire.coordination.locks.queue import HeldTarget, WantedTargets
    from jobwire.coordination.locks.stored import LockState, LockWait
    from jobwire.coordination.store import CoordinationStore, Transaction

# Queries that give (who waits, for whom) beside the locks.
_OTHER_EDGES = ("open_questions", "awaited_tasks")


class Deadlock(NamedTuple):
    """Agents of whom each waits for the next one, and who of them began last to wait for a lock."""

    agents: list[str]
    youngest: LockWait | None


class WaitGraph:
    """For whom each agent waits: for one question, because what was looked at is not looked at again.

    `tables` are those of the runs in which somebody waits; `waits` stand in them, oldest first.
    """

    def __init__(
        self, tables: Collection[LockTable], waits: Sequence[LockWait], edges: Iterable[Sequence[str]]
    ) -> None:
        self._waits = waits
        self._tables = tables
        self._others: dict[str, list[str]] = {}
        for waiter, awaited in edges:
            self._others.setdefault(waiter, []).append(awaited)

    def through(self, agent: str) -> list[str]:
        """Return a circle that the agent is in; empty for none."""
        return circle_through(agent, self._waits_for)

    def deadlocks(self) -> list[Deadlock]:
        """Return the circles that there are."""
        waiters = {wait.agent_id for wait in self._waits} | self._others.keys()
        return [
            Deadlock(agents, next((wait for wait in reversed(self._waits) if wait.agent_id in agents), None))
            for agents in circles(waiters, self._waits_for)
        ]

    def _waits_for(self, agent: str, gone: Container[str]) -> Iterable[str]:
        found = self._others.get(agent, [])
        for table in self._tables:
            found = found + table.waits_for(agent, gone)
        return found


def edges_of(reader: CoordinationStore | Transaction) -> list[tuple[str, str]]:
    """Return who waits for whom but for locks."""
    return [(str(waiter), str(awaited)) for query in _OTHER_EDGES for waiter, awaited in reader.rows(query)]


def graph_of(
    reader: CoordinationStore | Transaction, now_ms: int, job_ended: Callable[[str], bool]
) -> WaitGraph:
    """Return who waits for whom now."""
    waits = [wait for wait in waits_of(reader, None) if now_ms - wait.seen_ms <= GONE_MS]
    holds = holds_of(reader, now_ms, job_ended)
    return WaitGraph(_tables(waits, holds), waits, edges_of(reader))


def refuse_a_circle(
    change: Transaction,
    wait: LockWait,
    before: Iterable[str],
    here: LockState,
    job_ended: Callable[[str], bool],
) -> None:
    """Raise ConflictError (deadlock) where an agent that begins to wait would wait for itself.

    `before` are those who go first, `here` is what was read of its run: all who wait, and the locks near.
    Mostly nobody waits for the agent, or those before it wait for nobody: then nothing more is looked at.
    """
    edges, agent = edges_of(change), wait.agent_id
    asked = any(awaited == agent for _, awaited in edges)
    if not asked and change.row("lock_of_agent", {"agent_id": agent}) is None:
        return
    others = [
        one for one in waits_of(change, None, but=wait.run_id) if change.now_ms - one.seen_ms <= GONE_MS
    ]
    waits = [*here.waits, *others]
    if {one.agent_id for one in waits}.union(waiter for waiter, _ in edges).isdisjoint(before):
        return
    holds = holds_of(change, change.now_ms, job_ended)
    # The table of this run is made already: what was not near is added.
    table, near = here.table, {lock.hold for lock in here.locks}
    table.hold(hold for hold in holds.pop(wait.run_id, ()) if hold not in near)
    table.want([wait.wanted])
    circle = WaitGraph([table, *_tables(others, holds)], [*waits, wait], edges).through(agent)
    if circle:
        raise ConflictError(
            f"waiting would be a deadlock: {' -> '.join([*circle, circle[0]])}",
            hint="release what you hold, or ask the next one to",
            code="deadlock",
            cycle=circle,
        )


def _tables(waits: Iterable[LockWait], holds: Mapping[str, Sequence[HeldTarget]]) -> list[LockTable]:
    wanted: dict[str, list[WantedTargets]] = {}
    for wait in waits:
        wanted.setdefault(wait.run_id, []).append(wait.wanted)
    return [LockTable(holds.get(run_id, ()), there) for run_id, there in wanted.items()]


def tell_youngest(change: Transaction, found: Iterable[Deadlock]) -> None:
    """Tell of each deadlock the agent that began last to wait, once for each time it waits."""
    for deadlock in found:
        wait = deadlock.youngest
        if wait is None:
            continue
        circle = " -> ".join([*deadlock.agents, deadlock.agents[0]])
        text = f"deadlock: {circle}; you began to wait last: release what you hold"
        message_id = f"deadlock-{wait.wait_id}"
        if change.row("message", {"id": message_id}) is None:
            tell(change, wait.agent_id, "deadlock", text, run_id=wait.run_id, message_id=message_id)
