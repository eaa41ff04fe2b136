"""Delay buckets: small, exact to add, close to read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobwire.metrics.buckets import buckets_of, middle_us, percentiles


@given(st.lists(st.integers(0, 2**49), min_size=1, max_size=50))
def test_a_bucket_is_within_one_percent(delays: list[int]) -> None:
    """The middle of a delay's bucket is the delay, within 1 %."""
    for delay, bucket in zip(delays, buckets_of(np.array(delays, np.int64)).tolist(), strict=True):
        assert abs(middle_us(bucket) - delay) <= max(0.01 * delay, 0)


@given(st.integers(0, 2**49), st.integers(0, 2**49))
def test_buckets_keep_the_order(one: int, other: int) -> None:
    """A longer delay is never in a lower bucket."""
    low, high = sorted((one, other))
    buckets = buckets_of(np.array([low, high], np.int64))
    assert buckets[0] <= buckets[1]


def test_clocks_ahead_and_broken_clocks_have_a_bucket() -> None:
    """Negative delays count as none, absurd ones as the highest."""
    buckets = buckets_of(np.array([-(2**62), -1, 0, 2**62], np.int64)).tolist()
    assert buckets[:3] == [0, 0, 0]
    assert buckets[3] < 4000


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=300))
def test_percentiles_are_nearest_rank(delays: list[int]) -> None:
    """Percentiles of the buckets are those of the sorted list, within a bucket."""
    counts: dict[int, int] = {}
    for bucket in buckets_of(np.array(delays, np.int64)).tolist():
        counts[bucket] = counts.get(bucket, 0) + 1
    found = percentiles(counts.items())
    assert found is not None
    ordered = sorted(delays)
    for percent, value in zip((50, 95, 99, 100), found, strict=True):
        exact = ordered[-(-len(ordered) * percent // 100) - 1] / 1000
        assert abs(value - exact) <= 0.01 * exact
