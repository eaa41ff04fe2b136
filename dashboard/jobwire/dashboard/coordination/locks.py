"""File locks, read from the store: who holds, who waits for whom, and circles of those."""

from typing import NamedTuple

from jobwire.coordination.locks.deadlocks import edges_of
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.stored import FileLock, LockState, LockWait
from jobwire.coordination.store import CoordinationStore
from jobwire.dashboard.foreign import cut

MOST_LOCKS = 500
MOST_WAITERS = 200
_NAMED = 20


class LockView(NamedTuple):
    """The locks and waiters of a home; how many there are of them (`held`, `waiting`) may be more.

    Each waiter stands with those it waits for: holders first, then those who came before. `asked`:
    (waiter, awaited) of open questions; `circles` of agents.
    """

    locks: list[FileLock]
    waiters: list[tuple[LockWait, list[str]]]
    asked: list[tuple[str, str]]
    circles: list[list[str]]
    held: int
    waiting: int

    def to_json(self) -> dict[str, object]:
        """Return it for the page; times in epoch seconds, `broken_by` asked for a lock's end."""
        return {
            **self._asdict(),
            "locks": [
                {
                    "target": cut(lock.target),
                    "run": cut(lock.run_id),
                    "agent": lock.agent_id,
                    "mode": lock.mode,
                    "since": lock.acquired_ms / 1000,
                    "until": lock.lease_until_ms / 1000,
                    "job": lock.job_id,
                    "broken_by": lock.break_by,
                    "reason": cut(lock.break_reason),
                }
                for lock in self.locks
            ],
            "waiters": [
                {
                    "agent": wait.agent_id,
                    "targets": [cut(target) for target in wait.wanted.targets[:_NAMED]],
                    "run": cut(wait.run_id),
                    "mode": wait.wanted.mode.value,
                    "since": wait.since_ms / 1000,
                    "before": before,
                }
                for wait, before in self.waiters
            ],
        }


def lock_view(store: CoordinationStore) -> LockView:
    """Return the locks and waiters of all runs, as they are now."""
    locks = Locks(store)
    state = locks.state()
    return LockView(
        sorted(state.locks, key=lambda lock: (lock.acquired_ms, lock.target))[:MOST_LOCKS],
        _waiters(state),
        [(cut(waiter), cut(awaited)) for waiter, awaited in edges_of(store)[:MOST_WAITERS]],
        locks.deadlocks(),
        held=len(state.locks),
        waiting=len(state.waits),
    )


def _waiters(state: LockState) -> list[tuple[LockWait, list[str]]]:
    shown = state.waits[:MOST_WAITERS]
    tables = {
        run: LockState(
            [lock for lock in state.locks if lock.run_id == run],
            [wait for wait in state.waits if wait.run_id == run],
        ).table
        for run in {wait.run_id for wait in shown}
    }
    return [(wait, tables[wait.run_id].blockers(wait.wanted)[:_NAMED]) for wait in shown]
