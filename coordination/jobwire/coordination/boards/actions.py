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
    boards, phase = Boards(open_store(args)), BoardPhase(args.phase)
    view = boards.wait(args.board, phase, seconds=args.timeout_seconds)
    order, told = list(BoardPhase), view.to_json()
    if order.index(view.phase) < order.index(phase):
        raise NoWorkError(
            standing(told),
            hint="its deadline ends each phase, whoever is missing",
            code="timeout",
            response={"woke": False, "board": told},
        )
    say(args, {"woke": True, "board": told, "board_id": view.board.board_id}, standing(told))
    return 0
