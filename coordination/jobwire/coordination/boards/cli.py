"""`jobwire board ...`: several agents decide together."""

from __future__ import annotations

from jobwire.coordination.boards.phases import MAX_ROUNDS, BoardPhase
from jobwire.coordination.boards.statements import (
    DEFAULT_MEMBERS,
    EVERYBODY_ON_IT,
    MAX_MEMBERS,
    PHASE_SECONDS,
    TALK,
)
from jobwire.coordination.boards.tally import Assessment, Vote
from jobwire.coordination.verb_options import RUN, opt, repeatable, timeout
from jobwire.coordination.verbs import Row, VerbTable, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS

_OPEN = (
    opt("--checkpoint", required=True, metavar="WORD", help="what it decides: EVALUATE_PLAN, PRE_LAUNCH ..."),
    opt("--proposal", required=True, metavar="FILE", help="the proposal, - for stdin"),
    opt("--member", action="append", metavar="NAME", help=f"default: {' '.join(DEFAULT_MEMBERS)}"),
    opt("--quick", action="store_true", help="assessments alone decide"),
    opt("--rounds", type=whole(1, MAX_ROUNDS), default=MAX_ROUNDS, metavar="N", help="of talk (default: 3)"),
    opt(
        "--quorum", type=whole(0, MAX_MEMBERS), default=0, metavar="N", help="votes but ABSTAIN that it needs"
    ),
    opt(
        "--deadline",
        type=number(MAX_SECONDS, zero=False),
        default=PHASE_SECONDS,
        metavar="S",
        help="seconds for each phase (default: 1800)",
    ),
    RUN,
)
_BOARD = (opt("board", metavar="BOARD"),)
_ASSESS = (
    *_BOARD,
    opt("--verdict", required=True, choices=[one.value for one in Assessment]),
    opt("--score", type=number(10), default=5.0, metavar="1-10"),
    repeatable("--concern", "TEXT", "repeatable"),
    repeatable("--recommendation", "TEXT", "repeatable"),
)
_DISCUSS = (
    *_BOARD,
    opt("message", metavar="TEXT"),
    opt("--to", default=EVERYBODY_ON_IT, metavar="NAME", help=f"default: {EVERYBODY_ON_IT}"),
    opt("--type", choices=TALK, default="CLARIFY"),
    opt("--changes-my-verdict", action="store_true"),
)
_VOTE = (
    *_BOARD,
    opt("--verdict", required=True, choices=[one.value for one in Vote]),
    opt("--confidence", type=number(1), default=0.5, metavar="0-1"),
    repeatable("--condition", "TEXT", "repeatable"),
)
_PHASES = [one.value for one in BoardPhase]
_WAIT = (
    *_BOARD,
    opt("--phase", choices=_PHASES, default=BoardPhase.COMPLETE.value, help="default: COMPLETE"),
    timeout(3600.0, "default: 3600"),
)
_LIST = (
    opt("--open", action="store_true", help="only those that have not decided"),
    opt("--limit", type=whole(1, 10_000), default=100, metavar="N", help="default: 100"),
)
_VERIFY = (opt("file", metavar="FILE", help="`sealed` of `board resolve --json`"),)
_TABLE: tuple[Row, ...] = (
    ("open", "ask for a decision", "--checkpoint PRE_LAUNCH --proposal plan.md", _OPEN),
    ("assess", "say what you think of it", 'BOARD --verdict CONCERNS --concern "no rollback"', _ASSESS),
    ("discuss", "say something to one or to all", 'BOARD --to CSO --type QUESTION "why not?"', _DISCUSS),
    ("pass", "say nothing in this round", "BOARD", _BOARD),
    ("vote", "vote", 'BOARD --verdict APPROVE --confidence 0.8 --condition "with a canary"', _VOTE),
    ("resolve", "the resolution, once the board is through", "BOARD", _BOARD),
    ("show", "where a board is, and what was decided", "BOARD", _BOARD),
    ("messages", "all that was said, in order", "BOARD", _BOARD),
    ("wait", "wait for a phase, or for the decision", "BOARD", _WAIT),
    ("list", "the boards, newest first", "", _LIST),
    ("verify", "tell whether a resolution is genuine and nothing was changed", "resolution.json", _VERIFY),
)
_AT_HOME = {"boards.actions:board_{}": "wait"}
VERBS = verbs_of("jobwire board", _TABLE, runs="verb:board-{}", but=_AT_HOME)
BOARD = VerbTable("board", "Boards: members assess, discuss and vote on a proposal.", VERBS)
