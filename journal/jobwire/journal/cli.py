"""`jobwire journal`: read, check and prune what crossed the wire."""

import argparse
from collections.abc import Callable

from jobwire.core.argument_types import whole
from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.commands import CommandRow, Subparsers, add_group
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.journal.quantities import KEEP_BYTES, KEEP_SECONDS, LAG_SECONDS, duration, size
from jobwire.storage.home import Need

_TAIL_ROWS = 10
_COUNT = whole(0, MAX_INTEGER)


def _journal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--journal", metavar="DIR", help="the journal's directory (default: <home>/journal)")
    parser.set_defaults(home_need=lambda args: Need.NOTHING if args.journal else Need.HOME)


def _tail(parser: argparse.ArgumentParser) -> None:
    _journal(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing what arrives")
    text = f"how many (default: {_TAIL_ROWS})"
    parser.add_argument("-n", "--lines", type=_COUNT, default=_TAIL_ROWS, metavar="N", help=text)
    _selection(parser)


def _cat(parser: argparse.ArgumentParser) -> None:
    _journal(parser)
    _selection(parser)


def _selection(parser: argparse.ArgumentParser) -> None:
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


def _prune(parser: argparse.ArgumentParser) -> None:
    _journal(parser)
    parser.add_argument(
        "--keep", type=duration, default=KEEP_SECONDS, metavar="AGE", help="keep at least this long (7d)"
    )
    parser.add_argument(
        "--max-bytes", type=size, default=KEEP_BYTES, metavar="SIZE", help="unless larger than this (8G)"
    )
    parser.add_argument(
        "--max-lag",
        type=duration,
        default=LAG_SECONDS,
        metavar="AGE",
        help="wait so long for a consumer that does not read (30d)",
    )
    parser.add_argument("--force", action="store_true", help="also what a consumer has not read; says whose")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def _remove(parser: argparse.ArgumentParser) -> None:
    _journal(parser)
    parser.add_argument("name", metavar="NAME", help="the consumer's name")


def _command(
    name: str,
    summary: str,
    example: str,
    runs: str,
    options: Callable[[argparse.ArgumentParser], None] = _journal,
) -> CommandRow:
    return CommandRow(name, summary, f"jobwire journal {example}", options, f"jobwire.journal.actions:{runs}")


_CONSUMERS = (
    _command("list", "list the consumers", "consumers list", "list_consumers"),
    _command("remove", "forget a consumer", "consumers remove metrics", "remove_consumer", _remove),
)
_COMMANDS = (
    _command("tail", "show the last entries", "tail -f --since 10m", "tail", _tail),
    _command("cat", "print all entries", "cat --verdict bad_signature --json", "cat", _cat),
    _command("verify", "check every stored byte", "verify", "verify_all"),
    _command("stat", "show size, range, verdicts and consumers", "stat --json", "stat_all"),
    _command("prune", "remove old segments that all consumers have read", "prune", "prune", _prune),
    CommandRow("consumers", "who reads the journal, and how far they are", below=_CONSUMERS),
)


def add_commands(subparsers: Subparsers) -> None:
    """Add `journal` with its sub-commands to the umbrella's parser."""
    add_group(
        subparsers,
        "journal",
        "read and check what crossed the wire",
        _COMMANDS,
        description="The journal below <home>/journal: every message that arrived, with its verdict.",
    )
