"""File locks: what conflicts, who is next, who waits for whom. Pure.

A lock covers a path and all below it, or a name. Requests are served first come, first served: one is
granted when no holder and no earlier waiter conflicts with it, so readers never starve a writer. What
somebody holds already he need not wait for, and who waits for him is not before him.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator
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


# Its place is looked up a thousand times, and `Enum.__hash__` is slow.
_EXCLUSIVE = LockMode.EXCLUSIVE
_T = TypeVar("_T", HeldTarget, WantedTargets)
_NOBODY: frozenset[str] = frozenset()
# What is below a folder stands, in the order of code points, between these.
_FIRST, _BEHIND = "/", "0"


class LockTable:
    """Who holds what and who waits for what, found by target: an answer costs what it finds.

    `waits` come in the order of their numbers.
    """

    def __init__(self, holds: Iterable[HeldTarget], waits: Iterable[WantedTargets] = ()) -> None:
        alone, shared = ByTarget[HeldTarget](), ByTarget[HeldTarget]()
        self._holds = {True: (alone, shared), False: (alone,)}
        last, beside = ByTarget[WantedTargets](), ByTarget[WantedTargets]()
        # What conflicts with a request that is exclusive, and with one that is not.
        self._waits = {True: (last, beside), False: (last,)}
        self._own_holds: dict[str, list[HeldTarget]] = defaultdict(list)
        self._own_waits: dict[str, list[WantedTargets]] = defaultdict(list)
        for hold in holds:
            (alone if hold.mode is _EXCLUSIVE else shared).add(hold.target, hold)
            self._own_holds[hold.owner].append(hold)
        for wanted in waits:
            queue = last if wanted.mode is _EXCLUSIVE else beside
            for target in wanted.targets:
                queue.add(target, wanted)
            self._own_waits[wanted.owner].append(wanted)

    def holders(self, wanted: WantedTargets) -> list[HeldTarget]:
        """Return the locks of others that `wanted` conflicts with."""
        return list(dict.fromkeys(self._in_the_way(wanted, self._not_held(wanted), _NOBODY)))

    def is_blocked(self, wanted: WantedTargets) -> bool:
        """Tell whether somebody must go first."""
        return next(self._before(wanted, _NOBODY), None) is not None

    def blockers(self, wanted: WantedTargets) -> list[str]:
        """Return who must go first, holders before waiters; empty where it can be granted now."""
        return list(dict.fromkeys(self._before(wanted, _NOBODY)))

    def waits_for(self, owner: str, gone: Container[str] = _NOBODY) -> list[str]:
        """Return for whom `owner` waits; none of `gone`, whom no later answer names either."""
        return [other for wanted in self._own_waits.get(owner, ()) for other in self._before(wanted, gone)]

    def _before(self, wanted: WantedTargets, gone: Container[str]) -> Iterator[str]:
        targets = self._not_held(wanted)
        for hold in self._in_the_way(wanted, targets, gone):
            yield hold.owner
        own = self._own_holds.get(wanted.owner, ())
        for waits in self._waits[wanted.mode is _EXCLUSIVE]:
            for target in targets:
                for waiters in waits.overlapping(target, gone):
                    for waiter in waiters:
                        if waiter.number >= wanted.number:
                            break
                        if waiter.owner != wanted.owner and not _waits_for_one_of(waiter, own):
                            yield waiter.owner

    def _in_the_way(
        self, wanted: WantedTargets, targets: Iterable[str], gone: Container[str]
    ) -> Iterator[HeldTarget]:
        for held in self._holds[wanted.mode is _EXCLUSIVE]:
            for target in targets:
                for holds in held.overlapping(target, gone):
                    for hold in holds:
                        if hold.owner != wanted.owner:
                            yield hold

    def _not_held(self, wanted: WantedTargets) -> tuple[str, ...]:
        holds = self._own_holds.get(wanted.owner)
        if not holds:
            return wanted.targets
        shared = wanted.mode is not _EXCLUSIVE
        own = {hold.target for hold in holds if shared or hold.mode is _EXCLUSIVE}
        if not own:
            return wanted.targets
        return tuple(target for target in wanted.targets if own.isdisjoint(and_above(target)))


class ByTarget(Generic[_T]):
    """What stands at targets, in the order in which it came, found from targets above and below it."""

    def __init__(self) -> None:
        self._at: dict[str, deque[_T]] = {}
        self._sorted: list[str] | None = None

    def add(self, target: str, item: _T) -> None:
        """Put it there."""
        if target in self._at:
            self._at[target].append(item)
        else:
            self._at[target] = deque((item,))
            self._sorted = None

    def overlapping(self, target: str, gone: Container[str] = _NOBODY) -> Iterator[deque[_T]]:
        """Yield what stands at the target, above and below it; first items of `gone` are dropped for good."""
        at = self._at
        if not at:
            return
        for name in (*and_above(target), *self._below(target)):
            found = at.get(name)
            while found and found[0].owner in gone:
                found.popleft()
            if found:
                yield found

    def _below(self, target: str) -> list[str]:
        if is_name(target):
            return []
        if self._sorted is None:
            self._sorted = sorted(self._at)
        if target == ".":
            return [name for name in self._sorted if name != "." and not is_name(name)]
        low = bisect_left(self._sorted, target + _FIRST)
        return self._sorted[low : bisect_left(self._sorted, target + _BEHIND, low)]


def is_name(target: str) -> bool:
    """Tell a name, which stands for no file, from a path."""
    return target.startswith("name:")


def and_above(target: str) -> list[str]:
    """Return the target and the folders above it, up to `.`.

    >>> and_above("src/a/b.py"), and_above("./name:x"), and_above("name:a/b")
    (['src/a/b.py', 'src/a', 'src', '.'], ['./name:x', '.'], ['name:a/b'])
    """
    found = [target]
    if is_name(target) or target == ".":
        return found
    while "/" in target:
        target = target.rpartition("/")[0]
        if target != ".":
            found.append(target)
    found.append(".")
    return found


def _waits_for_one_of(waiter: WantedTargets, holds: Iterable[HeldTarget]) -> bool:
    return any(
        (hold.mode is _EXCLUSIVE or waiter.mode is _EXCLUSIVE)
        and (target in and_above(hold.target) or hold.target in and_above(target))
        for hold in holds
        for target in waiter.targets
    )
