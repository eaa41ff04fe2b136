"""File locks: what conflicts, who is next, who waits for whom. Pure.

A lock covers a path and all below it, or a name. Requests are served first come, first served: one is
granted when no holder and no earlier waiter conflicts with it, so readers never starve a writer. What
somebody holds already he need not wait for, and who waits for him is not before him.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Generic, NamedTuple, TypeVar


class LockMode(Enum):
    """How a lock is held: shared with other shared holders, or alone."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class HeldTarget(NamedTuple):
    """A target that somebody holds."""

    owner: str
    target: str
    mode: LockMode


class WantedTargets(NamedTuple):
    """Targets that somebody wants, all or none of them; `number` rises in the order of the requests."""

    owner: str
    targets: tuple[str, ...]
    mode: LockMode
    number: int = 1 << 62


_T = TypeVar("_T")


class LockTable:
    """Who holds what and who waits for what, indexed by targets: an answer costs what it finds."""

    def __init__(self, holds: Iterable[HeldTarget], waits: Iterable[WantedTargets] = ()) -> None:
        self._holds: _ByTarget[HeldTarget] = _ByTarget()
        self._waits: _ByTarget[WantedTargets] = _ByTarget()
        self._own_holds: dict[str, list[HeldTarget]] = defaultdict(list)
        self._own_waits: dict[str, list[WantedTargets]] = defaultdict(list)
        for hold in holds:
            self._holds.add(hold.target, hold)
            self._own_holds[hold.owner].append(hold)
        for wanted in waits:
            self.add_wait(wanted)

    def add_wait(self, wanted: WantedTargets) -> None:
        """Let somebody begin to wait."""
        for target in wanted.targets:
            self._waits.add(target, wanted)
        self._own_waits[wanted.owner].append(wanted)

    def holders(self, wanted: WantedTargets) -> list[HeldTarget]:
        """Return the locks of others that `wanted` conflicts with."""
        return list(
            dict.fromkeys(
                hold
                for target in self._not_held(wanted)
                for hold in self._holds.overlapping(target)
                if hold.owner != wanted.owner and _conflict(hold.mode, wanted.mode)
            )
        )

    def blockers(self, wanted: WantedTargets) -> list[str]:
        """Return who must go first, holders before waiters; empty where it can be granted now."""
        before = (
            waiter.owner
            for target in self._not_held(wanted)
            for waiter in self._waits.overlapping(target)
            if waiter.number < wanted.number
            and waiter.owner != wanted.owner
            and _conflict(waiter.mode, wanted.mode)
            and not self._waits_for(waiter, wanted.owner)
        )
        return list(dict.fromkeys([*(hold.owner for hold in self.holders(wanted)), *before]))

    def waiters_of(self, owner: str) -> list[str]:
        """Return who waits for `owner`: for what he holds, or for his place in the queue."""
        near = [hold.target for hold in self._own_holds.get(owner, ())]
        near += [target for wanted in self._own_waits.get(owner, ()) for target in wanted.targets]
        found: dict[str, None] = {}
        for target in dict.fromkeys(near):
            for waiter in self._waits.overlapping(target):
                if waiter.owner not in found and waiter.owner != owner and owner in self.blockers(waiter):
                    found[waiter.owner] = None
        return list(found)

    def _not_held(self, wanted: WantedTargets) -> Iterator[str]:
        own = {
            hold.target
            for hold in self._own_holds.get(wanted.owner, ())
            if hold.mode is LockMode.EXCLUSIVE or wanted.mode is LockMode.SHARED
        }
        return (target for target in wanted.targets if own.isdisjoint(_up(target)))

    def _waits_for(self, waiter: WantedTargets, owner: str) -> bool:
        return any(
            hold.owner == owner and _conflict(hold.mode, waiter.mode)
            for target in waiter.targets
            for hold in self._holds.overlapping(target)
        )


class _ByTarget(Generic[_T]):
    def __init__(self) -> None:
        self._at: dict[str, list[_T]] = defaultdict(list)
        self._below: dict[str, list[_T]] = defaultdict(list)

    def add(self, target: str, item: _T) -> None:
        itself, *above = _up(target)
        self._at[itself].append(item)
        for folder in above:
            self._below[folder].append(item)

    def overlapping(self, target: str) -> Iterator[_T]:
        for folder in _up(target):
            yield from self._at.get(folder, ())
        yield from self._below.get(target, ())


def covers(folder: str, target: str) -> bool:
    """Tell whether `target` is `folder` or lies below it.

    >>> covers("src", "src/app.py"), covers("src", "srcs"), covers(".", "a"), covers(".", "name:a")
    (True, False, True, False)
    """
    return folder in _up(target)


def is_name(target: str) -> bool:
    """Tell a name, which stands for no file, from a path."""
    return target.startswith("name:")


def _up(target: str) -> Iterator[str]:
    """Yield the target and the folders above it."""
    yield target
    if is_name(target) or target == ".":
        return
    while "/" in target:
        target = target.rpartition("/")[0]
        if target != ".":
            yield target
    yield "."


def _conflict(one: LockMode, other: LockMode) -> bool:
    return one is LockMode.EXCLUSIVE or other is LockMode.EXCLUSIVE
