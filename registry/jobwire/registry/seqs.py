"""Sets of seqs as ranges, for what stands in a record. Pure.

A range is (first, last), both included; a set is a sorted tuple of ranges that do not touch.
"""

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]
# A worker that loses one event in two for hours must not let its record grow for ever.
MAX_RANGES = 64


def contains(ranges: Ranges, seq: int) -> bool:
    """Tell whether `seq` is in the set."""
    return any(first <= seq <= last for first, last in ranges)


def add(ranges: Ranges, seq: int) -> Ranges:
    """Return the set with `seq`."""
    if contains(ranges, seq):
        return ranges
    first = last = seq
    kept: list[tuple[int, int]] = []
    for low, high in ranges:
        if high == first - 1:
            first = low
        elif low == last + 1:
            last = high
        else:
            kept.append((low, high))
    return tuple(sorted([*kept, (first, last)]))


def advance(ranges: Ranges, seq: int) -> tuple[int, Ranges]:
    """Return how far everything above `seq` is in the set without a gap, and the rest of the set.

    A set with too many gaps gives up the lowest one: what is missing there will not come any more.
    """
    while ranges and ranges[0][0] <= seq + 1:
        seq = max(seq, ranges[0][1])
        ranges = ranges[1:]
    if len(ranges) > MAX_RANGES:
        return advance(ranges[1:], ranges[0][1])
    return seq, ranges


def decode(value: object) -> Ranges:
    """Return the set from its JSON form; an empty one where it is none."""
    if not isinstance(value, list):
        return ()
    pairs = [item for item in value if isinstance(item, list) and [type(part) for part in item] == [int, int]]
    return tuple(sorted((first, last) for first, last in pairs if first <= last))


def encode(ranges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the JSON form."""
    return [[first, last] for first, last in ranges]
