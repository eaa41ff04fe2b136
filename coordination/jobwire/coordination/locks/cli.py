"""`jobwire lock ...`: who may touch this file, and who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.verbs import Row, VerbTable, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS

if TYPE_CHECKING:
    import argparse

    from jobwire.core.commands import CommandParser

PROG = "lock"
SUMMARY = "file locks between agents: acquire, release, list, wait, run ..."
_MOST = 2**53 - 1


def _where(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--run", dest="run_id", metavar="NAME", default="default", help="the run (default: default)")
    add("--root", metavar="DIR", help="the folder that the run works on (default: that of the home)")


def _paths(parser: CommandParser, nargs: str = "+") -> None:
    parser.add_argument(
        "paths", nargs=nargs, metavar="PATH", help="a file, a folder with all below it, or name:X"
    )
    _where(parser)


def _token(parser: CommandParser) -> None:
    parser.add_argument(
        "--token", type=whole(1, _MOST), metavar="N", help="of the lock, as `acquire` printed it"
    )


def _lease(parser: CommandParser, wait: float = 0.0) -> None:
    add = parser.add_argument
    add("--shared", action="store_true", help="together with others who share")
    add("--ttl", type=number(MAX_SECONDS, zero=False), default=1800.0, metavar="S", help="default: 1800")
    add(
        "--wait",
        type=number(MAX_SECONDS),
        default=wait,
        metavar="S",
        help="wait so long for one's turn (default: do not wait)" if not wait else "default: an hour",
    )
    add("--job", metavar="ID", help="end with this job at the latest (default: $JOBWIRE_JOB)")


def _acquire(parser: CommandParser) -> None:
    _paths(parser)
    _lease(parser)


def _held(parser: CommandParser) -> None:
    _paths(parser, "*")
    parser.add_argument("--all", action="store_true", help="all that I hold in this run")
    _token(parser)


def _check(parser: CommandParser) -> None:
    _paths(parser)
    parser.add_argument("--shared", action="store_true", help="would sharing be possible?")


def _wait(parser: CommandParser) -> None:
    _paths(parser)
    parser.add_argument(
        "--timeout-seconds",
        type=number(MAX_SECONDS),
        default=3600.0,
        metavar="S",
        help="default: 3600",
    )


def _break(parser: CommandParser) -> None:
    parser.add_argument("path", metavar="PATH")
    _where(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="ask for it")
    parser.add_argument("--confirm", action="store_true", help="do it: somebody else asked")


def _run(parser: CommandParser) -> None:
    # All words behind the first path: argparse would drop the mark between paths and command.
    parser.add_argument("words", nargs="...", metavar="PATH... -- COMMAND", help="files, then a command")
    _where(parser)
    _lease(parser, wait=3600.0)


def _list(parser: CommandParser) -> None:
    parser.add_argument("--run", dest="run_id", metavar="NAME", help="only of this run (default: all)")


def _nothing(parser: CommandParser) -> None:
    """Take nothing more than all verbs do."""


_TABLE: tuple[Row, ...] = (
    ("acquire", "take locks, all of them or none", "src/app.py --wait 60", _acquire),
    ("renew", "keep them for as long again as they were granted", "--all", _held),
    ("release", "give them back", "--all", _held),
    ("list", "what is held, and who waits", "", _list),
    ("check", "20 where somebody else holds one of them", "src/app.py", _check),
    ("wait", "wait until nobody else holds them, taking nothing", "src/app.py", _wait),
    (
        "break",
        "end somebody's lock: one agent asks, another confirms",
        'src/app.py --reason "gone home"',
        _break,
    ),
    ("run", "run a command while holding locks", "src/app.py -- make format", _run),
    (
        "hook",
        "print a git pre-commit hook that refuses what others hold",
        "> .git/hooks/pre-commit",
        _nothing,
    ),
    ("deadlocks", "circles of agents that wait for each other", "", _list),
)
VERBS = verbs_of(PROG, _TABLE, runs="locks.actions:lock_")
LOCK = VerbTable(PROG, SUMMARY, "File locks: leases on paths and names, first come, first served.", VERBS)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `lock` to `jobwire`."""
    LOCK.add_to(commands)
