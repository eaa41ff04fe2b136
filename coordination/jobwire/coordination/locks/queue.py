"""File locks: what conflicts, who is next, who waits for whom. Pure.

A lock covers a path and all below it, or a name. Requests are served first come, first served: one is
granted when no holder and no earlier waiter conflicts with it, so readers never starve a writer. What
somebody holds already he need not wait for, and who waits for him is not before him.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from enum import Enum
from typing import NamedTuple


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


# Looked up once: a table is made of thousands of rows.
_EXCLUSIVE = LockMode.EXCLUSIVE
_NOBODY: frozenset[str] = frozenset()
_NOTHING: dict[str, list[str]] = {}
# What is below a folder stands, in the order of code points, between these.
_FIRST, _BEHIND = "/", "0"


class LockTable:
    """Who holds what and who waits for what, found by target: an answer costs what it finds.

    `waits` come in the order of their numbers. No two owners hold what conflicts.
    """

    def __init__(
        self, holds: Iterable[tuple[str, str, LockMode]], waits: Iterable[WantedTargets] = ()
    ) -> None:
        # At each target: who holds it alone and shared, who wants it alone and shared.
        self._alone: dict[str, list[str]] = {}
        self._shared: dict[str, list[str]] = {}
        self._last: dict[str, list[WantedTargets]] = {}
        self._beside: dict[str, list[WantedTargets]] = {}
        self._own_waits: dict[str, list[WantedTargets]] = {}
        self._own_holds: dict[str, OwnTargets] = {}
        self._holds = list(holds)
        for owner, target, mode in self._holds:
            held = self._alone if mode is _EXCLUSIVE else self._shared
            held.setdefault(target, []).append(owner)
        for wanted in waits:
            owner, targets, mode, _ = wanted
            queues = self._last if mode is _EXCLUSIVE else self._beside
            for target in targets:
                queues.setdefault(target, []).append(wanted)
            self._own_waits.setdefault(owner, []).append(wanted)
        # Where more than one waits for the same.
        self._crowded = {name for name, queue in self._last.items() if len(queue) > 1} | self._beside.keys()
        self._names = TargetSet({**self._alone, **self._shared, **self._last, **self._beside})

    @property
    def owners(self) -> set[str]:
        """Return who holds something."""
        return {hold[0] for hold in self._holds}

    @property
    def waiters(self) -> list[str]:
        """Return who waits, as often as each does."""
        return [owner for owner, waits in self._own_waits.items() for _ in waits]

    def waits_of(self, owner: str) -> Sequence[WantedTargets]:
        """Return what somebody waits for, first come first."""
        return self._own_waits.get(owner, ())

    def holders(self, wanted: WantedTargets) -> list[HeldTarget]:
        """Return the locks of others that `wanted` conflicts with."""
        found: dict[HeldTarget, None] = {}
        for name in self._around(wanted.targets):
            for holds, mode in ((self._alone, _EXCLUSIVE), (self._shared, LockMode.SHARED)):
                if _EXCLUSIVE in {mode, wanted.mode}:
                    others = [owner for owner in holds.get(name, ()) if owner != wanted.owner]
                    found.update((HeldTarget(owner, name, mode), None) for owner in others)
        return list(found)

    def is_blocked(self, wanted: WantedTargets) -> bool:
        """Tell whether somebody must go first."""
        names = self._around(wanted.targets)
        return bool(self._holding(wanted, names, _NOBODY) or self._ahead(wanted, names, _NOBODY, one=True))

    def blockers(self, wanted: WantedTargets) -> list[str]:
        """Return who must go first, holders before waiters; empty where it can be granted now.

        What the owner holds already needs no rule: nobody else has it, and who wants it waits for him.
        """
        names = self._around(wanted.targets)
        found = self._holding(wanted, names, _NOBODY) + self._ahead(wanted, names, _NOBODY)
        return list(dict.fromkeys(found))

    def waits_for(self, owner: str, gone: Container[str] = _NOBODY) -> list[str]:
        """Return for whom `owner` waits; none of `gone`, whom no later answer names either."""
        found: list[str] = []
        for wanted in self._own_waits.get(owner, ()):
            targets = wanted[1]
            names = self._around(targets)
            found += self._holding(wanted, names, gone)
            if len(names) > len(targets) or not self._crowded.isdisjoint(names):
                found += self._ahead(wanted, names, gone)
        return found

    def _holding(self, wanted: WantedTargets, names: Iterable[str], gone: Container[str]) -> list[str]:
        owner, alone = wanted[0], self._alone
        shared = self._shared if wanted[2] is _EXCLUSIVE else _NOTHING
        found: list[str] = []
        for name in names:
            if name in alone:
                found += _but(owner, alone[name])
            if name in shared:
                _drop_holders(shared[name], gone)
                found += _but(owner, shared[name])
        return found

    def _ahead(
        self, wanted: WantedTargets, names: Iterable[str], gone: Container[str], *, one: bool = False
    ) -> list[str]:
        owner, _, mode, number = wanted
        found: list[str] = []
        for queues in (self._last, self._beside) if mode is _EXCLUSIVE else (self._last,):
            for queue in [queues[name] for name in names if name in queues]:
                _drop_waiters(queue, gone)
                for waiter in queue:
                    if waiter[3] >= number or (one and found):
                        break
                    if waiter[0] != owner and not self._waits_for_one_of(waiter, owner):
                        found.append(waiter[0])
        return found

    def _around(self, targets: Sequence[str]) -> list[str]:
        found: list[str] = []
        for target in targets:
            found += self._names.overlapping(target)
        return found

    def _waits_for_one_of(self, waiter: WantedTargets, owner: str) -> bool:
        if not self._own_holds:
            targets: dict[str, tuple[list[str], list[str]]] = {}
            for holder, target, mode in self._holds:
                targets.setdefault(holder, ([], []))[mode is _EXCLUSIVE].append(target)
            self._own_holds = {holder: OwnTargets(*map(TargetSet, two)) for holder, two in targets.items()}
        own = self._own_holds.get(owner)
        return own is not None and any(
            own.alone.overlapping(target) or (waiter.mode is _EXCLUSIVE and own.shared.overlapping(target))
            for target in waiter.targets
        )


class TargetSet:
    """Some targets, found from targets above and below them."""

    def __init__(self, targets: Iterable[str]) -> None:
        self._targets = set(targets)
        self._sorted: list[str] | None = None
        # The folders in which some of them are, at any depth; of a folder those at it and above it.
        self._folders: set[str] = set()
        self._above: dict[str, list[str]] = {}
        for folder in {target.rpartition("/")[0] for target in self._targets if target[:5] != "name:"}:
            while folder and folder not in self._folders:
                self._folders.add(folder)
                folder = folder.rpartition("/")[0]  # noqa: PLW2901 - one after the other

    def overlapping(self, target: str) -> list[str]:
        """Return those that are the target, above it or below it."""
        found = [target] if target in self._targets else []
        if target[:5] == "name:":
            return found
        if target == ".":
            return found + [name for name in self._targets if name != "." and not is_name(name)]
        folder = target.rpartition("/")[0]
        above = self._above.get(folder)
        if above is None:
            above = self._above[folder] = [name for name in and_above(folder or ".") if name in self._targets]
        found += above
        if target in self._folders:
            names = self._sorted = self._sorted or sorted(self._targets)
            low = bisect_left(names, target + _FIRST)
            found += names[low : bisect_left(names, target + _BEHIND, low)]
        return found


class OwnTargets(NamedTuple):
    """What somebody holds shared and alone."""

    shared: TargetSet
    alone: TargetSet


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


def _but(owner: str, holders: list[str]) -> list[str]:
    return [other for other in holders if other != owner] if owner in holders else holders


def _drop_holders(holders: list[str], gone: Container[str]) -> None:
    count = 0
    while count < len(holders) and holders[count] in gone:
        count += 1
    del holders[:count]


def _drop_waiters(queue: list[WantedTargets], gone: Container[str]) -> None:
    count = 0
    while count < len(queue) and queue[count][0] in gone:
        count += 1
    del queue[:count]
