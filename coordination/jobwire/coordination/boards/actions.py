"""What `jobwire board wait` does where the home is; the other verbs are those of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardPhase
from jobwire.coordination.boards.words import standing
from jobwire.coordination.places import open_store
from jobwire.core.errors import NoWorkError
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace


def board_wait(args: Namespace) -> int:
    """Wait for a phase."""
    store, phase = open_store(args), BoardPhase(args.phase)
    view = Boards(store).wait(args.board, phase, seconds=args.timeout_seconds)
    order, board = list(BoardPhase), view.to_json()
    told = {"board": board, "board_id": view.board.board_id, "event_id": store.latest_event()}
    if order.index(view.phase) < order.index(phase):
        raise NoWorkError(
            standing(board),
            hint="its deadline ends each phase, whoever is missing",
            code="timeout",
            response={"woke": False, **told},
        )
    say(args, {"woke": True, **told}, standing(board))
    return 0
