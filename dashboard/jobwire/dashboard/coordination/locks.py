"""File locks, read from the store: who holds, who waits for whom, and circles of those."""

from typing import NamedTuple

from jobwire.coordination.locks.deadlocks import edges_of
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.stored import LockState
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.coordination.thread_rows import cut

MOST_LOCKS = 500
MOST_WAITERS = 200
_NAMED = 20


class LockRow(NamedTuple):
    """One lock for a table. Times in epoch seconds; `broken_by` asked for its end."""

    target: str
    run: str
    agent: str
    mode: str
    since: float
    until: float
    job: str
    broken_by: str
    reason: str


class WaiterRow(NamedTuple):
    """Somebody who waits for a lock, and for whom: holders first, then those who came before."""

    agent: str
    targets: tuple[str, ...]
    run: str
    mode: str
    since: float
    before: tuple[str, ...]


class LockView(NamedTuple):
    """The locks and waiters of a home. `asked`: (waiter, awaited) of open questions; `circles` of agents."""

    locks: list[LockRow]
    waiters: list[WaiterRow]
    asked: list[tuple[str, str]]
    circles: list[list[str]]
    held: int
    waiting: int

    def to_json(self) -> dict[str, object]:
        """Return it for the page."""
        return {
            **self._asdict(),
            "locks": [row._asdict() for row in self.locks],
            "waiters": [row._asdict() for row in self.waiters],
        }


def lock_view(store: CoordinationStore) -> LockView:
    """Return the locks and waiters of all runs, as they are now."""
    locks = Locks(store)
    state = locks.state()
    held = [
        LockRow(
            cut(lock.target),
            cut(lock.run_id),
            lock.agent_id,
            lock.mode,
            lock.acquired_ms / 1000,
            lock.lease_until_ms / 1000,
            lock.job_id,
            lock.break_by,
            cut(lock.break_reason),
        )
        for lock in sorted(state.locks, key=lambda lock: (lock.acquired_ms, lock.target))[:MOST_LOCKS]
    ]
    asked = [(cut(waiter), cut(awaited)) for waiter, awaited in edges_of(store)[:MOST_WAITERS]]
    return LockView(
        held, _waiters(state), asked, locks.deadlocks(), held=len(state.locks), waiting=len(state.waits)
    )


def _waiters(state: LockState) -> list[WaiterRow]:
    shown = state.waits[:MOST_WAITERS]
    tables = {
        run: LockState(
            [lock for lock in state.locks if lock.run_id == run],
            [wait for wait in state.waits if wait.run_id == run],
        ).table
        for run in {wait.run_id for wait in shown}
    }
    return [
        WaiterRow(
            wait.agent_id,
            tuple(map(cut, wait.wanted.targets[:_NAMED])),
            cut(wait.run_id),
            wait.wanted.mode.value,
            wait.since_ms / 1000,
            tuple(tables[wait.run_id].blockers(wait.wanted)[:_NAMED]),
        )
        for wait in shown
    ]
