"""The store in figures, for Prometheus: few numbers, each a sum over all agents."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.errors import StorageError
from jobwire.dashboard.coordination.agents import agent_rows, count_states
from jobwire.dashboard.coordination.locks import lock_view
from jobwire.dashboard.coordination.looking import looking
from jobwire.dashboard.foreign import epoch_or_zero


class StoreFigures(NamedTuple):
    """What one scrape says of agents and conversations; ages in seconds, 0 where there is nothing."""

    readable: bool = True
    unread: int = 0
    oldest_unread: float = 0.0
    blocked: int = 0
    blocked_for: float = 0.0
    dead: int = 0
    agents: Mapping[str, int] = {}
    locks: int = 0
    waiters: int = 0
    longest_wait: float = 0.0


def store_figures(home: Path, clock: Clock) -> StoreFigures:
    """Return the figures of a home; without a store all are 0, and one that cannot be read says so."""
    try:
        with looking(home) as store:
            if store is None:
                return StoreFigures(agents=count_states(()))
            now = clock.now()
            unread, oldest_ms = store.rows("unread_figures")[0]
            blocked, since = store.rows("blocked_figures")[0]
            locks = lock_view(store)
            return StoreFigures(
                unread=unread,
                oldest_unread=max(0.0, now - oldest_ms / 1000) if oldest_ms else 0.0,
                blocked=blocked,
                blocked_for=max(0.0, now - epoch_or_zero(since)) if since else 0.0,
                dead=store.rows("dead_figures")[0][0],
                agents=count_states(agent_rows(store, now, counted=False)),
                locks=locks.held,
                waiters=locks.waiting,
                longest_wait=max([now - wait.since_ms / 1000 for wait, _ in locks.waiters], default=0.0),
            )
    except StorageError:
        return StoreFigures(readable=False)
