"""In which phase a board is, who has still to speak, and what ended it. Pure.

    ASSESSING -> DISCUSSING (up to three rounds) -> VOTING -> RESOLVING -> COMPLETE
    quick: ASSESSING -> RESOLVING -> COMPLETE

A phase ends when every member has spoken, or at its deadline. A round of the discussion ends when each has
said something or passed. What was said is folded with its time, so whoever looks next finds the same.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.coordination.boards.resolution import Statement

MAX_ROUNDS = 3


class BoardPhase(Enum):
    """What a board does now."""

    ASSESSING = "ASSESSING"
    DISCUSSING = "DISCUSSING"
    VOTING = "VOTING"
    #: Nothing is open any more; the resolution is not written yet.
    RESOLVING = "RESOLVING"
    COMPLETE = "COMPLETE"


class BoardTurn(Enum):
    """What a member does; a turn belongs to one phase."""

    ASSESS = "assess"
    DISCUSS = "discuss"
    PASS = "pass"  # noqa: S105 - to pass one's turn
    VOTE = "vote"


_PHASE_OF = {
    BoardTurn.ASSESS: BoardPhase.ASSESSING,
    BoardTurn.DISCUSS: BoardPhase.DISCUSSING,
    BoardTurn.PASS: BoardPhase.DISCUSSING,
    BoardTurn.VOTE: BoardPhase.VOTING,
}


class Terms(NamedTuple):
    """How a board was opened: its members, seconds that a phase may take, and what it is about."""

    members: frozenset[str]
    opened_ms: int
    deadline_seconds: float
    quick: bool = False
    rounds: int = MAX_ROUNDS
    quorum: int = 0
    board_id: str = ""
    checkpoint: str = ""
    proposal: str = ""


class Progress(NamedTuple):
    """Where the board is, since and until when, and who is missing; `round` is 0 but while discussing.

    `absent` are the members who let the deadline of a phase pass, by phase.
    """

    phase: BoardPhase
    round: int
    since_ms: int
    until_ms: int
    missing: frozenset[str]
    absent: dict[BoardPhase, frozenset[str]]


def progress(terms: Terms, said: Iterable[Statement], now_ms: int) -> Progress:
    """Return where the board is at `now_ms`; `said` in the order in which it was said."""
    state = _begin(terms, BoardPhase.ASSESSING, terms.opened_ms, {})
    for spoken in said:
        state = _until(terms, state, spoken.at_ms)
        if _PHASE_OF[spoken.turn] is state.phase and spoken.member in terms.members:
            state = _heard(terms, state, spoken)
    return _until(terms, state, now_ms)


def phase_of(turn: BoardTurn) -> BoardPhase:
    """Return the phase in which a member may do this."""
    return _PHASE_OF[turn]


def _begin(terms: Terms, phase: BoardPhase, at_ms: int, absent: dict[BoardPhase, frozenset[str]]) -> Progress:
    is_open = phase in _PHASE_OF.values()
    return Progress(
        phase,
        1 if phase is BoardPhase.DISCUSSING else 0,
        at_ms,
        at_ms + int(terms.deadline_seconds * 1000) if is_open else at_ms,
        terms.members if is_open else frozenset(),
        absent,
    )


def _heard(terms: Terms, state: Progress, spoken: Statement) -> Progress:
    missing = state.missing - {spoken.member}
    if missing:
        return state._replace(missing=missing)
    if state.phase is BoardPhase.DISCUSSING and state.round < terms.rounds:
        return state._replace(round=state.round + 1, missing=terms.members)
    return _begin(terms, _next(terms, state.phase), max(spoken.at_ms, state.since_ms), state.absent)


def _until(terms: Terms, state: Progress, now_ms: int) -> Progress:
    while state.missing and now_ms >= state.until_ms:
        absent = {**state.absent, state.phase: state.missing}
        state = _begin(terms, _next(terms, state.phase), state.until_ms, absent)
    return state


def _next(terms: Terms, phase: BoardPhase) -> BoardPhase:
    if phase is BoardPhase.ASSESSING:
        return BoardPhase.RESOLVING if terms.quick else BoardPhase.DISCUSSING
    return BoardPhase.VOTING if phase is BoardPhase.DISCUSSING else BoardPhase.RESOLVING


def is_over(state: Progress) -> bool:
    """Tell whether nothing can be said any more."""
    return state.phase in {BoardPhase.RESOLVING, BoardPhase.COMPLETE}
