"""Who waits for whom, and whether that is a circle. Pure.

An edge goes from a waiter to somebody who must act before it can go on: the holder of a file lock, the
agent that was asked, the worker of the task that it waits for. Edges are made from rows that live now.
"""

from collections.abc import Callable, Iterable, Iterator

Neighbours = Callable[[str], Iterable[str]]


def cycle_through(start: str, neighbours: Neighbours) -> list[str]:
    """Return the agents of a circle that `start` is in, from `start` on; empty where there is none.

    `neighbours` gives whom an agent waits for, or of all agents who waits for them: then the circle comes
    in that order.
    """
    path, seen = [start], {start}
    branches: list[Iterator[str]] = [iter(neighbours(start))]
    while branches:
        for agent in branches[-1]:
            if agent == start:
                return path
            if agent not in seen:
                seen.add(agent)
                path.append(agent)
                branches.append(iter(neighbours(agent)))
                break
        else:
            branches.pop()
            path.pop()
    return []


def cycles(agents: Iterable[str], neighbours: Neighbours) -> list[list[str]]:
    """Return a circle for each group of `agents` that wait for each other, in the order of their names.

    Agents that merely wait for such a group are in none.
    """
    found: list[list[str]] = []
    done: set[str] = set()
    for agent in sorted(agents):
        if agent not in done and (circle := cycle_through(agent, neighbours)):
            found.append(circle)
            done.update(circle)
    return found
