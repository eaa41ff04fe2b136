"""Deadlocks: circles of agents that wait for each other."""

from collections.abc import Callable, Container
from collections.abc import Set as AbstractSet

from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.locks.deadlocks import circle_through, circles

Graph = dict[str, AbstractSet[str]]
GRAPHS = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef"), max_size=3))


def dropping(graph: Graph) -> Callable[[str, Container[str]], list[str]]:
    """Return whom an agent waits for; who was once to be left out is never named again."""
    left = {agent: set(others) for agent, others in graph.items()}

    def neighbours(agent: str, gone: Container[str]) -> list[str]:
        for others in left.values():
            others -= {one for one in others if one in gone}
        return sorted(left.get(agent, ()))

    return neighbours


def reachable(graph: Graph) -> dict[str, set[str]]:
    """Return whom each agent waits for, directly or through others: Warshall's closure."""
    far = {agent: set(graph.get(agent, ())) for agent in "abcdef"}
    for middle in "abcdef":
        for agent in "abcdef":
            if middle in far[agent]:
                far[agent] |= far[middle]
    return far


@given(GRAPHS)
def test_a_circle_is_found_where_there_is_one(graph: Graph) -> None:
    """An agent is told of a circle exactly when it waits for itself, and each step of it is an edge."""
    far = reachable(graph)
    for agent in "abcdef":
        circle = circle_through(agent, dropping(graph))
        assert bool(circle) == (agent in far[agent])
        for waiter, holder in zip(circle, [*circle[1:], agent], strict=False):
            assert holder in graph[waiter]


@given(GRAPHS)
def test_every_agent_in_a_circle_has_one_named(graph: Graph) -> None:
    """Each group that waits for itself has a circle in the list, and nobody is in it who merely waits."""
    far = reachable(graph)
    found = circles(graph, dropping(graph))
    for agent in "abcdef":
        if agent in far[agent]:
            group = {other for other in far[agent] if agent in far[other]}
            assert any(set(circle) <= group for circle in found)
    assert all(agent in far[agent] for circle in found for agent in circle)
    for circle in found:
        assert all(b in graph[a] for a, b in zip(circle, [*circle[1:], circle[0]], strict=True))
    assert len({agent for circle in found for agent in circle}) == sum(map(len, found))


def test_a_long_chain() -> None:
    """A chain of ten thousand waiters is no circle, and its closing edge makes one of all of them."""
    chain: Graph = {str(n): {str(n + 1)} for n in range(10_000)}
    assert circle_through("0", lambda one, _: chain.get(one, ())) == []
    closed = {**chain, "10000": {"0"}}
    assert len(circle_through("0", lambda one, _: closed[one])) == 10_001
    assert [len(one) for one in circles(closed, lambda one, _: closed[one])] == [10_001]
