"""`jobwire journal`: read, check and prune what crossed the wire."""

import argparse

from jobwire.core.argument_types import whole
from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.commands import add_command
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.journal.quantities import KEEP_BYTES, KEEP_SECONDS, duration, size
from jobwire.storage.home import Need

_TAIL_ROWS = 10
_COUNT = whole(0, MAX_INTEGER)


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `journal` with its sub-commands to the umbrella's parser."""
    journal = subparsers.add_parser(
        "journal",
        help="read and check what crossed the wire",
        description="The journal below <home>/journal: every message that arrived, with its verdict.",
    )
    commands = journal.add_subparsers(dest="journal_command", metavar="COMMAND", required=True)
    tail = _leaf(commands, "tail", "show the last entries", "jobwire journal tail -f --since 10m", run="tail")
    tail.add_argument("-f", "--follow", action="store_true", help="keep printing what arrives")
    tail.add_argument(
        "-n",
        "--lines",
        type=_COUNT,
        default=_TAIL_ROWS,
        metavar="N",
        help=f"how many (default: {_TAIL_ROWS})",
    )
    _add_selection(tail)
    cat = _leaf(
        commands, "cat", "print all entries", "jobwire journal cat --verdict bad_signature --json", run="cat"
    )
    _add_selection(cat)
    _leaf(commands, "verify", "check every stored byte", "jobwire journal verify", run="verify_all")
    _leaf(
        commands,
        "stat",
        "show size, range, verdicts and consumers",
        "jobwire journal stat --json",
        run="stat_all",
    )
    _add_prune(commands)
    _add_consumers(commands)


def _leaf(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    example: str,
    *,
    run: str,
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, summary, example, run=f"jobwire.journal.actions:{run}")
    parser.add_argument("--journal", metavar="DIR", help="the journal's directory (default: <home>/journal)")
    parser.set_defaults(home_need=lambda args: Need.NOTHING if args.journal else Need.HOME)
    return parser


def _add_selection(parser: argparse.ArgumentParser) -> None:
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--from", dest="start", type=_COUNT, metavar="OFFSET", help="begin at this offset")
    start.add_argument(
        "--since", type=duration, metavar="AGE", help="begin with what arrived within AGE: 90s, 10m, 2h, 7d"
    )
    parser.add_argument("--verdict", metavar="V", help="only this verdict: accepted, bad_signature ...")
    parser.add_argument("--job", metavar="ID", help="only this job")
    parser.add_argument("--topic", metavar="FILTER", help="only topics that match this MQTT filter")
    parser.add_argument(
        "--topic-root", default=DEFAULT_ROOT, metavar="ROOT", help="where the jobs' topics begin"
    )


def _add_prune(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    prune = _leaf(
        commands,
        "prune",
        "remove old segments that all consumers have read",
        "jobwire journal prune",
        run="prune",
    )
    prune.add_argument(
        "--keep", type=duration, default=KEEP_SECONDS, metavar="AGE", help="keep at least this long (7d)"
    )
    prune.add_argument(
        "--max-bytes", type=size, default=KEEP_BYTES, metavar="SIZE", help="unless larger than this (8G)"
    )
    prune.add_argument("--force", action="store_true", help="also what a consumer has not read; says whose")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _add_consumers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    consumers = commands.add_parser("consumers", help="who reads the journal, and how far they are")
    leaves = consumers.add_subparsers(dest="consumers_command", metavar="COMMAND", required=True)
    _leaf(leaves, "list", "list the consumers", "jobwire journal consumers list", run="list_consumers")
    remove = _leaf(
        leaves,
        "remove",
        "forget a consumer",
        "jobwire journal consumers remove metrics",
        run="remove_consumer",
    )
    remove.add_argument("name", metavar="NAME", help="the consumer's name")
