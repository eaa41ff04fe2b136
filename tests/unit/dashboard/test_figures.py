"""Ranges, quantiles and counts over time: the arithmetic of the metrics view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.dashboard.figures import STEPS, TimeRange, count_over_time, quantiles, quantiles_over_time, span

NOW = 1_767_225_605.0
WANTED = TimeRange(start=0, end=100, width=10, step=10)


@pytest.mark.parametrize("seconds", [*STEPS, 0, 7, -1])
def test_range_ends_with_the_present_step(seconds: int) -> None:
    """Every range is cut into whole steps that its windows fill, the last one holding the present."""
    found = span(seconds, NOW)
    assert found.points[-1] <= NOW < found.end
    assert found.start % found.step == 0
    assert found.step % found.width == 0
    assert len(found.points) <= 180


def test_no_values_have_no_quantiles() -> None:
    """Nothing is said where nothing was measured."""
    assert quantiles([]) == {"p50": None, "p95": None, "p99": None}


@given(
    st.lists(
        st.tuples(st.integers(-50, 150), st.integers(0, 100)).map(lambda pair: (pair[0], pair[0] + pair[1]))
    )
)
def test_count_over_time_is_the_plain_count(intervals: list[tuple[float, float]]) -> None:
    """At the end of each step as many intervals are counted as hold that moment."""
    ends = [start + WANTED.step for start in WANTED.points]
    plain = [sum(since <= end < until for since, until in intervals) for end in ends]
    assert count_over_time(intervals, WANTED) == plain


def test_open_interval_counts_to_the_end() -> None:
    """What has not ended is counted until now."""
    assert count_over_time([(55, float("inf"))], WANTED) == [0] * 5 + [1] * 5


def test_quantiles_over_time() -> None:
    """Each step has the quantiles of its own values, none where it has none or a correction took them."""
    found = quantiles_over_time(
        {(0, "completed"): [(5, 1)], (0, "error"): [(9, 1)], (3, "error"): [(7, 2), (7, -2)]}, WANTED
    )
    assert found["p50"] == [pytest.approx(5e-6), *[None] * 9]
    assert found["p99"][0] == pytest.approx(9e-6)
