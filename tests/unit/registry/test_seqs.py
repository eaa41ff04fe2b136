"""Ranges of seqs against a plain set."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from jobwire.registry import seqs

_SEQS = st.lists(st.integers(1, 60), max_size=40)


def _ranges(numbers: list[int]) -> seqs.Ranges:
    ranges: seqs.Ranges = ()
    for number in numbers:
        ranges = seqs.add(ranges, number)
    return ranges


@given(_SEQS)
def test_a_set(numbers: list[int]) -> None:
    """Ranges hold exactly what was added, sorted and without touching each other."""
    ranges = _ranges(numbers)
    assert {n for first, last in ranges for n in range(first, last + 1)} == set(numbers)
    assert all(low[1] + 1 < high[0] for low, high in itertools.pairwise(ranges))
    assert all(seqs.contains(ranges, n) == (n in numbers) for n in range(62))


@given(_SEQS, st.integers(0, 60))
def test_advance(numbers: list[int], start: int) -> None:
    """Advancing goes as far as there is no gap, and leaves what lies beyond."""
    reached, rest = seqs.advance(_ranges(numbers), start)
    expected = start
    while expected + 1 in numbers:
        expected += 1
    assert reached == expected
    assert {n for first, last in rest for n in range(first, last + 1)} == {n for n in numbers if n > reached}


def test_too_many_gaps() -> None:
    """A record does not grow without end where every second event is lost."""
    ranges = _ranges(list(range(2, 400, 2)))
    reached, rest = seqs.advance(ranges, 0)
    assert len(rest) <= seqs.MAX_RANGES
    assert reached > 0


@given(_SEQS)
def test_json_form(numbers: list[int]) -> None:
    """The JSON form comes back."""
    ranges = _ranges(numbers)
    assert seqs.decode(seqs.encode(ranges)) == ranges


def test_nonsense_is_an_empty_set() -> None:
    """A field that somebody else wrote stops nobody."""
    assert seqs.decode(None) == seqs.decode("x") == seqs.decode([[1], ["a", 2], [3, 1]]) == ()
