"""A board's verdict from its votes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.boards.tally import Assessment, Decision, Vote, decide, decide_quickly

A, R, N = Vote.APPROVE, Vote.REJECT, Vote.ABSTAIN
APPROVED, REVIEW, REJECTED, ESCALATE = (
    Decision.APPROVED,
    Decision.APPROVED_WITH_REVIEW,
    Decision.REJECTED,
    Decision.ESCALATE,
)
# (approve, reject) of five members, the others abstain: all 21 tallies.
FIVE = {
    (5, 0): APPROVED,
    (4, 0): APPROVED,
    (4, 1): APPROVED,
    (3, 0): REVIEW,
    (3, 1): REVIEW,
    (3, 2): REVIEW,
    (0, 3): REJECTED,
    (1, 3): REJECTED,
    (2, 3): REJECTED,
    (0, 4): REJECTED,
    (1, 4): REJECTED,
    (0, 5): REJECTED,
    **{(approve, reject): ESCALATE for approve in range(3) for reject in range(3)},
}


@pytest.mark.parametrize(("votes", "decision"), FIVE.items())
def test_five_members(votes: tuple[int, int], decision: Decision) -> None:
    """Each of the 21 tallies of five members has its verdict."""
    assert len(FIVE) == 21
    approve, reject = votes
    said = [A] * approve + [R] * reject + [N] * (5 - approve - reject)
    assert decide(said, members=5) is decision
    assert decide([A] * approve + [R] * reject, members=5) is decision


@pytest.mark.parametrize(
    ("approve", "reject", "members", "decision"),
    [
        (3, 3, 6, ESCALATE),
        (4, 4, 8, ESCALATE),
        (3, 4, 7, REJECTED),
        (2, 0, 2, APPROVED),
        (12, 3, 15, APPROVED),
        (0, 0, 0, ESCALATE),
    ],
)
def test_other_sizes(approve: int, reject: int, members: int, decision: Decision) -> None:
    """Even boards may be split, and the thresholds are fractions of the board."""
    assert decide([A] * approve + [R] * reject, members=members) is decision


@given(
    st.integers(2, 15).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sampled_from(Vote), max_size=n)))
)
def test_majorities(board: tuple[int, list[Vote]]) -> None:
    """Nothing is approved without more than half of all members, nothing rejected without as many against."""
    members, votes = board
    decision = decide(votes, members=members)
    approve, reject = votes.count(A), votes.count(R)
    assert (decision in {APPROVED, REVIEW}) == (approve > members / 2)
    assert (decision is REJECTED) == (reject > members / 2)
    assert (decision is APPROVED) == (approve / members >= 0.8)


def test_below_the_quorum() -> None:
    """Too few who vote for or against anything is for a person to decide, however they agree."""
    assert decide([A, A, A, N, N], members=5, quorum=4) is ESCALATE
    assert decide([A, A, A, R, N], members=5, quorum=4) is REVIEW


@pytest.mark.parametrize(
    ("approve", "concerns", "reject", "decision", "consensus"),
    [
        (5, 0, 0, APPROVED, True),
        (2, 2, 1, APPROVED, True),
        (1, 2, 2, APPROVED, False),
        (1, 1, 3, REJECTED, False),
        (2, 0, 0, REJECTED, False),
    ],
)
def test_quick_review(
    approve: int, concerns: int, reject: int, decision: Decision, *, consensus: bool
) -> None:
    """In a quick review concerns count for the proposal and silence against it."""
    said = [Assessment.APPROVE] * approve + [Assessment.CONCERNS] * concerns + [Assessment.REJECT] * reject
    assert decide_quickly(said, members=5) == (decision, consensus)
