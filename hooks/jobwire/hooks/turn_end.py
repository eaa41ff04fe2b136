"""What the end of a turn means for the job. Pure.

An agent that ends its turn has not said how the job went. It is asked once, through the hook; what it then
says is the verdict, and where it says nothing the user's policy decides. By that it is told to go on after an
error of the model's service as well.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import epoch
from jobwire.hooks.policy import ASK, Policy
from jobwire.hooks.signs import last_line
from jobwire.jobs.request_form import RequestKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.hooks.signs import Said
    from jobwire.jobs.requests import Request

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
# What may be over in a while; a key that is refused is not.
UNKNOWN = "unknown"
RETRYABLE = frozenset({"rate_limit", "overloaded", "server_error", UNKNOWN})
MAX_RETRY_SECONDS = 900.0
# Errors further back say nothing about this one.
RETRY_WINDOW_SECONDS = 6 * 3600.0


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


class Retry(NamedTuple):
    """The agent is told to go on after so many seconds, for the `number`th of `limit` times."""

    number: int
    limit: int
    seconds: float


def next_retry(error: str, requests: Iterable[Request], policy: Policy, now: float) -> Retry | None:
    """Return the next try; None where a person decides. `requests`: all of the job, its errors among them."""
    if error not in RETRYABLE:
        return None
    earlier = sum(_counts(one, now) for one in requests)
    if earlier >= policy.retries:
        return None
    seconds = min(policy.retry_seconds * 2.0**earlier, MAX_RETRY_SECONDS)
    return Retry(earlier + 1, policy.retries, seconds)


def failure_of(said: Said) -> str:
    """Return what happened, in a line."""
    return (
        f"the model's service failed ({said.kind or UNKNOWN}): {last_line(said.text) or 'it did not say why'}"
    )


def _counts(one: Request, now: float) -> bool:
    return one.kind is RequestKind.ERROR and now - epoch(one.asked_at) < RETRY_WINDOW_SECONDS
