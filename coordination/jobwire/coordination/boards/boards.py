"""Boards in the store: opened, spoken on in turn, resolved by whoever looks after the last turn.

Members are asked where they look, in their inboxes, at the beginning of each phase; what they say goes to
the others the same way. A board needs no process: its phases are a fold over what was said and the clock.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.boards.phases import BoardPhase, BoardTurn, Progress, is_over, phase_of
from jobwire.coordination.boards.resolution import Statement, resolve
from jobwire.coordination.boards.statements import (
    EVERYBODY_ON_IT,
    NewBoard,
    PastBoard,
    check_board,
    checked,
    words,
)
from jobwire.coordination.boards.stored import Board, BoardView, at_the_end, look, look_at, silent
from jobwire.coordination.home_key import home_key
from jobwire.coordination.message import MAX_SUMMARY, STORE_AGENT, NewMessage, check_message
from jobwire.coordination.sending import Bulk, write
from jobwire.core.envelope import open_sealed, seal
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.storage import wake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore, Transaction

_ORDER = list(BoardPhase)
_ASK = {
    BoardPhase.ASSESSING: ("BOARD_ASSESS", "assess the proposal: jobwire board assess {} --verdict ..."),
    BoardPhase.DISCUSSING: ("BOARD_DISCUSS", "discuss or pass: jobwire board discuss {} ..., or board pass"),
    BoardPhase.VOTING: ("BOARD_VOTE", "vote: jobwire board vote {} --verdict ... --confidence 0.8"),
}


def not_genuine(found: list[str]) -> ConflictError:
    """Return the error for a resolution against which something speaks."""
    return ConflictError(
        "; ".join(found),
        hint="compare it with `jobwire board resolve BOARD`",
        code="not_expected",
        findings=found,
    )


class Boards:
    """The boards of a store; `key` seals resolutions: by default the home's. Raises as the store does."""

    def __init__(self, store: CoordinationStore, *, key: str | None = None) -> None:
        self._store = store
        self._key = home_key(store.home) if key is None else key

    def open(self, new: NewBoard) -> BoardView:
        """Open a board and ask its members for their assessments. Raises InvalidInputError."""
        check_board(new)
        board_id = f"board-{secrets.token_hex(6)}"
        summary = f"board {board_id}: {new.checkpoint}"
        opening = _message(new.opened_by, new.members, "BOARD_OPEN", summary, {"board_id": board_id})
        with self._store.changing() as change:
            thread_id = self._write(change, opening._replace(body=new.proposal, run_id=new.run_id))
            _insert(change, board_id, new, change.now_ms, thread_id)
            return self._brought_forward(change, board_id)

    def say(self, board_id: str, member: str, turn: BoardTurn, content: Mapping[str, object]) -> BoardView:
        """Let a member have its turn; said again in the same phase, the last one counts.

        Raises InvalidInputError (not_a_member, or for the content), ConflictError (board_phase).
        """
        content = checked(turn, content)
        with self._store.changing() as change:
            view = self._brought_forward(change, board_id)
            others = _listeners(view, member, turn, content)
            said = _message(
                member,
                others,
                "BOARD_DISCUSS" if turn is BoardTurn.PASS else f"BOARD_{turn.name}",
                f"{member}: {words(turn, content)}",
                {"board_id": board_id, "from": member, **content},
            )
            self._tell(change, view.board, said._replace(body=str(content.get("message", ""))))
            # Its number is the event of the message.
            _keep(change, change.latest_event(), board_id, Statement(member, turn, change.now_ms, content))
            return self._brought_forward(change, board_id)

    def take_in(self, past: PastBoard) -> bool:
        """Keep a board that was held elsewhere, as history, and seal what follows from what was said.

        Nobody is asked. Tell whether it is new here. `past` is checked.
        """
        new, board_id = past.new, past.board_id
        with self._store.changing() as change:
            if change.row("board", {"board_id": board_id}) is not None:
                return False
            opening = _message(new.opened_by, (), "BOARD_OPEN", f"board {board_id}: {new.checkpoint}", {})
            thread_id = self._write(change, opening._replace(body=new.proposal, run_id=new.run_id))
            _insert(change, board_id, new, past.opened_ms, thread_id)
            for one in past.said:
                number = change.event(
                    f"BOARD_{one.turn.name}",
                    source=one.member,
                    run_id=new.run_id,
                    summary=f"{one.member}: {words(one.turn, one.content)}"[:MAX_SUMMARY],
                )
                _keep(change, number, board_id, one)
            board, said, state = look(change, board_id, change.now)
            self._resolve(change, board, said, state._replace(absent=silent(board, said)))
            return True

    def view(self, board_id: str) -> BoardView:
        """Return a board as it is now, resolved where its time is over. Raises NotFoundError."""
        with self._store.reading():
            found = look(self._store, board_id, self._store.clock.now())
        return self._settled(*found)

    def views(
        self, *, only_open: bool = False, agent: str | None = None, limit: int = 100
    ) -> list[BoardView]:
        """Return the boards, or those that an agent is on or opened, newest first."""
        with self._store.reading():
            values = {"open": int(only_open), "agent": agent, "limit": limit}
            rows = self._store.rows("boards", values)
            found = [look_at(self._store, Board(*row), self._store.clock.now()) for row in rows]
        return [self._settled(*one) for one in found]

    def _settled(self, board: Board, said: list[Statement], state: Progress) -> BoardView:
        """Return the board as it is now; its time may have brought it forward."""
        if board.resolution is None and _mark(state) != board.asked:
            with self._store.changing() as change:
                return self._brought_forward(change, board.board_id)
        return BoardView(board, state, said, self._opened(board))

    def wait(self, board_id: str, phase: BoardPhase, *, seconds: float) -> BoardView:
        """Wait until the board is in that phase or beyond it; return it as it is then, or after `seconds`."""

        def arrived() -> BoardView | None:
            view = self.view(board_id)
            return view if _ORDER.index(view.phase) >= _ORDER.index(phase) else None

        names = [f"thread:{self.view(board_id).board.thread_id}"]
        found = wake.wait_until(
            arrived, home=self._store.home, names=names, seconds=seconds, clock=self._store.clock
        )
        return found if found is not None else self.view(board_id)

    def close(self) -> None:
        """Close this thread's connection to the store; the next call opens it again."""
        self._store.close()

    def verify(self, sealed: bytes) -> list[str]:
        """Return what speaks against a resolution: not ours, or what was changed since. Empty: nothing."""
        sealed, shown = _sealed_part(sealed)
        envelope = open_sealed(sealed, self._key, about={})
        if envelope is None:
            return ["it is not signed with this home's key, or was changed"]
        if shown is not None and shown != envelope.body:
            return ["what it shows is not what was signed"]
        try:
            board, said, _ = look(self._store, str(envelope.body.get("board_id")), self._store.clock.now())
        except NotFoundError as error:
            return [error.message]
        inputs = envelope.body.get("inputs")
        found = resolve(board.terms, said, at_the_end(board, said), "")["inputs"]
        if not isinstance(inputs, dict) or not isinstance(found, dict):
            return ["it names no inputs"]
        names = sorted({*inputs, *found})
        return [f"{name} was changed" for name in names if inputs.get(name) != found.get(name)]

    def _brought_forward(self, change: Transaction, board_id: str) -> BoardView:
        """Return the board as it is in this transaction, its new phase's members asked, or resolved."""
        board, said, state = look(change, board_id, change.now)
        if board.resolution is None and is_over(state):
            resolution, board = self._resolve(change, board, said, state)
            summary = f"board {board_id} decided: {resolution['verdict']}"
            everybody = tuple(dict.fromkeys([board.opened_by, *board.names]))
            self._tell(change, board, _message(STORE_AGENT, everybody, "BOARD_RESOLVE", summary, resolution))
        elif board.resolution is None and _mark(state) != board.asked:
            message_type, what = _ASK[state.phase]
            summary = f"board {board_id} asks you to {what.format(board_id)}"
            about = {"board_id": board_id, "phase": state.phase.value, "round": state.round}
            missing = tuple(sorted(state.missing))
            self._tell(change, board, _message(STORE_AGENT, missing, message_type, summary, about))
            change.execute("set_asked", {"board_id": board_id, "asked": _mark(state)})
        return BoardView(board, state, said, self._opened(board))

    def _resolve(
        self, change: Transaction, board: Board, said: list[Statement], state: Progress
    ) -> tuple[Mapping[str, object], Board]:
        resolution = resolve(board.terms, said, state, change.at)
        sealed = seal(resolution, self._key).decode()
        change.execute("set_resolution", {"board_id": board.board_id, "resolution": sealed})
        return resolution, board._replace(resolution=sealed)

    def _opened(self, board: Board) -> Mapping[str, object] | None:
        if board.resolution is None:
            return None
        envelope = open_sealed(board.resolution.encode(), self._key, about={"board_id": board.board_id})
        if envelope is None:
            raise ConflictError(
                f"the resolution of board {board.board_id} was changed, or this home's key is another one",
                hint="`jobwire board verify FILE` tells of a copy whether it is genuine",
                code="not_expected",
            )
        return envelope.body

    def _tell(self, change: Transaction, board: Board, said: NewMessage) -> None:
        self._write(change, said._replace(thread_id=board.thread_id, run_id=board.run_id))

    def _write(self, change: Transaction, said: NewMessage) -> str:
        message = check_message(said)
        return write(change, message, Bulk.of(message, BlobFolder(self._store.home))).thread_id


def _insert(change: Transaction, board_id: str, new: NewBoard, opened_ms: int, thread_id: str) -> None:
    values = new._asdict() | {
        "board_id": board_id,
        "thread_id": thread_id,
        "members": json.dumps(new.members),
        "quick": int(new.quick),
        "opened_ms": opened_ms,
        "asked": "",
        "resolution": None,
    }
    change.execute("insert_board", values)


def _keep(change: Transaction, number: int, board_id: str, said: Statement) -> None:
    values = said._asdict() | {
        "number": number,
        "board_id": board_id,
        "turn": said.turn.value,
        "content": json.dumps(said.content, ensure_ascii=False),
    }
    change.execute("insert_statement", values)


def _listeners(
    view: BoardView, member: str, turn: BoardTurn, content: Mapping[str, object]
) -> tuple[str, ...]:
    """Return who hears it; raises for a stranger and for a turn of another phase."""
    board, members = view.board, view.board.names
    for name in (member, content.get("to", EVERYBODY_ON_IT)):
        if name not in {*members, EVERYBODY_ON_IT} or member not in members:
            raise InvalidInputError(
                f"{name} is not on board {board.board_id}",
                hint=f"its members are {', '.join(members)}",
                code="not_a_member",
            )
    if view.phase is not phase_of(turn):
        raise ConflictError(
            f"board {board.board_id} is {view.phase.value}: nobody can {turn.value} now",
            hint=f"`jobwire board show {board.board_id}` shows where it is",
            code="board_phase",
        )
    to = content.get("to", EVERYBODY_ON_IT)
    return tuple(name for name in members if name != member and to in {EVERYBODY_ON_IT, name})


def _message(
    sender: str, to: tuple[str, ...], message_type: str, summary: str, payload: Mapping[str, object]
) -> NewMessage:
    return NewMessage(
        sender,
        to,
        kind="control" if sender == STORE_AGENT else "event",
        type=message_type,
        summary=" ".join(summary.split())[:MAX_SUMMARY],
        payload=json.dumps(payload, ensure_ascii=False),
    )


def _sealed_part(payload: bytes) -> tuple[bytes, object]:
    """Return the sealed text, and what is shown beside it: in a file that `board resolve --json` wrote."""
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError):
        return payload, None
    if isinstance(body, dict) and isinstance(body.get("sealed"), str):
        return body["sealed"].encode(errors="replace"), body.get("resolution")
    return payload, None


def _mark(state: Progress) -> str:
    return f"{state.phase.value} {state.round}"
