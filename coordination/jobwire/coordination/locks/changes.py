"""What happens to locks within one transaction: granted, extended, ended, lost; who is woken by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.locks.queue import LockMode, WantedTargets
from jobwire.coordination.locks.stored import FileLock, LockWait, state_near
from jobwire.coordination.message import MAX_SUMMARY, STORE_AGENT, NewMessage
from jobwire.coordination.sending import post

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobwire.coordination.store import Transaction

LOCK_SECONDS = 1800.0
_NAMED = 3


class LockRequest(NamedTuple):
    """What is asked for: canonical targets of a run, all or none of them."""

    agent_id: str
    targets: tuple[str, ...]
    run_id: str = "default"
    mode: LockMode = LockMode.EXCLUSIVE
    seconds: float = LOCK_SECONDS
    incarnation: str = ""
    job_id: str = ""

    def wanted(self, number: int = 1 << 62) -> WantedTargets:
        """Return it as the rules see it, at its place in the queue; without, behind all others."""
        return WantedTargets(self.agent_id, self.targets, self.mode, number)


def grant(
    change: Transaction, asked: LockRequest, locks: Iterable[FileLock], since_ms: int | None = None
) -> list[FileLock]:
    """Give an agent what it asks for; what it holds of it, of `locks`, is extended.

    `since_ms`: it has waited since then, which its events tell.
    """
    own = {lock.target: lock for lock in locks if lock.agent_id == asked.agent_id}
    payload = {} if since_ms is None else {"waited_ms": max(0, change.now_ms - since_ms)}
    until = change.now_ms + int(asked.seconds * 1000)
    granted: list[FileLock] = []
    for target in asked.targets:
        lock = own.get(target)
        if lock is None:
            token = change.event(
                "FILE_LOCK",
                source=asked.agent_id,
                run_id=asked.run_id,
                summary=target[:MAX_SUMMARY],
                payload=payload,
            )
            lock = FileLock(
                asked.run_id,
                target,
                asked.agent_id,
                asked.mode.value,
                asked.incarnation,
                asked.job_id,
                token,
                asked.seconds,
                change.now_ms,
                until,
            )
        if asked.mode is LockMode.EXCLUSIVE:
            lock = lock._replace(mode=asked.mode.value)
        granted.append(put(change, lock._replace(lease_until_ms=max(until, lock.lease_until_ms))))
    return granted


def put(change: Transaction, lock: FileLock) -> FileLock:
    """Write a lock as it is now."""
    change.execute("put_file_lock", lock._asdict())
    return lock


def extend(change: Transaction, lock: FileLock) -> FileLock:
    """Extend a lock by what was granted."""
    until = change.now_ms + int(lock.lease_seconds * 1000)
    return put(change, lock._replace(lease_until_ms=max(lock.lease_until_ms, until)))


def end(change: Transaction, lock: FileLock, *, source: str) -> None:
    """Take a lock away, and wake who waits for just this one."""
    change.execute(
        "remove_file_lock", {"run_id": lock.run_id, "target": lock.target, "agent_id": lock.agent_id}
    )
    change.event("FILE_UNLOCK", source=source, run_id=lock.run_id, summary=lock.target[:MAX_SUMMARY])
    change.resources.add(lock.target)


def lose(change: Transaction, lock: FileLock, why: str) -> None:
    """Take a lock away from an agent that did not give it back, and tell it."""
    end(change, lock, source=STORE_AGENT)
    tell(change, lock.agent_id, "lock_lost", f"your lock on {lock.target} ended: {why}", run_id=lock.run_id)


def tell(
    change: Transaction, agent: str, message_type: str, text: str, *, run_id: str, message_id: str = ""
) -> None:
    """Tell an agent something about its locks."""
    post(
        change,
        NewMessage(
            from_agent=STORE_AGENT,
            to=(agent,),
            kind="control",
            type=message_type,
            summary=text[:MAX_SUMMARY],
            run_id=run_id,
            id=message_id,
        ),
    )


def begin_to_wait(change: Transaction, asked: LockRequest) -> LockWait:
    """Put a request into the queue."""
    number = change.event(
        "lock_wait", source=asked.agent_id, run_id=asked.run_id, summary=named(asked.targets)
    )
    return insert_wait(change, asked, number)


def insert_wait(change: Transaction, asked: LockRequest, number: int) -> LockWait:
    """Put a request into the queue, at the place that it had."""
    wait = {
        "wait_id": number,
        "run_id": asked.run_id,
        "agent_id": asked.agent_id,
        "incarnation": asked.incarnation,
        "mode": asked.mode.value,
        "targets": json.dumps(asked.targets),
        "job_id": asked.job_id,
        "since_ms": change.now_ms,
    }
    change.execute("insert_lock_wait", wait)
    change.execute("insert_lock_wait_targets", wait)
    return LockWait(
        asked.run_id, asked.wanted(number), asked.incarnation, asked.job_id, change.now_ms, change.now_ms
    )


def wake_waiters(change: Transaction, run_id: str, targets: Iterable[str]) -> None:
    """Wake the waiters who can go on now that something about these targets changed, and nobody else."""
    near = state_near(change, run_id, targets).waits
    if not near:
        return
    wanted = {target for wait in near for target in wait.wanted.targets}
    table = state_near(change, run_id, wanted, {wait.agent_id for wait in near}).table
    for wait in near:
        if not table.is_blocked(wait.wanted):
            change.resources.add(waiting_name(wait.wait_id))


def waiting_name(wait_id: int) -> str:
    """Return the name by which a waiter is woken."""
    return f"lock-wait-{wait_id}"


def named(targets: Sequence[str]) -> str:
    """Return the first targets of a request, in one line."""
    more = f" and {len(targets) - _NAMED} more" if targets[_NAMED:] else ""
    return (", ".join(targets[:_NAMED])[: MAX_SUMMARY - len(more)]) + more
