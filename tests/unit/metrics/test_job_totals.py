"""Runs of seqs: what remembers every event of a job without keeping one of them."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from jobwire.metrics.job_totals import JobRow, joined, overlaps, runs_of

JOB = "0000abcd"
STARTED_US, FINISHED_US, OUTCOME, WAITING_US, LAST_EVENT = 2, 3, 5, 8, 12


def one_event(seq: int, received_us: int, event: str) -> JobRow:
    """Return a single event as a job of its own."""
    ended = event in {"completed", "error"}
    return (
        *(JOB, "", received_us, received_us if ended else None, seq if ended else None),
        *(event if ended else "open", 1, int(event == "started"), 0),
        *(seq, received_us, seq, event, received_us, None),
    )


@given(st.sets(st.integers(1, 60), min_size=1), st.integers(0, 1000))
def test_runs_know_exactly_what_was_added(seqs: set[int], seed: int) -> None:
    """In any order of adding, a seq is known if and only if it was added, and runs never touch."""
    ordered = sorted(seqs)
    Random(seed).shuffle(ordered)  # noqa: S311 - a script
    parts = [one_event(s, s * 1000, "progress" if s % 3 else "permission_required") for s in ordered]
    row = parts[0]
    for part in parts[1:]:
        row = joined([row, part])
    runs = runs_of(row)
    assert {seq for seq in range(70) if overlaps(runs, seq, seq)} == seqs
    assert row[6] == len(seqs)
    for left, right in pairwise(runs):
        assert left.last_seq + 1 < right.first_seq
    assert joined(parts) == row


def test_an_open_wait_has_a_beginning_and_no_length() -> None:
    """A job that waits now says since when; the time counts once the next event came."""
    row = joined([one_event(1, 1_000_000, "started"), one_event(2, 2_000_000, "permission_required")])
    assert (row[LAST_EVENT], row[WAITING_US], row[FINISHED_US]) == ("permission_required", 0, None)
    row = joined([row, one_event(3, 5_500_000, "completed")])
    assert (row[LAST_EVENT], row[WAITING_US]) == ("completed", 3_500_000)
    assert (row[OUTCOME], row[STARTED_US], row[FINISHED_US]) == ("completed", 1_000_000, 5_500_000)


def test_the_first_terminal_event_is_the_outcome() -> None:
    """Whatever a job says after its end, and in whatever order that is read, its outcome stays."""
    said = ((5, "completed"), (3, "error"), (7, "completed"))
    row = joined([one_event(seq, seq, event) for seq, event in said])
    assert (row[OUTCOME], row[FINISHED_US]) == ("error", 3)
