"""Boards and what was said on them as the store gives them back, and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.boards.phases import (
    BoardPhase,
    BoardTurn,
    Progress,
    Terms,
    phase_of,
    progress,
)
from jobwire.coordination.boards.resolution import Statement
from jobwire.core.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore, Transaction


class Board(NamedTuple):
    """One board, in the order of the queries' columns."""

    board_id: str
    run_id: str
    thread_id: str
    checkpoint: str
    proposal: str
    opened_by: str
    members: str
    quick: int
    rounds: int
    quorum: int
    deadline_seconds: float
    opened_ms: int
    asked: str
    resolution: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return its members, in the order in which it was opened."""
        return tuple(json.loads(self.members))

    @property
    def terms(self) -> Terms:
        """Return how it was opened, and what it is about."""
        return Terms(
            frozenset(self.names),
            self.opened_ms,
            self.deadline_seconds,
            bool(self.quick),
            self.rounds,
            self.quorum,
            self.board_id,
            self.checkpoint,
            self.proposal,
        )


class BoardView(NamedTuple):
    """A board as it is now: where it stands, what was said, its resolution once it has one."""

    board: Board
    progress: Progress
    said: list[Statement]
    resolution: Mapping[str, object] | None

    @property
    def phase(self) -> BoardPhase:
        """Return its phase; COMPLETE once there is a resolution."""
        return BoardPhase.COMPLETE if self.resolution is not None else self.progress.phase

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        state = self.progress
        # A resolution that was changed afterwards tells nothing.
        absent = self.resolution.get("absent") if self.resolution is not None else None
        if absent is None:
            absent = {phase.value: sorted(names) for phase, names in state.absent.items()}
        return {
            "board_id": self.board.board_id,
            "run_id": self.board.run_id,
            "thread_id": self.board.thread_id,
            "checkpoint": self.board.checkpoint,
            "opened_by": self.board.opened_by,
            "members": list(self.board.names),
            "quick": bool(self.board.quick),
            "phase": self.phase.value,
            "round": state.round,
            "until_ms": state.until_ms,
            "missing": sorted(state.missing),
            "absent": absent,
            "verdict": self.resolution["verdict"] if self.resolution is not None else None,
        }


def board_of(reader: CoordinationStore | Transaction, board_id: str) -> Board:
    """Return a board; raises NotFoundError."""
    # SQLite takes no half of a surrogate pair.
    row = next(iter(reader.rows("board", {"board_id": board_id})), None) if board_id.isascii() else None
    if row is None:
        raise NotFoundError(
            f"there is no board {board_id!r}", hint="`jobwire board list` shows the boards", code="not_found"
        )
    return Board(*row)


def look(
    reader: CoordinationStore | Transaction, board_id: str, now: float
) -> tuple[Board, list[Statement], Progress]:
    """Return a board, what was said on it, and where it is; raises NotFoundError."""
    return look_at(reader, board_of(reader, board_id), now)


def look_at(
    reader: CoordinationStore | Transaction, board: Board, now: float
) -> tuple[Board, list[Statement], Progress]:
    """Return a board that was read, what was said on it, and where it is."""
    said = [
        Statement(member, BoardTurn(turn), at_ms, json.loads(content), number)
        for number, member, turn, at_ms, content in reader.rows("statements_of", {"board_id": board.board_id})
    ]
    return board, said, progress(board.terms, said, int(now * 1000))


def at_the_end(board: Board, said: list[Statement]) -> Progress:
    """Return where the board was when nothing could be said any more."""
    last_ms = int(board.opened_ms + 4 * board.deadline_seconds * 1000)
    return progress(board.terms, said, last_ms)


def silent(board: Board, said: list[Statement]) -> dict[BoardPhase, frozenset[str]]:
    """Return who neither assessed nor voted where each of them could: elsewhere there are no deadlines."""
    turns = (BoardTurn.ASSESS,) if board.quick else (BoardTurn.ASSESS, BoardTurn.VOTE)
    found = {turn: board.terms.members - {one.member for one in said if one.turn is turn} for turn in turns}
    return {phase_of(turn): names for turn, names in found.items() if names}
