"""Runs of seqs: what remembers every event of a job without keeping one of them."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from jobwire.metrics.job_totals import JobTotals, one_event, row_of, totals_of


@given(st.sets(st.integers(1, 60), min_size=1), st.integers(0, 1000))
def test_runs_know_exactly_what_was_added(seqs: set[int], seed: int) -> None:
    """In any order of adding, a seq is known if and only if it was added, and runs never touch."""
    totals = JobTotals("0000abcd", "")
    ordered = sorted(seqs)
    Random(seed).shuffle(ordered)  # noqa: S311 - a script
    for seq in ordered:
        totals.add(one_event(seq, seq * 1000, "progress" if seq % 3 else "permission_required"))
    assert {seq for seq in range(70) if totals.overlaps(seq, seq)} == seqs
    assert totals.events == len(seqs)
    for left, right in zip(totals.runs, totals.runs[1:], strict=False):
        assert left.last_seq + 1 < right.first_seq
    again = totals_of(row_of(totals))
    assert (again.runs, again.waiting_us) == (totals.runs, totals.waiting_us)


def test_an_open_wait_has_a_beginning_and_no_length() -> None:
    """A job that waits now says since when; the time counts once the next event came."""
    totals = JobTotals("0000abcd", "")
    totals.add(one_event(1, 1_000_000, "started"))
    totals.add(one_event(2, 2_000_000, "permission_required"))
    assert (totals.last.last_event, totals.waiting_us) == ("permission_required", 0)
    totals.add(one_event(3, 5_500_000, "completed"))
    assert (totals.last.last_event, totals.waiting_us) == ("completed", 3_500_000)
    assert (totals.outcome, totals.finished_us) == ("completed", 5_500_000)


def test_the_first_terminal_event_is_the_outcome() -> None:
    """Whatever a job says after its end, and in whatever order that is read, its outcome stays."""
    totals = JobTotals("0000abcd", "")
    totals.add(one_event(5, 5, "completed"))
    totals.add(one_event(3, 3, "error"))
    totals.add(one_event(7, 7, "completed"))
    assert (totals.outcome, totals.finished_us) == ("error", 3)
