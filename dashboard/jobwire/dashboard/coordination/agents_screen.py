"""`jobwire top`: the agents, and the file locks that they hold and wait for."""

import time
from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual.binding import BindingType

from jobwire.coordination.locks.stored import FileLock, LockWait
from jobwire.coordination.store import CoordinationStore
from jobwire.core.override import override
from jobwire.core.terminal_text import one_line
from jobwire.dashboard.coordination.agents import AgentRow, AgentState, agent_rows, count_states
from jobwire.dashboard.coordination.locks import LockView, lock_view
from jobwire.dashboard.coordination.store_screen import Line, StoreScreen
from jobwire.dashboard.fleet import words

_STYLES = {
    AgentState.BLOCKED: "bold yellow",
    AgentState.DEAD: "bold red",
    AgentState.STALE: "bold magenta",
    AgentState.WORKING: "cyan",
    AgentState.IDLE: "dim",
    AgentState.STOPPED: "dim",
    AgentState.LEFT: "dim",
}
_NAMED = 5


class AgentsScreen(StoreScreen):
    """Agents with what they do, then locks and waiters."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,g,backspace", "dismiss", "Back")]

    @override
    def lines(self, store: CoordinationStore | None) -> Iterable[Line]:
        """Return agents, locks and waiters."""
        if store is None:
            return [("no agent has joined: jobwire agent join --agent NAME", "")]
        at = time.time()
        agents, locks = agent_rows(store, at), lock_view(store)
        return [*agent_lines(agents, at, self.size.width - 4), *lock_lines(locks, at)]


def agent_lines(rows: list[AgentRow], at: float, width: int) -> Iterator[Line]:
    """Yield the agents as lines with their styles, each safe on a terminal."""
    counts = [f"{count} {state}" for state, count in count_states(rows).items() if count]
    yield "agents: " + (", ".join(counts) or "none"), "bold"
    if rows:
        yield f"{'AGENT':<16} {'STATE':<8} {'LAST':>6} {'UNREAD':>6}  ON WHAT", "dim"
    for row in rows:
        progress = "" if row.progress is None else f"{row.progress:.0%} "
        what = one_line(progress + row.task, max(width - 40, 20))
        state = f"{row.state}{'!' if row.late else ''}"
        name = one_line(row.name, 16)
        last = words(at - row.last).split()[0]
        yield f"{name:<16} {state:<8} {last:>6} {row.unread or '':>6}  {what}".rstrip(), _STYLES[row.state]


def lock_lines(view: LockView, at: float) -> Iterator[Line]:
    """Yield locks, waiters and circles as lines with their styles, each safe on a terminal."""
    yield "", ""
    yield f"locks: {view.held} held, {view.waiting} waiting", "bold"
    for lock in view.locks:
        yield _held(lock, at), ""
    for waiter, before in view.waiters:
        yield _waits(waiter, before, at), "yellow"
    for circle in view.circles:
        yield one_line(f"deadlock: {' -> '.join([*circle, circle[0]])}", 300), "bold red"


def _held(lock: FileLock, at: float) -> str:
    mode = " (shared)" if lock.mode == "shared" else ""
    asked = f", {lock.break_by} asks to break it" if lock.break_by else ""
    return one_line(
        f"  {lock.target}: {lock.agent_id}{mode} for {words(at - lock.acquired_ms / 1000)},"
        f" {words(lock.lease_until_ms / 1000 - at)} left{asked}",
        300,
    )


def _waits(wait: LockWait, before: list[str], at: float) -> str:
    behind = ", ".join(before[:_NAMED]) or "its turn"
    targets = ", ".join(wait.wanted.targets[:_NAMED])
    return one_line(
        f"  {wait.agent_id} waits {words(at - wait.since_ms / 1000)} for {targets}: {behind}", 300
    )
