"""File locks: what conflicts, who is next, who waits for whom. Pure.

A lock covers a path and all below it, or a name. Requests are served first come, first served: one is
granted when no holder and no earlier waiter conflicts with it, so readers never starve a writer. What
somebody holds already he need not wait for, and who waits for him is not before him.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator
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
_T = TypeVar("_T")
_NOBODY: frozenset[str] = frozenset()
# What is below a folder stands, in the order of code points, between these.
_FIRST, _BEHIND = "/", "0"


class TargetPlace:
    """What stands at one target: held alone and shared, wanted alone and shared, first come first."""

    __slots__ = ("alone", "beside", "last", "shared")

    def __init__(self) -> None:
        self.alone: deque[HeldTarget] | None = None
        self.shared: deque[HeldTarget] | None = None
        self.last: deque[WantedTargets] | None = None
        self.beside: deque[WantedTargets] | None = None


class LockTable:
    """Who holds what and who waits for what, found by target: an answer costs what it finds.

    `waits` come in the order of their numbers.
    """

    def __init__(self, holds: Iterable[HeldTarget], waits: Iterable[WantedTargets] = ()) -> None:
        self._places = ByTarget(TargetPlace)
        self._own_holds: dict[str, list[HeldTarget]] = defaultdict(list)
        self._own_waits: dict[str, list[WantedTargets]] = defaultdict(list)
        self.hold(holds)
        self.want(waits)

    def hold(self, holds: Iterable[HeldTarget]) -> None:
        """Let these be held, too."""
        for hold in holds:
            place = self._places.at(hold.target)
            if hold.mode is _EXCLUSIVE:
                place.alone = _put(place.alone, hold)
            else:
                place.shared = _put(place.shared, hold)
            self._own_holds[hold.owner].append(hold)

    def want(self, waits: Iterable[WantedTargets]) -> None:
        """Let these wait, behind all that do."""
        for wanted in waits:
            for target in wanted.targets:
                place = self._places.at(target)
                if wanted.mode is _EXCLUSIVE:
                    place.last = _put(place.last, wanted)
                else:
                    place.beside = _put(place.beside, wanted)
            self._own_waits[wanted.owner].append(wanted)

    def holders(self, wanted: WantedTargets) -> list[HeldTarget]:
        """Return the locks of others that `wanted` conflicts with."""
        found: dict[HeldTarget, None] = {}
        for place in self._around(wanted):
            for holds in (place.alone, place.shared) if wanted.mode is _EXCLUSIVE else (place.alone,):
                found.update((hold, None) for hold in holds or () if hold.owner != wanted.owner)
        return list(found)

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
        """Yield who goes first; what stands in front and is of `gone` is dropped for good."""
        owner, exclusive = wanted.owner, wanted.mode is _EXCLUSIVE
        places = self._around(wanted)
        for place in places:
            for holds in (place.alone, place.shared) if exclusive else (place.alone,):
                if holds is not None:
                    _drop(holds, gone)
                    yield from [hold.owner for hold in holds if hold.owner != owner]
        own = self._own_holds.get(owner)
        for place in places:
            for waits in (place.last, place.beside) if exclusive else (place.last,):
                if waits is not None:
                    _drop(waits, gone)
                    for waiter in waits:
                        if waiter.number >= wanted.number:
                            break
                        if waiter.owner != owner and not (own and _waits_for_one_of(waiter, own)):
                            yield waiter.owner

    def _around(self, wanted: WantedTargets) -> list[TargetPlace]:
        targets = self._not_held(wanted)
        if len(targets) == 1:
            return self._places.overlapping(targets[0])
        return [place for target in targets for place in self._places.overlapping(target)]

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
    """What stands at targets, found from targets above and below it; `make` gives what is at a new one."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._at: dict[str, _T] = {}
        self._sorted: list[str] | None = None

    def at(self, target: str) -> _T:
        """Return what stands there."""
        found = self._at.get(target)
        if found is None:
            found = self._at[target] = self._make()
            self._sorted = None
        return found

    def overlapping(self, target: str) -> list[_T]:
        """Return what stands at the target, above it and below it."""
        at = self._at
        found = [at[name] for name in and_above(target) if name in at]
        if target[:5] == "name:":
            return found
        names = self._sorted
        if names is None:
            names = self._sorted = sorted(at)
        if target == ".":
            return found + [at[name] for name in names if name != "." and not is_name(name)]
        first = target + _FIRST
        low = bisect_left(names, first)
        if low < len(names) and names[low].startswith(first):
            found += [at[name] for name in names[low : bisect_left(names, target + _BEHIND, low)]]
        return found


def is_name(target: str) -> bool:
    """Tell a name, which stands for no file, from a path."""
    return target.startswith("name:")


def and_above(target: str) -> list[str]:
    """Return the target and the folders above it, up to `.`.

    >>> and_above("src/a/b.py"), and_above("./name:x"), and_above("name:a/b")
    (['src/a/b.py', 'src/a', 'src', '.'], ['./name:x', '.'], ['name:a/b'])
    """
    if target == "." or target[:5] == "name:":
        return [target]
    found = [target]
    while "/" in target:
        target = target.rpartition("/")[0]
        if target != ".":
            found.append(target)
    found.append(".")
    return found


def _put(queue: deque[_T] | None, item: _T) -> deque[_T]:
    if queue is None:
        return deque((item,))
    queue.append(item)
    return queue


def _drop(queue: deque[HeldTarget] | deque[WantedTargets], gone: Container[str]) -> None:
    while queue and queue[0].owner in gone:
        queue.popleft()


def _waits_for_one_of(waiter: WantedTargets, holds: Iterable[HeldTarget]) -> bool:
    return any(
        (hold.mode is _EXCLUSIVE or waiter.mode is _EXCLUSIVE)
        and (target in and_above(hold.target) or hold.target in and_above(target))
        for hold in holds
        for target in waiter.targets
    )
