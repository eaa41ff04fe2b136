"""Lengths of time in buckets: exact counts that add up in any order, read back as percentiles.

A bucket is a float with 6 bits of fraction: values below 64 µs have one each, above it 64 a power of
two, so a value is known to 1/64 (1.6 %) and its middle to half of that. Integers only: the same
values give the same table on every machine and in every order of adding (a sketch would not).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# What the table `histograms` counts, and by which dimensions.
DELAY, AHEAD, DURATION, WAITED, BEGUN = "delay", "ahead", "duration", "waiting", "begun"
QUEUED, PICKUP = "queued", "pickup"
EVERYTHING, SESSION, WORKER, LABEL, ATTEMPT = "", "session", "worker", "label", "attempt"

_BITS = 6
_LINEAR = 1 << _BITS
# About 36 years in µs; whatever is above is a broken clock, not a delay.
_HIGHEST_US = (1 << 50) - 1
# A worker's clock may be ahead by this much before it is worth telling.
AHEAD_US = 1_000_000


Buckets = Iterable[tuple[int, int]]
"""(bucket, count) pairs; a bucket may come more than once."""


class Percentiles(NamedTuple):
    """Milliseconds; `max_ms` is the middle of the highest bucket."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


def buckets_of(delays_us: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
    """Return each delay's bucket; negative ones (a clock that is ahead) count as 0."""
    import numpy as np  # noqa: PLC0415 - who only reads the tables may be without it

    values = np.clip(delays_us, 0, _HIGHEST_US)
    # frexp is exact below 2^53: exponent e means 2^(e-1) <= value < 2^e.
    _, exponents = np.frexp(values.astype(np.float64))
    shift = np.maximum(exponents.astype(np.int64) - 1 - _BITS, 0)
    return np.where(values < _LINEAR, values, (shift << _BITS) + (values >> shift))


def middle_us(bucket: int) -> float:
    """Return the middle of the bucket's range, in µs."""
    if bucket < 2 * _LINEAR:
        return float(bucket)
    shift = (bucket >> _BITS) - 1
    low = ((bucket & (_LINEAR - 1)) + _LINEAR) << shift
    return low + ((1 << shift) - 1) / 2


def percentiles(counts: Buckets) -> Percentiles | None:
    """Return the nearest-rank percentiles; None where nothing was counted."""
    # A correction may stand beside what it corrects, below zero.
    ordered = sorted((bucket, count) for bucket, count in _summed(counts).items() if count > 0)
    if not ordered:
        return None
    total = sum(count for _, count in ordered)
    ranks = [-(-total * percent // 100) for percent in (50, 95, 99, 100)]
    found: list[float] = []
    reached = 0
    for bucket, count in ordered:
        reached += count
        while len(found) < len(ranks) and reached >= ranks[len(found)]:
            found.append(middle_us(bucket) / 1000)
    return Percentiles(*found)


def _summed(counts: Buckets) -> dict[int, int]:
    total: dict[int, int] = {}
    for bucket, count in counts:
        total[bucket] = total.get(bucket, 0) + count
    return total
