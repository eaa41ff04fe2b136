"""`jobwire sessions ...`: the tmux sessions in which agents live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.sessions.names import LONGEST_NAME
from jobwire.coordination.sessions.states import IdlePolicy
from jobwire.coordination.verbs import Row, VerbTable, add_place, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS
from jobwire.sessions.known_agents import InstructionsBy

if TYPE_CHECKING:
    import argparse

    from jobwire.core.commands import CommandParser

_MAX_LINES = 1000
_SECONDS = number(MAX_SECONDS, zero=False)


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add how an agent is started: shared with `jobwire submit`."""
    add = parser.add_argument
    add(
        "--agent",
        metavar="NAME",
        help="a known agent: claude, codex, shell ... (docs/sessions.md lists them)",
    )
    add("--agent-command", metavar="WORDS", help="what starts it, as one would type it (default: its own)")
    add(
        "--deliver",
        choices=[one.value for one in InstructionsBy],
        help="how instructions reach it (default: by the agent's line)",
    )
    add(
        "--as",
        dest="agent_id",
        metavar="NAME",
        default="",
        help="its name in the inbox (default: the session's)",
    )
    add("--directory", metavar="DIR", help="where it works (default: here)")
    add("--title", default="", help="what lists show")
    add("--tmux-socket", metavar="NAME", help="the tmux server (tmux -L; default: the one that we are in)")


def _session(parser: CommandParser) -> None:
    parser.add_argument("session", metavar="SESSION", help=f"its name, up to {LONGEST_NAME} characters")


def _create(parser: CommandParser) -> None:
    _session(parser)
    add_agent_options(parser)
    add = parser.add_argument
    add("--idle", type=_SECONDS, metavar="S", help="silent for S seconds it counts as idle")
    add(
        "--when-idle",
        choices=[one.value for one in IdlePolicy],
        default=IdlePolicy.REPORT.value,
        help="what `jobwire serve` does then (default: report)",
    )
    add("--conversation", default="", metavar="ID", help="the agent's own id of a conversation, for resume")


def _lines(parser: CommandParser, default: int) -> None:
    parser.add_argument(
        "--lines",
        type=whole(0, _MAX_LINES),
        default=default,
        metavar="N",
        help=f"of what its pane shows (default: {default})",
    )


def _list(parser: CommandParser) -> None:
    parser.add_argument("--all", action="store_true", help="those that have ended as well")
    _lines(parser, 0)


def _show(parser: CommandParser) -> None:
    _session(parser)
    _lines(parser, 10)


def _send(parser: CommandParser) -> None:
    _session(parser)
    parser.add_argument("text", metavar="TEXT", help="- for stdin")
    parser.add_argument("--no-enter", action="store_true", help="leave it unsent, for a person to look at")


def _stop(parser: CommandParser) -> None:
    _session(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--hard", action="store_true", help="kill it: terminated")
    how.add_argument("--soft", action="store_true", help="leave it alive, off the list: archived")
    parser.add_argument(
        "--quit-seconds",
        type=number(3600),
        default=10.0,
        metavar="S",
        help="its own way out may take (default: 10)",
    )


def _resume(parser: CommandParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION")
    parser.add_argument("--all", action="store_true", help="all that ran when tmux or the machine went down")


def _reconcile(parser: CommandParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this one")
    parser.add_argument("--dry-run", action="store_true", help="say what is found, and leave it")


def _prune(parser: CommandParser) -> None:
    parser.add_argument(
        "--days",
        type=number(36500),
        default=30.0,
        metavar="N",
        help="ended longer ago than N days (default: 30)",
    )


_TABLE: tuple[Row, ...] = (
    ("list", "those that run, their jobs, how long they are silent", "", _list),
    ("show", "one session with the last lines of its pane", "work", _show),
    ("attach", "show its pane here", "work", _session),
    ("create", "open a session with an agent that waits for work", "work --agent claude", _create),
    ("send", "paste a text into its pane, and see that it arrives", 'work "go on"', _send),
    ("stop", "end its agent in good order; its conversation is kept", "work", _stop),
    ("resume", "bring it back, in its directory and conversation", "work", _resume),
    ("reconcile", "compare tmux, inventory and jobs, and put right what is found", "", _reconcile),
    ("prune", "forget those that ended long ago", "--days 7", _prune),
)
SESSIONS = VerbTable(
    "sessions",
    "Sessions: tmux panes in which agents live, and do one job after another.",
    verbs_of(
        "jobwire sessions",
        _TABLE,
        runs="jobwire.sessions.actions:sessions_{}",
        but={"jobwire.sessions.showing:sessions_{}": "list show attach"},
    ),
    add_place,
)
