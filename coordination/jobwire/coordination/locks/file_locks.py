"""File locks in the store: who may touch this file, who waits for it, and how a lock ends.

A lock is a lease of the one rule: granted seconds, extended by as much, taken by others once it has run
out, fenced by a token that rises. It ends with the job that took it, too. Whoever looks next clears what
has ended, tells the loser, and wakes the waiters that can go on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.locks.queue import LockMode, WantedTargets
from jobwire.coordination.locks.stored import GONE_MS, FileLock, LockState, LockWait
from jobwire.coordination.locks.wait_graph import cycle_through, cycles
from jobwire.coordination.message import MAX_SUMMARY, NewMessage, check_message
from jobwire.coordination.sending import Bulk, write
from jobwire.coordination.taking import STORE_AGENT
from jobwire.core.bounds import check_line, check_seconds
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, NoWorkError
from jobwire.storage import wake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobwire.coordination.store import CoordinationStore, Transaction

LOCK_SECONDS = 1800.0
MAX_TARGETS = 1000
MAX_REASON = 512
_SEEN_EVERY_MS = 10_000
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


class Locks:
    """The locks of a store. `job_ended` tells of a job whether it is over. Raises as the store does."""

    def __init__(self, store: CoordinationStore, *, job_ended: Callable[[str], bool]) -> None:
        self._store = store
        self._job_ended = job_ended

    def acquire(self, asked: LockRequest, *, wait_seconds: float = 0.0) -> list[FileLock]:
        """Take all of them, waiting so long; what one holds already is extended.

        Raises ConflictError: locked, with who holds it until when; deadlock, with the cycle; NoWorkError
        (timeout) after waiting in vain.
        """
        _check(asked)
        with self._store.changing() as change:
            state = self._cleared(change, asked.run_id)
            if not state.table.blockers(_wanted(asked)):
                return _grant(change, asked, state)
            if wait_seconds <= 0:
                raise _locked(asked, state)
            wait_id = _begin_to_wait(change, asked)
        granted: list[FileLock] | None = None
        try:
            granted = wake.wait_until(
                lambda: self._look_again(asked, wait_id),
                home=self._store.home,
                names=[f"resource:{_waiting_name(wait_id)}"],
                seconds=wait_seconds,
                clock=self._store.clock,
            )
        finally:
            if granted is None:
                self._give_up(wait_id, asked.run_id)
        if granted is None:
            raise NoWorkError(
                f"no lock on {_names(asked.targets)} within {wait_seconds:g} s",
                hint="`jobwire lock list` shows who holds it",
                code="timeout",
            )
        return granted

    def renew(
        self, agent: str, targets: Sequence[str] = (), *, run_id: str, token: int | None = None
    ) -> list[FileLock]:
        """Extend these, or all of the agent's, by what was granted; raises ConflictError (lease_lost)."""
        with self._store.changing() as change:
            owned = _owned(self._cleared(change, run_id), agent, targets, token)
            return [_put(change, _extended(lock, change.now_ms)) for lock in owned]

    def release(
        self, agent: str, targets: Sequence[str] = (), *, run_id: str, token: int | None = None
    ) -> list[FileLock]:
        """Give these back, or all of the agent's; raises ConflictError (lease_lost) for what it lost."""
        with self._store.changing() as change:
            owned = _owned(self._cleared(change, run_id), agent, targets, token)
            for lock in owned:
                _end(change, lock, "FILE_UNLOCK", source=agent)
            _wake(change, _state(change, run_id))
            return owned

    def conflicts(
        self, agent: str, targets: Iterable[str], *, run_id: str, mode: LockMode = LockMode.EXCLUSIVE
    ) -> list[FileLock]:
        """Return the locks of others that stand in the way of these targets now. Changes nothing."""
        state = self.state(run_id)
        holds = set(state.table.holders(WantedTargets(agent, tuple(targets), mode)))
        return [lock for lock in state.locks if lock.hold in holds]

    def wait_until_free(
        self, agent: str, targets: Sequence[str], *, run_id: str, seconds: float
    ) -> list[FileLock]:
        """Wait until nobody else holds them, taking nothing; return who still does after `seconds`."""

        def look() -> bool | None:
            return None if self.conflicts(agent, targets, run_id=run_id) else True

        names = [f"resource:{target}" for target in targets]
        wake.wait_until(look, home=self._store.home, names=names, seconds=seconds, clock=self._store.clock)
        return self.conflicts(agent, targets, run_id=run_id)

    def state(self, run_id: str | None = None) -> LockState:
        """Return the locks and waiters of a run, or of all, as they are now. Changes nothing."""
        now_ms = int(self._store.clock.now() * 1000)
        with self._store.reading():
            state = _state(self._store, run_id)
        return state._replace(
            locks=[lock for lock in state.locks if not self._over(lock, now_ms)],
            waits=[wait for wait in state.waits if now_ms - wait.seen_ms <= GONE_MS],
        )

    def deadlocks(self, run_id: str | None = None) -> list[list[str]]:
        """Return circles of agents, each of whom waits for the next one."""
        state = self.state(run_id)
        waiters = {wait.agent_id for wait in state.waits} | {asker for asker, _ in state.questions}
        return [_forward(circle) for circle in cycles(waiters, _neighbours(state))]

    def ask_to_break(self, by: str, target: str, *, run_id: str, reason: str) -> list[FileLock]:
        """Ask for the end of somebody's locks on `target`; a second agent must confirm."""
        check_line("reason", reason, MAX_REASON)
        with self._store.changing() as change:
            locks = _at(self._cleared(change, run_id), target)
            return [_put(change, lock._replace(break_by=by, break_reason=reason)) for lock in locks]

    def confirm_break(self, by: str, target: str, *, run_id: str) -> list[FileLock]:
        """End the locks whose end somebody else asked for, and tell the losers."""
        with self._store.changing() as change:
            locks = _at(self._cleared(change, run_id), target)
            asked = [lock for lock in locks if lock.break_by not in {"", by}]
            if not asked:
                raise ConflictError(
                    f"nobody but {by} asked to break the lock on {target}",
                    hint="one agent asks with `lock break PATH --reason ...`, another one confirms",
                    code="not_expected",
                )
            for lock in asked:
                _lose(change, lock, f"broken by {lock.break_by} and {by}: {lock.break_reason}")
            _wake(change, _state(change, run_id))
            return asked

    def clear(self) -> list[FileLock]:
        """End what has run out, tell the losers and wake who waited; return what ended."""
        now_ms = int(self._store.clock.now() * 1000)
        locks = [FileLock(*row) for row in self._store.rows("file_locks", {"run_id": None})]
        if not any(self._over(lock, now_ms) for lock in locks):
            return []
        with self._store.changing() as change:
            runs = {lock.run_id for lock in locks}
            left = [lock for run_id in runs for lock in self._cleared(change, run_id).locks]
            return [lock for lock in locks if lock not in left]

    def _look_again(self, asked: LockRequest, wait_id: int) -> list[FileLock] | None:
        """Take the locks if it is our turn. Mostly it only reads, so that many waiters cost little."""
        state = self.state(asked.run_id)
        mine = next((wait for wait in state.waits if wait.wait_id == wait_id), None)
        now_ms = int(self._store.clock.now() * 1000)
        if mine and now_ms - mine.seen_ms < _SEEN_EVERY_MS and state.table.blockers(mine.wanted):
            return None
        with self._store.changing() as change:
            if not change.execute("see_lock_wait", {"wait_id": wait_id, "now_ms": change.now_ms}):
                # Thought gone after a standstill: at the same place again.
                _insert_wait(change, asked, wait_id)
            now = self._cleared(change, asked.run_id)
            if now.table.blockers(_wanted(asked, wait_id)):
                return None
            change.execute("remove_lock_wait", {"wait_id": wait_id})
            granted = _grant(change, asked, now)
            # Who shares may go on with us.
            _wake(change, _state(change, asked.run_id))
            return granted

    def _give_up(self, wait_id: int, run_id: str) -> None:
        with self._store.changing() as change:
            change.execute("remove_lock_wait", {"wait_id": wait_id})
            _wake(change, _state(change, run_id))

    def _over(self, lock: FileLock, now_ms: int) -> bool:
        return lock.lease_until_ms <= now_ms or bool(lock.job_id and self._job_ended(lock.job_id))

    def _cleared(self, change: Transaction, run_id: str) -> LockState:
        """Return what holds in a run, after ending what has run out."""
        state = _state(change, run_id)
        over = [lock for lock in state.locks if self._over(lock, change.now_ms)]
        for lock in over:
            expired = lock.lease_until_ms <= change.now_ms
            _lose(change, lock, "it ran out" if expired else f"job {lock.job_id} ended")
        gone = [wait for wait in state.waits if change.now_ms - wait.seen_ms > GONE_MS]
        for wait in gone:
            change.execute("remove_lock_wait", {"wait_id": wait.wait_id})
        if over or gone:
            state = _state(change, run_id)
            _wake(change, state)
        return state


def revoke(change: Transaction, agent: str, why: str) -> None:
    """End all locks of an agent that is dead, and wake who waited for them."""
    locks = [FileLock(*row) for row in change.rows("file_locks", {"run_id": None}) if row[2] == agent]
    for lock in locks:
        _lose(change, lock, why)
    for run_id in {lock.run_id for lock in locks}:
        _wake(change, _state(change, run_id))


def root_of(store: CoordinationStore, run_id: str, *, wanted: str | None, default: str) -> str:
    """Return the folder that the run works on; `wanted` sets it, and must be it once there are locks."""
    found = next((str(row[0]) for row in store.rows("run_root", {"run_id": run_id})), None)
    if found is not None and wanted in {None, found}:
        return found
    with store.changing() as change:
        change.execute("put_run_root", {"run_id": run_id, "root": wanted or default})
        stored = str(change.rows("run_root", {"run_id": run_id})[0][0])
    if wanted not in {None, stored}:
        raise ConflictError(
            f"run {run_id} has locks below {stored}",
            hint="release them first, or name another run",
            code="not_expected",
        )
    return stored


def _check(asked: LockRequest) -> None:
    check_seconds("ttl", asked.seconds)
    if not asked.targets:
        raise InvalidInputError("nothing to lock", hint="name at least one path", code="invalid_input")
    if len(asked.targets) > MAX_TARGETS:
        raise InvalidInputError(
            f"{len(asked.targets)} paths in one request, {MAX_TARGETS} are allowed",
            hint="lock the folder above them",
            code="too_large",
        )


def _state(reader: CoordinationStore | Transaction, run_id: str | None) -> LockState:
    values = {"run_id": run_id}
    return LockState(
        [FileLock(*row) for row in reader.rows("file_locks", values)],
        [LockWait(*row) for row in reader.rows("lock_waits", values)],
        [(str(asker), str(asked)) for asker, asked in reader.rows("open_questions")],
    )


def _neighbours(state: LockState) -> Callable[[str], list[str]]:
    """Return the function that gives who waits for an agent: for its locks, or for its answer."""
    table = state.table
    askers: dict[str, list[str]] = {}
    for asker, asked in state.questions:
        askers.setdefault(asked, []).append(asker)
    return lambda agent: [*table.waiters_of(agent), *askers.get(agent, ())]


def _forward(circle: list[str]) -> list[str]:
    """Return a circle of waiters-of in the order in which they wait."""
    return [circle[0], *reversed(circle[1:])] if circle else []


def _wanted(asked: LockRequest, number: int | None = None) -> WantedTargets:
    wanted = WantedTargets(asked.agent_id, asked.targets, asked.mode)
    return wanted if number is None else wanted._replace(number=number)


def _begin_to_wait(change: Transaction, asked: LockRequest) -> int:
    wait_id = change.event(
        "lock_wait", source=asked.agent_id, run_id=asked.run_id, summary=_names(asked.targets)
    )
    _insert_wait(change, asked, wait_id)
    waiting = _state(change, asked.run_id)
    circle = _forward(cycle_through(asked.agent_id, _neighbours(waiting)))
    if circle:
        raise ConflictError(
            f"waiting would be a deadlock: {' -> '.join([*circle, circle[0]])}",
            hint="release what you hold, or ask the next one to",
            code="deadlock",
            cycle=circle,
        )
    return wait_id


def _insert_wait(change: Transaction, asked: LockRequest, wait_id: int) -> None:
    change.execute(
        "insert_lock_wait",
        {
            "wait_id": wait_id,
            "run_id": asked.run_id,
            "agent_id": asked.agent_id,
            "incarnation": asked.incarnation,
            "mode": asked.mode.value,
            "targets": json.dumps(asked.targets),
            "job_id": asked.job_id,
            "since_ms": change.now_ms,
        },
    )


def _grant(change: Transaction, asked: LockRequest, state: LockState) -> list[FileLock]:
    own = {lock.target: lock for lock in state.locks if lock.agent_id == asked.agent_id}
    new = [target for target in asked.targets if target not in own]
    token = 0
    for target in new:
        token = change.event(
            "FILE_LOCK", source=asked.agent_id, run_id=asked.run_id, summary=target[:MAX_SUMMARY]
        )
    until = change.now_ms + int(asked.seconds * 1000)
    granted: list[FileLock] = []
    for target in dict.fromkeys(asked.targets):
        lock = own.get(target) or FileLock(
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
        granted.append(_put(change, lock._replace(lease_until_ms=max(until, lock.lease_until_ms))))
    return granted


def _put(change: Transaction, lock: FileLock) -> FileLock:
    change.execute("put_file_lock", lock._asdict())
    return lock


def _extended(lock: FileLock, now_ms: int) -> FileLock:
    return lock._replace(lease_until_ms=max(lock.lease_until_ms, now_ms + int(lock.lease_seconds * 1000)))


def _owned(state: LockState, agent: str, targets: Sequence[str], token: int | None) -> list[FileLock]:
    own = {lock.target: lock for lock in state.locks if lock.agent_id == agent}
    wanted = list(dict.fromkeys(targets)) or list(own)
    for target in wanted:
        lock = own.get(target)
        if lock is None or token not in {None, lock.token}:
            holders = [other.agent_id for other in state.locks if other.target == target]
            raise ConflictError(
                f"{agent} no longer holds {target}"
                + (f": {', '.join(holders)} does" if holders and lock is None else ""),
                hint="stop writing to it; `jobwire lock acquire` asks for it again",
                code="lease_lost",
                path=target,
            )
    return [own[target] for target in wanted]


def _at(state: LockState, target: str) -> list[FileLock]:
    locks = [lock for lock in state.locks if lock.target == target]
    if not locks:
        raise ConflictError(
            f"nobody holds {target}", hint="`jobwire lock list` shows what is held", code="not_expected"
        )
    return locks


def _lose(change: Transaction, lock: FileLock, why: str) -> None:
    _end(change, lock, "FILE_UNLOCK", source=STORE_AGENT)
    lost = NewMessage(
        from_agent=STORE_AGENT,
        to=(lock.agent_id,),
        kind="control",
        type="lock_lost",
        summary=f"your lock on {lock.target} ended: {why}"[:MAX_SUMMARY],
        run_id=lock.run_id,
    )
    new = check_message(lost)
    write(change, new, Bulk.inline(new))


def _end(change: Transaction, lock: FileLock, event_type: str, *, source: str) -> None:
    change.execute(
        "remove_file_lock", {"run_id": lock.run_id, "target": lock.target, "agent_id": lock.agent_id}
    )
    change.event(event_type, source=source, run_id=lock.run_id, summary=lock.target[:MAX_SUMMARY])
    change.resources.add(lock.target)


def _wake(change: Transaction, state: LockState) -> None:
    """Wake the waiters who can go on, and nobody else."""
    table = state.table
    for wait in state.waits:
        if not table.blockers(wait.wanted):
            change.resources.add(_waiting_name(wait.wait_id))


def _waiting_name(wait_id: int) -> str:
    return f"lock-wait-{wait_id}"


def _locked(asked: LockRequest, state: LockState) -> ConflictError:
    holds = set(state.table.holders(_wanted(asked)))
    locks = [lock for lock in state.locks if lock.hold in holds]
    if not locks:
        return ConflictError(
            f"others wait for {_names(asked.targets)}", hint="--wait SECONDS waits behind them", code="locked"
        )
    until = utc_timestamp(max(lock.lease_until_ms for lock in locks) / 1000)
    return ConflictError(
        f"{locks[0].target} is held by {locks[0].agent_id} until {until}",
        hint="--wait SECONDS waits for it; `jobwire lock list` shows what is held",
        code="locked",
        holder=locks[0].agent_id,
        until=until,
        path=locks[0].target,
    )


def _names(targets: Sequence[str]) -> str:
    more = f" and {len(targets) - _NAMED} more" if targets[_NAMED:] else ""
    return (", ".join(targets[:_NAMED])[: MAX_SUMMARY - len(more)]) + more
