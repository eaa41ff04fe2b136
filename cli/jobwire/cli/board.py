"""`jobwire board ...`: what agents do on a board, and a board that runs by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.boards.cli import BOARD
from jobwire.coordination.verbs import Verb
from jobwire.core.argument_types import whole

if TYPE_CHECKING:
    from jobwire.core.commands import CommandParser

_MOST_AT_ONCE = 100


def _ask_all(parser: CommandParser) -> None:
    # All words behind the board: argparse would drop the mark before the command.
    parser.add_argument("words", nargs="...", metavar="BOARD -- COMMAND", help="a board, then a command")
    parser.add_argument(
        "--at-once",
        type=whole(1, _MOST_AT_ONCE),
        default=8,
        metavar="N",
        help="commands at a time (default: 8)",
    )


ASK_ALL = Verb(
    "run a command as a job for each member that is asked, until the board has decided",
    "jobwire board ask-all BOARD -- ./member.sh",
    _ask_all,
    "jobwire.runner.board_members:ask_all",
)
TABLE = BOARD._replace(verbs={**BOARD.verbs, "ask-all": ASK_ALL})
