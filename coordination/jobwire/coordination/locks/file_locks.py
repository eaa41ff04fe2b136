"""File locks in the store: who may touch this file, who waits for it, and how a lock ends.

A lock is a lease of the one rule: granted seconds, extended by as much, taken by others once it has run
out, fenced by a token that rises. It ends with the job that took it, too. Whoever looks next clears what
has ended, tells the loser, and wakes the waiters that can go on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jobwire.coordination.locks import changes, deadlocks
from jobwire.coordination.locks.queue import LockMode, WantedTargets
from jobwire.coordination.locks.stored import (
    GONE_MS,
    FileLock,
    LockState,
    LockWait,
    locks_near,
    state_near,
    state_of,
    waits_of,
)
from jobwire.core.bounds import check_line, check_seconds
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError, NoWorkError, StorageError
from jobwire.storage import wake

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from jobwire.coordination.locks.changes import LockRequest
    from jobwire.coordination.locks.deadlocks import WaitGraph
    from jobwire.coordination.store import CoordinationStore, Transaction

MAX_TARGETS = 1000
MAX_REASON = 512
_SEEN_EVERY_MS = 10_000


class Locks:
    """The locks of a store. Raises as the store does.

    `job_ended` tells of a job whether it is over: by default its record does.
    """

    def __init__(self, store: CoordinationStore, *, job_ended: Callable[[str], bool] | None = None) -> None:
        self._store = store
        self._job_ended = job_ended or partial(job_ended_in, store.home)
        self._told: set[int] = set()

    def acquire(
        self, asked: LockRequest, *, wait_seconds: float = 0.0, stop: threading.Event | None = None
    ) -> list[FileLock]:
        """Take all of them, waiting so long, or until `stop` is set; what one holds already is extended.

        Raises ConflictError: locked, with who holds it until when; deadlock, with the cycle; NoWorkError
        (timeout) after waiting in vain.
        """
        begun = self.begin(asked, waits=wait_seconds > 0)
        if isinstance(begun, list):
            return begun
        asked, wait = _checked(asked), begun
        granted: list[FileLock] | None = None
        try:
            granted = wake.wait_until(
                lambda: [] if stop and stop.is_set() else self.look_again(asked, wait),
                home=self._store.home,
                names=[f"resource:{changes.waiting_name(wait.wait_id)}"],
                seconds=wait_seconds,
                clock=self._store.clock,
            )
        finally:
            if not granted:
                self.give_up(wait)
        if not granted:
            raise NoWorkError(
                f"no lock on {changes.named(asked.targets)} within {wait_seconds:g} s",
                hint="`jobwire lock list` shows who holds it",
                code="timeout",
                response={"woke": False, "event_id": self._store.latest_event()},
            )
        return granted

    def begin(self, asked: LockRequest, *, waits: bool = True) -> list[FileLock] | LockWait:
        """Take all of them, or begin to wait: `look_again` takes them later, `give_up` ends the wait.

        Whoever waits looks at least each 30 s; one that is silent for a minute has lost its place.
        """
        asked = _checked(asked)
        with self._store.changing() as change:
            state = self._cleared(change, asked.run_id, asked.targets, [asked.agent_id])
            before = state.table.blockers(asked.wanted())
            if not before:
                return changes.grant(change, asked, state.locks)
            if not waits:
                raise _locked(asked, state)
            wait = changes.begin_to_wait(change, asked)
            deadlocks.refuse_a_circle(change, wait, before, self._job_ended)
            return wait

    def renew(
        self, agent: str, targets: Sequence[str] = (), *, run_id: str, token: int | None = None
    ) -> list[FileLock]:
        """Extend these, or all of the agent's, by what was granted; raises ConflictError (lease_lost)."""
        with self._store.changing() as change:
            state = self._cleared(change, run_id, targets, () if targets else [agent])
            owned = _owned(state, agent, targets, token)
            return [changes.extend(change, lock) for lock in owned]

    def release(
        self, agent: str, targets: Sequence[str] = (), *, run_id: str, token: int | None = None
    ) -> list[FileLock]:
        """Give these back, or all of the agent's; raises ConflictError (lease_lost) for what it lost."""
        with self._store.changing() as change:
            state = self._cleared(change, run_id, targets, () if targets else [agent])
            owned = _owned(state, agent, targets, token)
            for lock in owned:
                changes.end(change, lock, source=agent)
            # Who waits for the targets that were named is known by now: mostly nobody.
            if state.waits or not targets:
                changes.wake_waiters(change, run_id, [lock.target for lock in owned])
            return owned

    def conflicts(
        self, agent: str, targets: Iterable[str], *, run_id: str, mode: LockMode = LockMode.EXCLUSIVE
    ) -> list[FileLock]:
        """Return the locks of others that stand in the way of these targets now. Changes nothing."""
        wanted = WantedTargets(agent, tuple(targets), mode)
        locks = self._living(locks_near(self._store, run_id, wanted.targets))
        holds = set(LockState(locks, []).table.holders(wanted))
        return [lock for lock in locks if lock.hold in holds]

    def wait_until_free(
        self, agent: str, targets: Sequence[str], *, run_id: str, seconds: float
    ) -> list[FileLock]:
        """Wait until nobody else holds them, taking nothing; return who still does after `seconds`."""
        clock = self._store.clock
        until = clock.monotonic() + seconds
        while held := self.conflicts(agent, targets, run_id=run_id):
            holds = {lock.hold for lock in held}

            def look(holds: set[object] = holds) -> bool | None:  # type: ignore[assignment]  # a set of holds
                now = self.conflicts(agent, targets, run_id=run_id)
                return None if holds & {lock.hold for lock in now} == holds else True

            names = [f"resource:{lock.target}" for lock in held]
            left = max(0.0, until - clock.monotonic())
            if not wake.wait_until(look, home=self._store.home, names=names, seconds=left, clock=clock):
                return held
        return []

    def state(self, run_id: str | None = None) -> LockState:
        """Return the locks and waiters of a run, or of all, as they are now. Changes nothing."""
        with self._store.reading():
            state = state_of(self._store, run_id)
        now_ms = self._store.now_ms
        return LockState(
            self._living(state.locks), [wait for wait in state.waits if now_ms - wait.seen_ms <= GONE_MS]
        )

    def deadlocks(self, run_id: str | None = None) -> list[list[str]]:
        """Return circles of agents, each of whom waits for the next one; in a run those who wait there."""
        found = self._graph().deadlocks()
        if run_id is None or not found:
            return [one.agents for one in found]
        there = {wait.agent_id for wait in self.state(run_id).waits}
        return [one.agents for one in found if not there.isdisjoint(one.agents)]

    def ask_to_break(self, by: str, target: str, *, run_id: str, reason: str) -> list[FileLock]:
        """Ask for the end of somebody's locks on `target`; a second agent must confirm."""
        check_line("reason", reason, MAX_REASON)
        with self._store.changing() as change:
            locks = _at(self._cleared(change, run_id, [target]), target)
            return [changes.put(change, lock._replace(break_by=by, break_reason=reason)) for lock in locks]

    def confirm_break(self, by: str, target: str, *, run_id: str) -> list[FileLock]:
        """End the locks whose end somebody else asked for, and tell the losers."""
        with self._store.changing() as change:
            locks = _at(self._cleared(change, run_id, [target]), target)
            asked = [lock for lock in locks if lock.break_by not in {"", by}]
            if not asked:
                raise ConflictError(
                    f"nobody but {by} asked to break the lock on {target}",
                    hint="one agent asks with `lock break PATH --reason ...`, another one confirms",
                    code="not_expected",
                )
            for lock in asked:
                changes.lose(change, lock, f"broken by {lock.break_by} and {by}: {lock.break_reason}")
            changes.wake_waiters(change, run_id, [target])
            return asked

    def clear(self) -> list[FileLock]:
        """End what has run out, tell the losers and who closed a deadlock, wake who waited.

        Return what ended.
        """
        now_ms = self._store.now_ms
        locks = [FileLock(*row) for row in self._store.rows("file_locks_to_look_at", {"now_ms": now_ms})]
        waits = waits_of(self._store, None)
        if waits:
            self._tell_of_deadlocks()
        runs = {lock.run_id for lock, _ in self._over(locks, now_ms)}
        runs |= {wait.run_id for wait in waits if now_ms - wait.seen_ms > GONE_MS}
        if not runs:
            return []
        with self._store.changing() as change:
            for run_id in runs:
                self._cleared(change, run_id, [lock.target for lock in locks if lock.run_id == run_id])
            left = {lock for run_id in runs for lock in state_of(change, run_id).locks}
        return [lock for lock in locks if lock.run_id in runs and lock not in left]

    def close(self) -> None:
        """Close this thread's connection to the store; the next call opens it again."""
        self._store.close()

    def _tell_of_deadlocks(self) -> None:
        found = [
            one for one in self._graph().deadlocks() if one.youngest and one.youngest.number not in self._told
        ]
        if found:
            with self._store.changing() as change:
                deadlocks.tell_youngest(change, found)
            self._told.update(one.youngest.number for one in found if one.youngest)

    def _graph(self) -> WaitGraph:
        with self._store.reading():
            return deadlocks.graph_of(self._store, self._store.now_ms, self._job_ended)

    def look_again(self, asked: LockRequest, wait: LockWait) -> list[FileLock] | None:
        """Take the locks if it is our turn. Mostly it only reads, so that many waiters cost little."""
        with self._store.reading():
            state = state_near(self._store, asked.run_id, asked.targets, [asked.agent_id])
        now_ms = self._store.now_ms
        mine = next((one for one in state.waits if one.wait_id == wait.wait_id), None)
        if mine and now_ms - mine.seen_ms < _SEEN_EVERY_MS:
            table = LockState(self._living(state.locks), state.waits).table
            if table.is_blocked(mine.wanted):
                return None
        with self._store.changing() as change:
            if not change.execute("see_lock_wait", {"wait_id": wait.wait_id, "now_ms": change.now_ms}):
                # Thought gone after a standstill: at the same place again.
                changes.insert_wait(change, asked, wait.wait_id)
            now = self._cleared(change, asked.run_id, asked.targets, [asked.agent_id])
            if now.table.is_blocked(asked.wanted(wait.wait_id)):
                return None
            change.execute("remove_lock_wait", {"wait_id": wait.wait_id})
            granted = changes.grant(change, asked, now.locks, wait.since_ms)
            # Who shares may go on with us.
            changes.wake_waiters(change, asked.run_id, asked.targets)
            return granted

    def give_up(self, wait: LockWait) -> None:
        """End a wait, and let others go on."""
        with self._store.changing() as change:
            change.execute("remove_lock_wait", {"wait_id": wait.wait_id})
            changes.wake_waiters(change, wait.run_id, wait.wanted.targets)

    def _over(self, locks: Iterable[FileLock], now_ms: int) -> list[tuple[FileLock, str]]:
        """Return those of the locks that are over, and why."""
        ended: dict[str, bool] = {}
        found: list[tuple[FileLock, str]] = []
        for lock in locks:
            if lock.lease_until_ms <= now_ms:
                found.append((lock, "it ran out"))
            elif lock.job_id:
                if lock.job_id not in ended:
                    ended[lock.job_id] = self._job_ended(lock.job_id)
                if ended[lock.job_id]:
                    found.append((lock, f"job {lock.job_id} ended"))
        return found

    def _living(self, locks: list[FileLock]) -> list[FileLock]:
        over = {lock for lock, _ in self._over(locks, self._store.now_ms)}
        return [lock for lock in locks if lock not in over] if over else locks

    def _cleared(
        self, change: Transaction, run_id: str, targets: Sequence[str], agents: Sequence[str] = ()
    ) -> LockState:
        """Return what holds near targets, and of agents, after ending what has run out there."""
        state = state_near(change, run_id, targets, agents)
        over = self._over(state.locks, change.now_ms)
        gone = [wait for wait in state.waits if change.now_ms - wait.seen_ms > GONE_MS]
        if not (over or gone):
            return state
        for lock, why in over:
            changes.lose(change, lock, why)
        for wait in gone:
            change.execute("remove_lock_wait", {"wait_id": wait.wait_id})
        ended = {lock.target for lock, _ in over}.union(*(wait.wanted.targets for wait in gone))
        changes.wake_waiters(change, run_id, ended)
        return state_near(change, run_id, targets, agents)


def job_ended_in(home: str, job_id: str) -> bool:
    """Tell whether a job is over, or gone; one whose record cannot be read is not said to be."""
    from jobwire.registry.store import RecordStore  # noqa: PLC0415 - few locks name a job

    try:
        return RecordStore(home).get(job_id).terminal
    except NotFoundError:
        return True
    except StorageError:
        return False


def revoke(change: Transaction, agent: str, why: str) -> None:
    """End all locks and waits of an agent that is gone, and wake who can go on."""
    locks = [FileLock(*row) for row in change.rows("file_locks", {"run_id": None}) if row[2] == agent]
    waits = [wait for wait in waits_of(change, None) if wait.agent_id == agent]
    for lock in locks:
        changes.lose(change, lock, why)
    for wait in waits:
        change.execute("remove_lock_wait", {"wait_id": wait.wait_id})
    ended = [(lock.run_id, lock.target) for lock in locks]
    ended += [(wait.run_id, target) for wait in waits for target in wait.wanted.targets]
    for run_id in {run_id for run_id, _ in ended}:
        changes.wake_waiters(change, run_id, [target for run, target in ended if run == run_id])


def _checked(asked: LockRequest) -> LockRequest:
    check_seconds("ttl", asked.seconds)
    if not asked.targets:
        raise InvalidInputError("nothing to lock", hint="name at least one path", code="invalid_input")
    if len(asked.targets) > MAX_TARGETS:
        raise InvalidInputError(
            f"{len(asked.targets)} paths in one request, {MAX_TARGETS} are allowed",
            hint="lock the folder above them",
            code="too_large",
        )
    return asked._replace(targets=tuple(dict.fromkeys(asked.targets)))


def _owned(state: LockState, agent: str, targets: Sequence[str], token: int | None) -> list[FileLock]:
    own = {lock.target: lock for lock in state.locks if lock.agent_id == agent}
    wanted = list(dict.fromkeys(targets)) or list(own)
    for target in wanted:
        lock = own.get(target)
        if lock is not None and token not in {None, lock.token}:
            raise ConflictError(
                f"{agent} holds {target} by another token than {token}",
                hint="that lock ended, and it was taken again since: `jobwire lock list` shows its token",
                code="lease_lost",
                path=target,
            )
        if lock is None:
            holders = [other.agent_id for other in state.locks if other.target == target]
            raise ConflictError(
                f"{agent} no longer holds {target}" + (f": {', '.join(holders)} does" if holders else ""),
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


def _locked(asked: LockRequest, state: LockState) -> ConflictError:
    holds = set(state.table.holders(asked.wanted()))
    locks = [lock for lock in state.locks if lock.hold in holds]
    if not locks:
        return ConflictError(
            f"others wait for {changes.named(asked.targets)}",
            hint="--wait SECONDS waits behind them",
            code="locked",
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
