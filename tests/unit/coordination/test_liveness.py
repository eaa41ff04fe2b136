"""How long an agent may be silent, and who may say that it is dead."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobwire.coordination.liveness import begin, liveness, look, may_bury

SECONDS = st.floats(min_value=0.1, max_value=86400)


@pytest.mark.parametrize(
    ("age", "found"),
    [
        (-5, "fresh"),
        (0, "fresh"),
        (29.9, "fresh"),
        (30, "WARN"),
        (99.9, "WARN"),
        (100, "STALE"),
        (299.9, "STALE"),
        (300, "DEAD"),
        (1e9, "DEAD"),
    ],
)
def test_ages_of_the_usual_interval(age: float, found: str) -> None:
    """With a sign of life promised each 10 s: 30, 100 and 300 s."""
    assert liveness(age, 10) == found


@given(SECONDS, st.integers(0, 100))
def test_age_is_counted_in_the_agents_own_intervals(interval: float, intervals: int) -> None:
    """An agent that beats seldom is allowed to be silent for longer."""
    expected = ["fresh", "WARN", "STALE", "DEAD"][sum(intervals >= limit for limit in (3, 10, 30))]
    assert liveness((intervals + 0.5) * interval, interval) == expected


@given(st.lists(st.floats(min_value=0.01, max_value=14), min_size=1, max_size=60), SECONDS)
def test_who_looks_on_without_a_break_may_judge(steps: list[float], interval: float) -> None:
    """After 30 intervals of looking, a silence of 30 intervals is a death; before, it is none."""
    wall = monotonic = 1000.0
    vigil = begin(wall, monotonic)
    for step in steps:
        wall, monotonic = wall + step, monotonic + step
        vigil = look(vigil, wall, monotonic)
    watched = monotonic - 1000.0
    assume(abs(watched - 30 * interval) > 1e-6)  # sums of fractions
    assert may_bury(vigil, 30.01 * interval, interval) == (watched >= 30 * interval)
    assert not may_bury(vigil, 29.9 * interval, interval)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 14), st.sampled_from(["look", "set ahead", "set back", "stand still"])),
        max_size=80,
    )
)
def test_nobody_dies_within_thirty_intervals_of_a_break(steps: list[tuple[float, str]]) -> None:
    """Whatever the clocks do: after a jump or a standstill 30 intervals pass before anybody is dead."""
    wall = monotonic = last_break = 1000.0
    vigil = begin(wall, monotonic)
    for step, what in steps:
        pause = step + 20 if what == "stand still" else step
        monotonic += pause
        wall += pause + {"set ahead": 3600, "set back": -3600}.get(what, 0)
        vigil = look(vigil, wall, monotonic)
        if what != "look":
            last_break = monotonic
        assert may_bury(vigil, 1e9, 1.0) == (monotonic - last_break >= 30)
