"""The board of a message bus: its newest session with what was said on it, once nothing can be said there.

The folder keeps the words of one board only: of older ones nothing is left but that they were. A board that
goes on there is not taken in: it would be asked, and would decide, in two places.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from jobwire.coordination.boards.phases import BoardTurn
from jobwire.coordination.boards.resolution import Statement
from jobwire.coordination.boards.statements import (
    DEFAULT_MEMBERS,
    NewBoard,
    PastBoard,
    check_board,
    checked_statement,
)
from jobwire.coordination.bus import message_bus
from jobwire.coordination.message import STORE_AGENT
from jobwire.core.canonical import JsonShapeError
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.strict_json import decode_object
from jobwire.storage.named_files import read_named_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_FILE = 16 * 1024 * 1024
MAX_SESSIONS = 1000
ASSESSMENTS, VOTES, DISCUSSION = "assessments.json", "votes.json", "discussion.jsonl"
_SESSION = re.compile(r"session-([A-Za-z0-9][A-Za-z0-9_.-]{0,127})\.json")
_ORDER = {turn: place for place, turn in enumerate(BoardTurn)}
_REFUSED = (InvalidInputError, ConfigError, JsonShapeError)


def read_board(folder: str, run_id: str, left_out: Callable[[str], object]) -> PastBoard | None:
    """Return the newest board of a bus, if there is one to take; `left_out` is told what is not read."""
    sessions = sorted(_sessions(folder, left_out), key=lambda one: one[0])
    for _, name, _ in sessions[:-1]:
        left_out(f"{_place(name)}: what was said there is gone, a bus keeps the newest board's words")
    if not sessions:
        return None
    started_ms, name, session = sessions[-1]
    try:
        new = _board(session, run_id)
        board = PastBoard(name, started_ms, new, _said(folder, new, started_ms, left_out))
    except _REFUSED as error:
        left_out(f"{_place(name)}: {error.message}")
        return None
    if session.get("status") != "COMPLETE" and not _has_spoken(board):
        left_out(f"{_place(name)}: it goes on there; take it in once all have voted")
        return None
    return board


def _sessions(
    folder: str, left_out: Callable[[str], object]
) -> Iterator[tuple[int, str, Mapping[str, object]]]:
    try:
        names = sorted(os.listdir(f"{folder}/{message_bus.BOARD}"))
    except (FileNotFoundError, NotADirectoryError):
        return
    found = [match[1] for name in names if (match := _SESSION.fullmatch(name))]
    for name in found[:MAX_SESSIONS]:
        try:
            session = _object(folder, f"session-{name}.json")
            if session.get("session_id") != name:
                raise InvalidInputError("its session_id is another one")
            yield message_bus.milliseconds(session.get("started_at")), name, session
        except _REFUSED as error:
            left_out(f"{_place(name)}: {error.message}")


def _board(session: Mapping[str, object], run_id: str) -> NewBoard:
    proposal, members = session.get("proposal"), session.get("directors", list(DEFAULT_MEMBERS))
    if not isinstance(proposal, dict) or not isinstance(members, list):
        raise InvalidInputError("it needs a proposal and directors")
    new = NewBoard(
        STORE_AGENT,
        str(session.get("checkpoint")),
        str(proposal.get("proposal", "")),
        tuple(map(str, members)),
        quick=proposal.get("quick_mode") is True,
        run_id=run_id,
    )
    check_board(new)
    return new


def _said(
    folder: str, new: NewBoard, started_ms: int, left_out: Callable[[str], object]
) -> tuple[Statement, ...]:
    """Return what was said in its order. Raises for what would decide otherwise: an assessment or a vote."""
    said = list(_discussion(folder, new, started_ms, left_out))
    last_ms = max([started_ms, *(one.at_ms for one in said)])
    for name, turn, otherwise_ms in (
        (ASSESSMENTS, BoardTurn.ASSESS, started_ms),
        (VOTES, BoardTurn.VOTE, last_ms),
    ):
        for member, one in _object(folder, name).items():
            if not isinstance(one, dict):
                raise InvalidInputError(f"{name}: {member!r:.60}: it is no object")
            said.append(checked_statement(new, Statement(member, turn, _at(one, otherwise_ms), one)))
    return tuple(sorted(said, key=lambda one: (one.at_ms, _ORDER[one.turn])))


def _has_spoken(board: PastBoard) -> bool:
    """Tell whether each member had its last turn."""
    turn = BoardTurn.ASSESS if board.new.quick else BoardTurn.VOTE
    return {one.member for one in board.said if one.turn is turn} >= set(board.new.members)


def _discussion(
    folder: str, new: NewBoard, started_ms: int, left_out: Callable[[str], object]
) -> Iterator[Statement]:
    """Yield what was said to each other: a line less decides nothing, so the rest is taken."""
    place = f"{message_bus.BOARD}/{DISCUSSION}"
    for where, one in message_bus.lines_of(_bytes(folder, DISCUSSION), place, left_out):
        try:
            said = Statement(str(one.get("from")), BoardTurn.DISCUSS, _at(one, started_ms), one)
            yield checked_statement(new, said)
        except _REFUSED as error:
            left_out(f"{where}: {error.message}")


def _at(said: Mapping[str, object], otherwise_ms: int) -> int:
    """Return when it was said; an assessment bears no time."""
    return message_bus.milliseconds(said["timestamp"]) if "timestamp" in said else otherwise_ms


def _object(folder: str, name: str) -> Mapping[str, object]:
    content = _bytes(folder, name)
    try:
        return decode_object(content) if content.strip() else {}
    except JsonShapeError as error:
        raise InvalidInputError(f"{name}: {error.message}") from error


def _bytes(folder: str, name: str) -> bytes:
    """Return a file of the board; empty where nobody said such a thing."""
    try:
        return read_named_file(f"{folder}/{message_bus.BOARD}/{name}", name, limit=MAX_FILE)
    except FileNotFoundError:
        return b""


def _place(name: str) -> str:
    return f"{message_bus.BOARD}/session-{name}.json"
