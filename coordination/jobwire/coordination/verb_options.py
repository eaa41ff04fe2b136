"""Options of verbs as data: what several of the coordination's commands take, said once."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_SECONDS
from jobwire.core.commands import CommandParser

_MOST = 1_000_000


class VerbOption(NamedTuple):
    """An option, or an argument without dashes: its names, and what else argparse is told of it."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


# What a verb takes, or a function that adds it.
Options: TypeAlias = Sequence[VerbOption] | Callable[[CommandParser], None]


def opt(*names: str, **settings: Any) -> VerbOption:
    """Return an option, said as `add_argument` takes it."""
    return VerbOption(names, settings)


def add_options(parser: argparse.ArgumentParser, options: Sequence[VerbOption]) -> None:
    """Add the options, in their order."""
    for names, settings in options:
        parser.add_argument(*names, **settings)


def limit(default: int) -> VerbOption:
    """Return how many a list shows."""
    words = f"at most so many (default: {default})"
    return opt("--limit", type=whole(1, _MOST), default=default, metavar="N", help=words)


def lease(default: float | None, words: str) -> VerbOption:
    """Return for how many seconds a lease is granted."""
    return opt(
        "--lease-seconds", type=number(MAX_SECONDS, zero=False), default=default, metavar="S", help=words
    )


def timeout(default: float, words: str) -> VerbOption:
    """Return how many seconds to wait."""
    return opt("--timeout-seconds", type=number(MAX_SECONDS), default=default, metavar="S", help=words)


def message(*also: str) -> tuple[VerbOption, ...]:
    """Return what a message is made of; `also` are other names of its summary."""
    return (
        opt("--summary", *also, default="", metavar="TEXT", help="one line"),
        opt("--body", metavar="TEXT", help="the text"),
        opt("--body-file", metavar="FILE", help="the text from a file, - for stdin"),
        opt("--payload-json", metavar="JSON", help="anything for programs"),
        repeatable("--artifact", "PATH[:KIND]", "a file that it is about; repeatable"),
        opt("--id", default="", help="the message's id: sent again, it is there once"),
    )


def repeatable(name: str, metavar: str, words: str) -> VerbOption:
    """Return an option that may be given again and again."""
    return opt(name, action="append", default=[], metavar=metavar, help=words)


MESSAGE = message()
RUN = opt("--run", dest="run_id", metavar="NAME", default="default", help="the run (default: default)")
LEASE = lease(DEFAULT_LEASE_SECONDS, "believed without a sign of life (default: 300)")
ACCEPT = repeatable("--accept", "TEXT", "what must hold in the end; repeatable")
PATIENCE = timeout(30 * 86400.0, "exit 10 after that (default: 30 days)")
SINCE = (
    PATIENCE,
    opt("--after-event", type=whole(0, 2**53 - 1), metavar="N", help="only what came after event N"),
)
