"""How a board's votes become a verdict. Pure.

| of N members | verdict |
|---|---|
| below the quorum | ESCALATE |
| approve >= 0.8 N | APPROVED |
| approve > N/2 | APPROVED_WITH_REVIEW |
| reject > N/2 | REJECTED |
| else | ESCALATE |

Who abstains, or said nothing by the deadline, stays in N. Whole numbers only: 0.8 * 15 is 12.000000000000002.
"""

from collections.abc import Iterable
from enum import Enum


class Vote(Enum):
    """What a member votes."""

    APPROVE = "APPROVE"
    REJECT = "REJECT"
    ABSTAIN = "ABSTAIN"


class Assessment(Enum):
    """What a member thinks of the proposal before the discussion."""

    APPROVE = "APPROVE"
    CONCERNS = "CONCERNS"
    REJECT = "REJECT"


class Decision(Enum):
    """What the board decided."""

    APPROVED = "APPROVED"
    APPROVED_WITH_REVIEW = "APPROVED_WITH_REVIEW"
    REJECTED = "REJECTED"
    #: No majority, or too few votes: a person decides.
    ESCALATE = "ESCALATE"


def decide(votes: Iterable[Vote], *, members: int, quorum: int = 0) -> Decision:
    """Return the decision of `members`, of whom `votes` spoke; `quorum` counts approvals and rejections."""
    said = list(votes)
    approve, reject = said.count(Vote.APPROVE), said.count(Vote.REJECT)
    if approve + reject < quorum:
        return Decision.ESCALATE
    if members and _consensus(approve, members):
        return Decision.APPROVED
    if 2 * approve > members:
        return Decision.APPROVED_WITH_REVIEW
    if 2 * reject > members:
        return Decision.REJECTED
    return Decision.ESCALATE


def decide_quickly(said: Iterable[Assessment], *, members: int) -> tuple[Decision, bool]:
    """Return the decision of a quick review, and whether it is a consensus (at least 0.8 of the members).

    Concerns count for it; whoever said nothing counts against it.
    """
    approve = sum(one is not Assessment.REJECT for one in said)
    decision = Decision.APPROVED if 2 * approve > members else Decision.REJECTED
    return decision, _consensus(approve, members)


def _consensus(approve: int, members: int) -> bool:
    return 5 * approve >= 4 * members
