"""`jobwire board ...`: several agents decide together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.boards.phases import MAX_ROUNDS, BoardPhase
from jobwire.coordination.boards.statements import (
    DEFAULT_MEMBERS,
    EVERYBODY_ON_IT,
    MAX_MEMBERS,
    PHASE_SECONDS,
    TALK,
)
from jobwire.coordination.boards.tally import Assessment, Vote
from jobwire.coordination.verbs import Row, VerbTable, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS

if TYPE_CHECKING:
    import argparse

    from jobwire.core.commands import CommandParser

PROG = "board"
SUMMARY = "a decision that several agents take: open, assess, discuss, vote, show ..."


def _open(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="WORD", help="what it decides: EVALUATE_PLAN, PRE_LAUNCH ...")
    add("--proposal", required=True, metavar="FILE", help="the proposal, - for stdin")
    add("--member", action="append", metavar="NAME", help=f"default: {' '.join(DEFAULT_MEMBERS)}")
    add("--quick", action="store_true", help="assessments alone decide")
    add("--rounds", type=whole(1, MAX_ROUNDS), default=MAX_ROUNDS, metavar="N", help="of talk (default: 3)")
    add(
        "--quorum", type=whole(0, MAX_MEMBERS), default=0, metavar="N", help="votes but ABSTAIN that it needs"
    )
    add(
        "--deadline",
        type=number(MAX_SECONDS, zero=False),
        default=PHASE_SECONDS,
        metavar="S",
        help="seconds for each phase (default: 1800)",
    )
    add("--run", dest="run_id", metavar="NAME", default="default", help="the run (default: default)")


def _board(parser: CommandParser) -> None:
    parser.add_argument("board", metavar="BOARD")


def _points(parser: CommandParser, *names: str) -> None:
    for name in names:
        parser.add_argument(f"--{name}", action="append", default=[], metavar="TEXT", help="repeatable")


def _assess(parser: CommandParser) -> None:
    _board(parser)
    parser.add_argument("--verdict", required=True, choices=[one.value for one in Assessment])
    parser.add_argument("--score", type=number(10), default=5.0, metavar="1-10")
    _points(parser, "concern", "recommendation")


def _discuss(parser: CommandParser) -> None:
    _board(parser)
    add = parser.add_argument
    add("message", metavar="TEXT")
    add("--to", default=EVERYBODY_ON_IT, metavar="NAME", help=f"default: {EVERYBODY_ON_IT}")
    add("--type", choices=TALK, default="CLARIFY")
    add("--changes-my-verdict", action="store_true")


def _vote(parser: CommandParser) -> None:
    _board(parser)
    parser.add_argument("--verdict", required=True, choices=[one.value for one in Vote])
    parser.add_argument("--confidence", type=number(1), default=0.5, metavar="0-1")
    _points(parser, "condition")


def _wait(parser: CommandParser) -> None:
    _board(parser)
    add = parser.add_argument
    phases = [one.value for one in BoardPhase]
    add("--phase", choices=phases, default=BoardPhase.COMPLETE.value, help="default: COMPLETE")
    add("--timeout-seconds", type=number(MAX_SECONDS), default=3600.0, metavar="S", help="default: 3600")


def _list(parser: CommandParser) -> None:
    parser.add_argument("--open", action="store_true", help="only those that have not decided")
    parser.add_argument("--limit", type=whole(1, 10_000), default=100, metavar="N", help="default: 100")


def _verify(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="`sealed` of `board resolve --json`")


_TABLE: tuple[Row, ...] = (
    ("open", "ask for a decision", "--checkpoint PRE_LAUNCH --proposal plan.md", _open),
    ("assess", "say what you think of it", 'BOARD --verdict CONCERNS --concern "no rollback"', _assess),
    ("discuss", "say something to one or to all", 'BOARD --to CSO --type QUESTION "why not?"', _discuss),
    ("pass", "say nothing in this round", "BOARD", _board),
    ("vote", "vote", 'BOARD --verdict APPROVE --confidence 0.8 --condition "with a canary"', _vote),
    ("resolve", "the resolution, once the board is through", "BOARD", _board),
    ("show", "where a board is, and what was decided", "BOARD", _board),
    ("messages", "all that was said, in order", "BOARD", _board),
    ("wait", "wait for a phase, or for the decision", "BOARD", _wait),
    ("list", "the boards, newest first", "", _list),
    ("verify", "tell whether a resolution is genuine and nothing was changed", "resolution.json", _verify),
)
VERBS = verbs_of(PROG, _TABLE, runs="boards.actions:board_")
BOARD = VerbTable(PROG, SUMMARY, "Boards: members assess, discuss and vote on a proposal.", VERBS)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `board` to `jobwire`."""
    BOARD.add_to(commands)
