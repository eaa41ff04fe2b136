"""File locks and their waiters as the store gives them back, and as JSON."""

from __future__ import annotations

import json
from typing import NamedTuple

from jobwire.coordination.locks.queue import HeldTarget, LockMode, LockTable, WantedTargets
from jobwire.core.clock import utc_timestamp

# A waiter says each ten seconds that it is there; a standstill of the machine costs it its place.
GONE_MS = 60_000


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
        return HeldTarget(self.agent_id, self.target, LockMode(self.mode))

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
    """Somebody who waits, in the order of the queries' columns."""

    wait_id: int
    run_id: str
    agent_id: str
    incarnation: str
    mode: str
    targets: str
    job_id: str
    since_ms: int
    seen_ms: int

    @property
    def wanted(self) -> WantedTargets:
        """Return it as the rules see it."""
        return WantedTargets(
            self.agent_id, tuple(json.loads(self.targets)), LockMode(self.mode), self.wait_id
        )

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "run_id": self.run_id,
            "paths": json.loads(self.targets),
            "agent": self.agent_id,
            "mode": self.mode,
            "job_id": self.job_id,
            "since": utc_timestamp(self.since_ms / 1000),
        }


class LockState(NamedTuple):
    """The locks and waiters of one run, or of all, at one time."""

    locks: list[FileLock]
    waits: list[LockWait]
    #: (asker, asked) of threads that are blocked by a question.
    questions: list[tuple[str, str]]

    @property
    def table(self) -> LockTable:
        """Return it as the rules see it."""
        return LockTable([lock.hold for lock in self.locks], [wait.wanted for wait in self.waits])
