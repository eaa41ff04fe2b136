"""What the verbs of `jobwire board` do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobwire.coordination.boards.boards import Boards, not_genuine
from jobwire.coordination.boards.phases import BoardPhase, BoardTurn
from jobwire.coordination.boards.resolution import page
from jobwire.coordination.boards.statements import DEFAULT_MEMBERS, NewBoard
from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.places import open_store
from jobwire.core.bounds import MAX_INSTRUCTIONS
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, NoWorkError
from jobwire.core.terminal_text import safe, table
from jobwire.core.told import at_most
from jobwire.storage.named_files import read_named_file, read_named_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from jobwire.coordination.boards.stored import BoardView

# A resolution names all that was said.
MAX_RESOLUTION = 16 * 1024 * 1024
# In bytes, of characters that may have four.
MAX_PROPOSAL = MAX_INSTRUCTIONS * 4


def board_open(args: Namespace) -> int:
    """Open a board."""
    boards, agent = Boards(open_store(args)), who_am_i(args)
    text = read_named_text(args.proposal, "proposal", limit=MAX_PROPOSAL)
    view = boards.open(
        NewBoard(
            agent,
            args.checkpoint,
            text,
            tuple(args.member) if args.member else DEFAULT_MEMBERS,
            quick=args.quick,
            rounds=args.rounds,
            quorum=args.quorum,
            deadline_seconds=args.deadline,
            run_id=args.run_id,
        )
    )
    return told(args, view, view.board.board_id)


def board_assess(args: Namespace) -> int:
    """Assess."""
    content = {
        "verdict": args.verdict,
        "score": args.score,
        "concerns": args.concern,
        "recommendations": args.recommendation,
    }
    return _say(args, BoardTurn.ASSESS, content)


def board_discuss(args: Namespace) -> int:
    """Discuss."""
    content = {
        "to": args.to,
        "type": args.type,
        "message": args.message,
        "changes_my_verdict": args.changes_my_verdict,
    }
    return _say(args, BoardTurn.DISCUSS, content)


def board_pass(args: Namespace) -> int:
    """Pass."""
    return _say(args, BoardTurn.PASS, {})


def board_vote(args: Namespace) -> int:
    """Vote."""
    content = {"final_verdict": args.verdict, "confidence": args.confidence, "conditions": args.condition}
    return _say(args, BoardTurn.VOTE, content)


def board_resolve(args: Namespace) -> int:
    """Print the resolution; 20 while there is none."""
    view = Boards(open_store(args)).view(args.board)
    if view.resolution is None:
        raise ConflictError(
            _standing(view),
            hint=f"`jobwire board wait {args.board}` waits for the decision",
            code="board_phase",
            response={"board": view.to_json()},
        )
    body = {"board": view.to_json(), "resolution": dict(view.resolution), "sealed": view.board.resolution}
    say(args, body, _page(view))
    return 0


def board_show(args: Namespace) -> int:
    """Show a board."""
    view = Boards(open_store(args)).view(args.board)
    body = {"board": view.to_json(), "resolution": dict(view.resolution) if view.resolution else None}
    say(args, body, _page(view) if view.resolution else _standing(view))
    return 0


def board_messages(args: Namespace) -> int:
    """Print all that was said."""
    view = Boards(open_store(args)).view(args.board)
    said = [one.to_json() for one in view.said]
    lines = [
        safe(f"{one['at']}  {one['member']} {one['turn']}: {json.dumps(one['content'], ensure_ascii=False)}")
        for one in said
    ]
    say(args, {"board": view.to_json(), "messages": said}, "\n".join(lines) or "nobody has spoken yet")
    return 0


def board_wait(args: Namespace) -> int:
    """Wait for a phase."""
    boards, phase = Boards(open_store(args)), BoardPhase(args.phase)
    view = boards.wait(args.board, phase, seconds=args.timeout_seconds)
    order = list(BoardPhase)
    if order.index(view.phase) < order.index(phase):
        raise NoWorkError(
            _standing(view),
            hint="its deadline ends each phase, whoever is missing",
            code="timeout",
            response={"woke": False, "board": view.to_json()},
        )
    return told(args, view, _standing(view), woke=True)


def board_list(args: Namespace) -> int:
    """List boards."""
    views = at_most(args, Boards(open_store(args)).views(only_open=args.open, limit=args.limit + 1))
    rows = [
        (
            view.board.board_id,
            view.phase.value,
            str(view.to_json()["verdict"] or ""),
            view.board.checkpoint,
            ", ".join(sorted(view.progress.missing)),
        )
        for view in views
    ]
    header = ("BOARD", "PHASE", "VERDICT", "CHECKPOINT", "WAITS FOR")
    text = "\n".join(table([header, *rows], None)) if rows else "there are no boards"
    say(args, {"boards": [view.to_json() for view in views]}, text)
    return 0


def board_verify(args: Namespace) -> int:
    """Check a resolution; 20 where something speaks against it."""
    boards = Boards(open_store(args))
    sealed = read_named_file(args.file, "resolution", limit=MAX_RESOLUTION)
    if found := boards.verify(sealed.strip()):
        raise not_genuine(found)
    say(args, {"genuine": True}, "genuine: nothing was changed since")
    return 0


def _page(view: BoardView) -> str:
    """Return the resolution as a page that does nothing to a terminal."""
    text = page(view.board.subject, view.resolution or {}, view.said)
    return "\n".join(safe(line) for line in text.splitlines())


def _say(args: Namespace, turn: BoardTurn, content: Mapping[str, object]) -> int:
    boards = Boards(open_store(args))
    view = boards.say(args.board, who_am_i(args), turn, content)
    return told(args, view, _standing(view))


def told(args: Namespace, view: BoardView, text: str = "", **more: object) -> int:
    """Say where a board is; without a text its resolution."""
    text = text or _page(view)
    say(args, {**more, "board": view.to_json(), "board_id": view.board.board_id}, text)
    return 0


def _standing(view: BoardView) -> str:
    """Return where a board is, in a line."""
    if view.resolution is not None:
        return f"board {view.board.board_id} decided: {view.resolution['verdict']}"
    state = view.progress
    turn = f" round {state.round}" if state.round else ""
    until = utc_timestamp(state.until_ms / 1000)
    missing = ", ".join(sorted(state.missing))
    return f"board {view.board.board_id} is {state.phase.value}{turn} until {until} and waits for {missing}"
