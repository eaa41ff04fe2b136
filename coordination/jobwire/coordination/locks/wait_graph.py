"""Who waits for whom, and whether that is a circle. Pure.

An edge goes from a waiter to somebody who must act before it can go on: the holder of a file lock, the
agent that was asked, the worker of the task that it waits for. Edges are made from rows that live now.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator

# For whom an agent waits. Who is in the container may be left out, in this answer and in all later ones:
# a search looks at nobody twice, and a queue of a thousand has half a million edges.
Neighbours = Callable[[str, Container[str]], Iterable[str]]


def circle_through(start: str, neighbours: Neighbours) -> list[str]:
    """Return the agents of the shortest circle that `start` is in, from `start` on; empty for none."""
    came_from: dict[str, str] = {}
    to_look = deque([start])
    while to_look:
        agent = to_look.popleft()
        for other in neighbours(agent, came_from):
            if other in came_from:
                continue
            came_from[other] = agent
            if other == start:
                circle = [agent]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            to_look.append(other)
    return []


def circles(agents: Iterable[str], neighbours: Neighbours) -> list[list[str]]:
    """Return circles of `agents` that wait for each other, each agent in one at most.

    Wherever agents wait for each other, one of their circles is among them; who merely waits for such is in
    none.
    """
    found: list[list[str]] = []
    told: set[str] = set()
    over: set[str] = set()
    for root in sorted(agents):
        if root in over:
            continue
        path: dict[str, Iterator[str]] = {root: iter(neighbours(root, over))}
        while path:
            agent, others = next(reversed(path.items()))
            for other in others:
                if other in path:
                    circle = _from(path, other)
                    if told.isdisjoint(circle):
                        found.append(circle)
                        told.update(circle)
                elif other not in over:
                    path[other] = iter(neighbours(other, over))
                    break
            else:
                over.add(agent)
                del path[agent]
    return found


def _from(path: Iterable[str], first: str) -> list[str]:
    agents = list(path)
    return agents[agents.index(first) :]
