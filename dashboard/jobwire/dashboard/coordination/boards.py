"""Boards, read from the store as they are now: phases, what was said, the resolution."""

from collections.abc import Mapping
from pathlib import Path

from jobwire.coordination.boards.phases import BoardPhase, BoardTurn
from jobwire.coordination.boards.resolution import Statement
from jobwire.coordination.boards.stored import Board, BoardView, look
from jobwire.coordination.home_key import home_key
from jobwire.coordination.store import CoordinationStore
from jobwire.core.envelope import open_sealed
from jobwire.dashboard.foreign import cut
from jobwire.storage.home_paths import HomePaths

MOST_BOARDS = 100
MOST_SAID = 500


def board_list(store: CoordinationStore, now: float) -> list[dict[str, object]]:
    """Return the boards, newest first."""
    with store.reading():
        names = [
            Board(*row).board_id
            for row in store.rows("boards", {"open": 0, "agent": None, "limit": MOST_BOARDS})
        ]
        return [_head(_view(store, name, now)) for name in names]


def board_page(store: CoordinationStore, board_id: str, now: float, *, me: str) -> dict[str, object]:
    """Return a board with its proposal and all that was said; raises NotFoundError."""
    with store.reading():
        view = _view(store, board_id, now)
    found = view.resolution
    return {
        "board": _head(view),
        "proposal": view.board.proposal,
        "mine": me in view.board.names and view.resolution is None and me in view.progress.missing,
        "said": [_said(one) for one in view.said[-MOST_SAID:]],
        "more": len(view.said) > MOST_SAID,
        "resolution": dict(found) if found is not None else None,
    }


def _view(store: CoordinationStore, board_id: str, now: float) -> BoardView:
    board, said, progress = look(store, board_id, now)
    return BoardView(board, progress, said, _opened(store, board))


def _opened(store: CoordinationStore, board: Board) -> Mapping[str, object] | None:
    """Return the resolution; where its seal does not hold, that is what it says."""
    if board.resolution is None:
        return None
    # Looking makes no key: without one nothing can be genuine.
    key = home_key(store.home) if Path(HomePaths(store.home).home_key_path).exists() else ""
    envelope = open_sealed(board.resolution.encode(), key, about={"board_id": board.board_id})
    return envelope.body if envelope is not None else {"verdict": "CHANGED", "forged": True}


def _head(view: BoardView) -> dict[str, object]:
    body = view.to_json()
    return {
        **{name: body[name] for name in ("board_id", "thread_id", "quick", "phase", "round", "missing")},
        "members": list(view.board.names),
        "absent": body["absent"],
        "verdict": body["verdict"],
        "run": cut(view.board.run_id),
        "checkpoint": cut(view.board.checkpoint),
        "opened_by": view.board.opened_by,
        "opened": view.board.opened_ms / 1000,
        "until": view.progress.until_ms / 1000,
        "rounds": view.board.rounds,
        "quorum": view.board.quorum,
        "open": view.phase is not BoardPhase.COMPLETE,
    }


def _said(one: Statement) -> dict[str, object]:
    return {
        "number": one.number,
        "member": one.member,
        "turn": one.turn.value,
        "phase": _PHASES[one.turn],
        "at": one.at_ms / 1000,
        "content": dict(one.content),
    }


_PHASES = {
    BoardTurn.ASSESS: "Assessment",
    BoardTurn.DISCUSS: "Discussion",
    BoardTurn.PASS: "Discussion",
    BoardTurn.VOTE: "Vote",
}
