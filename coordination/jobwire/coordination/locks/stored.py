"""File locks and their waiters as the store gives them back, and as JSON."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from collections.abc import Callable, Iterable, Sequence

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
    return _locks(reader.rows("file_locks", {"run_id": run_id}))


def waiting_tables(
    reader: CoordinationStore | Transaction, now_ms: int, job_ended: Callable[[str], bool]
) -> dict[str, LockTable]:
    """Return what is held and wanted now in each run in which somebody waits, as the rules see it.

    Read by columns: a row of each of a thousand waiters takes twice as long.
    """
    ended: dict[str, bool] = {"": False}
    found: dict[str, LockTable] = {}
    for (run_id,) in reader.rows("runs_with_lock_waits"):
        values = {"run_id": run_id, "now_ms": now_ms, "since_ms": now_ms - GONE_MS}
        owners, targets, modes, jobs = map(json.loads, reader.rows("held_columns", values)[0])
        ended |= {job_id: job_ended(job_id) for job_id in set(jobs).difference(ended)}
        holds = zip(owners, targets, map(_MODES.__getitem__, modes), jobs, strict=True)
        waiters, wanted, how, numbers = map(json.loads, reader.rows("wanted_columns", values)[0])
        waits = zip(waiters, wanted, map(_MODES.__getitem__, how), numbers, strict=True)
        found[run_id] = LockTable(
            [(owner, target, mode) for owner, target, mode, job_id in holds if not ended[job_id]],
            sorted(map(WantedTargets._make, waits), key=itemgetter(3)),
        )
    return found


def state_near(
    reader: CoordinationStore | Transaction, run_id: str, targets: Iterable[str], agents: Iterable[str] = ()
) -> LockState:
    """Return the locks and waits of a run that overlap these targets, and the locks of these agents.

    That is all that matters for a request of such an agent, and costs nothing for ten thousand others.
    """
    wanted = set(targets)
    if "." in wanted:
        return state_of(reader, run_id)
    near = _near(run_id, wanted, agents)
    return LockState(
        _locks(reader.rows("file_locks_near", near)), _waits(reader.rows("lock_waits_near", near))
    )


def locks_near(
    reader: CoordinationStore | Transaction, run_id: str, targets: Iterable[str]
) -> list[FileLock]:
    """Return the locks of a run that overlap these targets."""
    wanted = set(targets)
    return (
        locks_of(reader, run_id)
        if "." in wanted
        else _locks(reader.rows("file_locks_near", _near(run_id, wanted)))
    )


def _near(run_id: str, targets: Iterable[str], agents: Iterable[str] = ()) -> dict[str, str]:
    return {
        "run_id": run_id,
        "at": json.dumps(sorted({name for target in targets for name in and_above(target)})),
        "below": json.dumps([target for target in targets if not is_name(target)]),
        "agents": json.dumps(list(agents)),
    }


def waits_of(reader: CoordinationStore | Transaction, run_id: str | None) -> list[LockWait]:
    """Return who waits in a run, or in all, first come first."""
    return _waits(reader.rows("lock_waits", {"run_id": run_id}))


def _locks(rows: Sequence[tuple[Any, ...]]) -> list[FileLock]:
    return [FileLock._make(row) for row in rows]


def _waits(rows: Sequence[tuple[Any, ...]]) -> list[LockWait]:
    # One parse for all of them: a thousand small ones take a millisecond.
    targets = json.loads(f"[{','.join(row[5] for row in rows)}]")
    return [
        LockWait(run, WantedTargets(agent, tuple(names), _MODES[mode], wait_id), life, job, since, seen)
        for (wait_id, run, agent, life, mode, _, job, since, seen), names in zip(rows, targets, strict=True)
    ]
