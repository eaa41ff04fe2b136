"""The verbs of boards as data: members take part from wherever they are, and see the boards they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination.boards.boards import Boards, not_genuine
from jobwire.coordination.boards.phases import BoardPhase, BoardTurn
from jobwire.coordination.boards.resolution import page
from jobwire.coordination.boards.statements import DEFAULT_MEMBERS, NewBoard
from jobwire.coordination.boards.words import standing
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.verb_form import FLAG, NUMBER, TEXT, TEXTS, WHOLE, AgentVerb, limit_of
from jobwire.core.errors import ConflictError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.boards.stored import BoardView
    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.verb_form import VerbBody

_PHASES = list(BoardPhase)


def _view(store: CoordinationStore, agent: str, args: dict[str, Any]) -> BoardView:
    """Return a board that the agent is on, or opened; raises InvalidInputError (not_a_member)."""
    view = Boards(store).view(args["board"])
    if agent not in {STORE_AGENT, *view.board.names, view.board.opened_by}:
        raise InvalidInputError(
            f"{agent} is not on board {view.board.board_id}",
            hint=f"its members are {', '.join(view.board.names)}",
            code="not_a_member",
        )
    return view


def _told(view: BoardView, **more: object) -> dict[str, object]:
    return {"board": view.to_json(), "board_id": view.board.board_id, **more}


def _open(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    members = tuple(args.pop("members", DEFAULT_MEMBERS))
    return _told(Boards(store).open(NewBoard(agent, members=members, **args)))


def _turn(turn: BoardTurn) -> VerbBody:
    """Return what lets a member have this turn."""

    def say(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
        board = args.pop("board")
        if turn is BoardTurn.VOTE:
            args["final_verdict"] = args.pop("verdict", None)
        return _told(Boards(store).say(board, agent, turn, args))

    return say


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return _decided(_view(store, agent, args), args)


def _resolve(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    view = _view(store, agent, args)
    if view.resolution is None:
        told = view.to_json()
        raise ConflictError(
            standing(told),
            hint=f"`jobwire board wait {view.board.board_id}` waits for the decision",
            code="board_phase",
            response={"board": told},
        )
    return {**_decided(view, args), "sealed": view.board.resolution}


def _decided(view: BoardView, args: dict[str, Any]) -> dict[str, object]:
    """Return what a board decided, as a page as well where a person asks."""
    if view.resolution is None:
        return _told(view, resolution=None)
    text = {"page": page(view.board.terms, view.resolution, view.said)} if args.get("page") else {}
    return _told(view, resolution=dict(view.resolution), **text)


def _messages(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    view = _view(store, agent, args)
    return _told(view, messages=[one.to_json() for one in view.said])


def _wait(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Look once: whoever is elsewhere sleeps there."""
    phase = args.get("phase", BoardPhase.COMPLETE.value)
    known = [one.value for one in BoardPhase]
    if phase not in known:
        raise InvalidInputError(f"phase is {phase!r:.80}", hint=f"one of {', '.join(known)}")
    view = _view(store, agent, args)
    return _told(view, woke=_PHASES.index(view.phase) >= _PHASES.index(BoardPhase(phase)))


def _verify(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    if found := Boards(store).verify(args["sealed"].encode()):
        raise not_genuine(found)
    return {"genuine": True}


def _list(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    mine = None if agent == STORE_AGENT else agent
    found = Boards(store).views(only_open=args.get("open", False), agent=mine, limit=limit_of(args))
    return {"boards": [one.to_json() for one in found]}


def _turns(takes: Mapping[str, str], turn: BoardTurn) -> AgentVerb:
    return AgentVerb({"board": TEXT, **takes}, _turn(turn), _BOARD, changes=True, keeps=True)


_BOARD = ("board",)
_READ = {"board": TEXT, "page": FLAG}
BOARD_VERBS: Mapping[str, AgentVerb] = {
    "board-open": AgentVerb(
        {
            **dict.fromkeys(("checkpoint", "proposal", "run_id"), TEXT),
            **dict.fromkeys(("rounds", "quorum"), WHOLE),
            "members": TEXTS,
            "quick": FLAG,
            "deadline_seconds": NUMBER,
        },
        _open,
        ("checkpoint", "proposal"),
        changes=True,
        keeps=True,
    ),
    "board-assess": _turns(
        {"verdict": TEXT, "score": NUMBER, "concerns": TEXTS, "recommendations": TEXTS}, BoardTurn.ASSESS
    ),
    "board-discuss": _turns(
        {"to": TEXT, "type": TEXT, "message": TEXT, "changes_my_verdict": FLAG}, BoardTurn.DISCUSS
    ),
    "board-pass": _turns({}, BoardTurn.PASS),
    "board-vote": _turns({"verdict": TEXT, "confidence": NUMBER, "conditions": TEXTS}, BoardTurn.VOTE),
    # A look resolves a board whose time is over: the same look gives the same answer.
    "board-show": AgentVerb(_READ, _show, _BOARD, public=True),
    "board-resolve": AgentVerb(_READ, _resolve, _BOARD, public=True),
    "board-messages": AgentVerb({"board": TEXT}, _messages, _BOARD, public=True),
    "board-wait": AgentVerb({"board": TEXT, "phase": TEXT}, _wait, _BOARD),
    "board-verify": AgentVerb({"sealed": TEXT}, _verify, ("sealed",), public=True),
    "board-list": AgentVerb({"open": FLAG, "limit": WHOLE}, _list, public=True),
}
