"""The graph of a run's tasks: what is unknown, what goes round in circles, in which order. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence


def unknown(needs: Mapping[str, Sequence[str]], known: Container[str]) -> list[tuple[str, str]]:
    """Return (task, dependency) for each dependency that is neither in the graph nor `known`."""
    return [
        (task, one)
        for task, others in needs.items()
        for one in others
        if one not in needs and one not in known
    ]


def cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tasks of a circle, each waiting for the next and the last for the first; empty: none."""
    left = _not_layered(needs)
    if not left:
        return []
    # Each that is left waits for one that is left: whoever follows them comes round.
    path: list[str] = []
    place: dict[str, int] = {}
    at = next(iter(left))
    while at not in place:
        place[at] = len(path)
        path.append(at)
        at = next(one for one in needs[at] if one in left)
    return path[place[at] :]


def layers(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the tasks in layers: each waits only for those of earlier ones. Circles are left out."""
    found: list[list[str]] = []
    open_needs, dependants = _counted(needs)
    layer = [task for task, count in open_needs.items() if not count]
    while layer:
        found.append(layer)
        following: list[str] = []
        for task in layer:
            for other in dependants.get(task, ()):
                open_needs[other] -= 1
                if not open_needs[other]:
                    following.append(other)
        layer = following
    return found


def _not_layered(needs: Mapping[str, Sequence[str]]) -> dict[str, None]:
    layered = {task for layer in layers(needs) for task in layer}
    return {task: None for task in needs if task not in layered}


def _counted(needs: Mapping[str, Sequence[str]]) -> tuple[dict[str, int], dict[str, list[str]]]:
    open_needs: dict[str, int] = {}
    dependants: dict[str, list[str]] = {}
    for task, others in needs.items():
        inside = {one for one in others if one in needs}
        open_needs[task] = len(inside)
        for one in inside:
            dependants.setdefault(one, []).append(task)
    return open_needs, dependants
