"""Gaps: a set of seqs whose cost does not depend on how wide its gaps are."""

from hypothesis import given
from hypothesis import strategies as st

from jobwire.jobs.gaps import Gaps

MOST = 8


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(1, 60)), max_size=30))
def test_like_a_set_that_keeps_its_newest(steps: list[tuple[int, bool, int]]) -> None:
    """Whatever is opened and closed, it holds what a set would, cut to the highest few."""
    gaps, model, top = Gaps(MOST), set[int](), 0
    for width, opens, seq in steps:
        if opens:
            gaps.open(top + 2, top + 1 + width)
            model |= set(range(top + 2, top + 2 + width))
            model = set(sorted(model)[-MOST:])
            top += width + 2
        else:
            gaps.close(seq)
            model.discard(seq)
        assert list(gaps) == sorted(model)
        assert len(gaps) == len(model)
        inside = [one for one in sorted(model) if seq <= one <= seq + 20]
        assert gaps.within(seq, seq + 20) == (min(inside, default=0), len(inside))
        assert [seq in gaps for seq in range(80)] == [seq in model for seq in range(80)]


def test_width_costs_nothing() -> None:
    """A gap up to the highest seq there is is one range, of which the newest seqs are kept."""
    gaps = Gaps(MOST)
    gaps.open(2, 2**53 - 2)
    assert list(gaps) == list(range(2**53 - 9, 2**53 - 1))
    assert 3 not in gaps


def test_an_empty_range_adds_nothing() -> None:
    """The next seq in order leaves no gap."""
    gaps = Gaps(MOST)
    gaps.open(5, 4)
    assert not gaps
