"""What the end of a turn means for the job. Pure.

An agent that ends its turn has not said how the job went. It is asked once, through the hook; what it then
says is the verdict, and where it says nothing the user's policy decides.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.hooks.policy import ASK, Policy
from jobwire.hooks.signs import last_line

if TYPE_CHECKING:
    from jobwire.hooks.signs import Said

# What people write around a line of its own.
_MARKS = " \t>*_`#-"
_VERDICTS = frozenset({"completed", "error"})
_LAST_LINES = 5
HOW_TO_END = (
    "When the work is done, check it once more and end with a line of its own: `completed: WHAT WAS DONE` or"
    " `error: WHY IT CANNOT BE DONE`."
    " If a person must decide something first, ask that instead."
)
ASKED = (
    f"Your turn ended, and this job has no verdict yet. If the work is not done, go on with it. {HOW_TO_END}"
)


class AfterTurn(StrEnum):
    """What follows."""

    BUSY = "busy"  # tasks in the background go on
    ASKED = "asked"  # the agent is asked for a verdict
    VERDICT = "verdict"  # it gave one
    POLICY = "policy"  # it gave none, and the policy takes the turn's end for the job's
    PERSON = "person"  # it gave none, and a person is asked


class TurnEnd(NamedTuple):
    """What follows, and the verdict: the event and its detail."""

    ending: AfterTurn
    event: str = ""
    detail: str = ""


def judge_end(said: Said, policy: Policy) -> TurnEnd:
    """Return what follows from the end of this turn."""
    if said.background:
        return TurnEnd(AfterTurn.BUSY)
    if not said.asked_again:
        return TurnEnd(AfterTurn.ASKED)
    verdict = verdict_in(said.text)
    if verdict is not None:
        return TurnEnd(AfterTurn.VERDICT, *verdict)
    if policy.turn_end == ASK:
        return TurnEnd(AfterTurn.PERSON)
    return TurnEnd(AfterTurn.POLICY, "completed", last_line(said.text))


def verdict_in(text: str) -> tuple[str, str] | None:
    """Return the event and the words of a verdict among the last lines; None for none."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines[-_LAST_LINES:]):
        event, colon, words = line.strip(_MARKS).partition(":")
        event = event.strip(_MARKS).lower()
        if colon and event in _VERDICTS:
            return event, words.strip(_MARKS)
    return None
