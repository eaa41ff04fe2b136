"""File locks and their waiters as the store gives them back, and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.locks.queue import (
    HeldTarget,
    LockMode,
    LockTable,
    WantedTargets,
    and_above,
    is_name,
)
from jobwire.core.clock import utc_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobwire.coordination.store import CoordinationStore, Transaction

# A waiter says each ten seconds that it is there; a standstill of the machine costs it its place.
GONE_MS = 60_000
_MODES = {mode.value: mode for mode in LockMode}


class FileLock(NamedTuple):
    """One lock, in the order of the queries' columns."""

    run_id: str
    target: str
    agent_id: str
    mode: str
    incarnation: str
    job_id: str
    token: int
    lease_seconds: float
    acquired_ms: int
    lease_until_ms: int
    break_by: str = ""
    break_reason: str = ""

    @property
    def hold(self) -> HeldTarget:
        """Return it as the rules see it."""
        return HeldTarget(self.agent_id, self.target, _MODES[self.mode])

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it; times as ISO 8601 UTC."""
        return {
            "run_id": self.run_id,
            "path": self.target,
            "agent": self.agent_id,
            "mode": self.mode,
            "token": self.token,
            "job_id": self.job_id,
            "lease_seconds": self.lease_seconds,
            "acquired_at": utc_timestamp(self.acquired_ms / 1000),
            "expires_at": utc_timestamp(self.lease_until_ms / 1000),
            "break_asked_by": self.break_by,
            "break_reason": self.break_reason,
        }


class LockWait(NamedTuple):
    """Somebody who waits."""

    run_id: str
    wanted: WantedTargets
    incarnation: str
    job_id: str
    since_ms: int
    seen_ms: int

    @property
    def wait_id(self) -> int:
        """Return the event of its beginning."""
        return self.wanted.number

    @property
    def agent_id(self) -> str:
        """Return who waits."""
        return self.wanted.owner

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "run_id": self.run_id,
            "paths": list(self.wanted.targets),
            "agent": self.agent_id,
            "mode": self.wanted.mode.value,
            "job_id": self.job_id,
            "since": utc_timestamp(self.since_ms / 1000),
        }


class LockState(NamedTuple):
    """Locks and waiters at one time: of all runs, of one, or near some targets."""

    locks: list[FileLock]
    waits: list[LockWait]

    @property
    def table(self) -> LockTable:
        """Return those of one run as the rules see them."""
        return LockTable([lock.hold for lock in self.locks], [wait.wanted for wait in self.waits])


def state_of(reader: CoordinationStore | Transaction, run_id: str | None) -> LockState:
    """Return all locks and waiters of a run, or of all."""
    return LockState(locks_of(reader, run_id), waits_of(reader, run_id))


def locks_of(reader: CoordinationStore | Transaction, run_id: str | None = None) -> list[FileLock]:
    """Return all locks of a run, or of all."""
    return [FileLock._make(row) for row in reader.rows("file_locks", {"run_id": run_id})]


def holds_of(
    reader: CoordinationStore | Transaction, now_ms: int, job_ended: Callable[[str], bool]
) -> dict[str, list[HeldTarget]]:
    """Return what is held now in each run, as the rules see it."""
    ended: dict[str, bool] = {"": False}
    found: dict[str, list[HeldTarget]] = defaultdict(list)
    for run_id, target, agent, mode, job_id in reader.rows("held_targets", {"now_ms": now_ms}):
        if job_id not in ended:
            ended[job_id] = job_ended(job_id)
        if not ended[job_id]:
            found[run_id].append(HeldTarget(agent, target, _MODES[mode]))
    return found


def state_near(
    reader: CoordinationStore | Transaction, run_id: str, targets: Iterable[str], agents: Iterable[str] = ()
) -> LockState:
    """Return the waiters of a run, the locks that overlap these targets, and those of these agents.

    That is all that matters for a request of such an agent, and costs nothing for ten thousand other locks.
    """
    return LockState(locks_near(reader, run_id, targets, agents), waits_of(reader, run_id))


def locks_near(
    reader: CoordinationStore | Transaction, run_id: str, targets: Iterable[str], agents: Iterable[str] = ()
) -> list[FileLock]:
    """Return the locks that overlap these targets, and those of these agents."""
    wanted = set(targets)
    if "." in wanted:
        rows = reader.rows("file_locks", {"run_id": run_id})
    else:
        at = sorted({name for target in wanted for name in and_above(target)})
        below = [target for target in wanted if not is_name(target)]
        values = {
            "run_id": run_id,
            "at": json.dumps(at),
            "below": json.dumps(below),
            "agents": json.dumps(list(agents)),
        }
        rows = reader.rows("file_locks_near", values)
    return [FileLock._make(row) for row in rows]


def waits_of(
    reader: CoordinationStore | Transaction, run_id: str | None, *, but: str | None = None
) -> list[LockWait]:
    """Return who waits in a run, or in all `but` one, first come first."""
    rows = reader.rows("lock_waits", {"run_id": run_id, "but": but})
    # One parse for all of them: a thousand small ones take a millisecond.
    targets = json.loads(f"[{','.join(row[5] for row in rows)}]")
    return [
        LockWait(run, WantedTargets(agent, tuple(names), _MODES[mode], wait_id), life, job, since, seen)
        for (wait_id, run, agent, life, mode, _, job, since, seen), names in zip(rows, targets, strict=True)
    ]
