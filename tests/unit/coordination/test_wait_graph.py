"""Deadlocks: circles of agents that wait for each other."""

from collections.abc import Set as AbstractSet

from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.locks.wait_graph import cycle_through, cycles

Graph = dict[str, AbstractSet[str]]
GRAPHS = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("abcdef"), max_size=3))


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
        circle = cycle_through(agent, lambda one: graph.get(one, ()))
        assert bool(circle) == (agent in far[agent])
        for waiter, holder in zip(circle, [*circle[1:], agent], strict=False):
            assert holder in graph[waiter]


@given(GRAPHS)
def test_every_agent_in_a_circle_has_one_named(graph: Graph) -> None:
    """The list has a circle of each group that waits for itself, and nobody who merely waits for one."""
    far = reachable(graph)
    found = cycles(graph, lambda one: graph.get(one, ()))
    for agent in "abcdef":
        if agent in far[agent]:
            assert any(set(circle) & ({agent} | far[agent]) for circle in found)
    assert all(agent in far[agent] for circle in found for agent in circle)


def test_a_long_chain() -> None:
    """A chain of ten thousand waiters is no circle, and its closing edge makes one of all of them."""
    chain: Graph = {str(n): {str(n + 1)} for n in range(10_000)}
    assert cycle_through("0", lambda one: chain.get(one, ())) == []
    closed = {**chain, "10000": {"0"}}
    assert len(cycle_through("0", closed.__getitem__)) == 10_001
