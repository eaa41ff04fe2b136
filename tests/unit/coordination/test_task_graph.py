"""The graph of tasks: circles are found with their path, layers hold each task once."""

from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.tasks.graph import cycle, layers, unknown

GRAPHS = st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 9), max_size=4), max_size=10).map(
    lambda graph: {str(task): [str(one) for one in needs] for task, needs in graph.items()}
)


@given(GRAPHS)
def test_a_circle_is_found_exactly_where_layers_end(graph: dict[str, list[str]]) -> None:
    """Each of a circle waits for the next; without one every task has its layer, behind all it needs."""
    found = cycle(graph)
    layered = [task for layer in layers(graph) for task in layer]
    assert len(set(layered)) == len(layered)
    for place, task in enumerate(found):
        assert found[(place + 1) % len(found)] in graph[task]
    assert (not found) == (set(layered) == set(graph))
    place_of = {task: number for number, layer in enumerate(layers(graph)) for task in layer}
    for task, number in place_of.items():
        assert all(place_of[one] < number for one in graph[task] if one in graph)


@given(GRAPHS)
def test_what_is_unknown_is_named(graph: dict[str, list[str]]) -> None:
    """Neither in the graph nor known before."""
    known = {"3", "4"}
    wanted = {(a, b) for a, needs in graph.items() for b in needs if b not in graph and b not in known}
    assert set(unknown(graph, known)) == wanted


def test_a_chain_of_five_thousand_and_a_circle_through_it() -> None:
    """No recursion: the longest path is as long as the plan."""
    chain = {str(number): [str(number - 1)] if number else [] for number in range(5000)}
    assert len(layers(chain)) == 5000
    assert cycle(chain) == []
    assert len(cycle(chain | {"0": ["4999"]})) == 5000
