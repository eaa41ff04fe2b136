"""`jobwire inbox ...`, also `inbox`: messages, threads and deliveries from a command line."""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from jobwire.coordination.command import coordination_command, say_failure
from jobwire.coordination.message import CLASSES, KINDS, PRIORITIES
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.commands import CommandParser, run_command, wants_json
from jobwire.storage.home import HELP, Need

PROG = "inbox"
SUMMARY = "messages between agents: send, fetch, claim, update, reply, done ... (also: inbox)"
# argparse.SUPPRESS: an option that stands before the verb is not taken back by one that is not behind it.
_UNSET = argparse.SUPPRESS
_MOST = 1_000_000


class Verb(NamedTuple):
    """One verb: what it does, an example, its options, and module:function of what runs."""

    summary: str
    example: str
    options: Callable[[CommandParser], None]
    runs: str


def _common(parser: CommandParser, default: object = _UNSET) -> None:
    add = parser.add_argument
    add("--json", action="store_true", default=default or False, help="print one JSON object")
    add("--db", metavar="PATH", default=default, help="the store (default: $JOBWIRE_DB, else in the home)")
    add("--agent", "--from", metavar="NAME", default=default, help="who I am (default: $JOBWIRE_AGENT)")
    add("--home", metavar="DIR", default=default, help=HELP)


def _said(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--summary", default="", help="one line")
    add("--body", help="the text")
    add("--body-file", metavar="FILE", help="the text from a file, - for stdin")
    add("--payload-json", metavar="JSON", help="anything for programs")
    add(
        "--artifact",
        action="append",
        default=[],
        metavar="PATH[:KIND]",
        help="a file that it is about; repeatable",
    )
    add("--id", default="", help="the message's id: sent again, it is there once")


def _send(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--to", default="", metavar="NAME,...", help="the recipients, * for the run's agents")
    add("--subject", default="", help="of a new thread")
    add("--thread", help="an existing thread (default: a new one)")
    add("--run", dest="run_id", metavar="NAME", default="default", help="the run (default: default)")
    add("--task", help="the task")
    add("--kind", choices=KINDS, help="what it is (default: task in a new thread, else event)")
    add("--type", default="", help="a word of your own for it")
    add("--priority", choices=PRIORITIES, default="normal")
    add(
        "--class",
        dest="message_class",
        choices=CLASSES,
        default="turn",
        help="when an agent is told (default: turn)",
    )
    add("--risk", default="", help="low, medium, high")
    add("--accept", action="append", default=[], metavar="TEXT", help="what must hold in the end; repeatable")
    add("--in-reply-to", metavar="MESSAGE", help="the message that it answers")
    add("--correlation", metavar="ID", help="what belongs together across threads")
    add("--expires", type=number(MAX_SECONDS, zero=False), metavar="SECONDS", help="not delivered after that")
    _said(parser)


def _fetch(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--status", default="", metavar="LIST", help="pending, blocked, ... (default: pending,blocked)")
    add("--limit", type=whole(1, _MOST), default=20, metavar="N", help="at most so many (default: 20)")
    add("--unread", action="store_true", help="only what holds something that you have not read")


def _show(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--thread", required=True, metavar="ID")
    add("--limit", type=whole(1, _MOST), metavar="N", help="only the last messages")


VERBS: dict[str, Verb] = {
    "init": Verb("make home and store where there are none", "inbox init", lambda _: None, "actions:init"),
    "send": Verb(
        "send a message: into a thread, or as a new one",
        'inbox send --agent lead --to builder --subject "fix the parser"',
        _send,
        "actions:send",
    ),
    "fetch": Verb(
        "what there is for me, the most urgent first; changes nothing",
        "inbox fetch --agent builder",
        _fetch,
        "actions:fetch",
    ),
    "show": Verb("one thread with all its messages", "inbox show --thread ID", _show, "actions:show"),
}


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `inbox` to `jobwire`."""
    parser = commands.add_parser(
        PROG, help=SUMMARY, description=_description(), fill=_fill, tell=partial(say_failure, PROG)
    )
    parser.set_defaults(home_need=Need.NOTHING)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `inbox`; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = CommandParser(PROG, description=_description(), fill=_fill, tell=partial(say_failure, PROG))

    def body(_: argparse.Namespace) -> int:
        args = parser.parse_args(words)
        return int(args.run(args))

    as_json = wants_json(words)
    tell = partial(say_failure, PROG) if as_json else None
    return run_command(body, argparse.Namespace(), prog=PROG, as_json=as_json, tell=tell)


def _description() -> str:
    return "Messages between agents, durable without any process."


def _fill(parser: CommandParser, words: Sequence[str]) -> None:
    """Add the verb that the words name with its options; all of them by name where they name none."""
    _common(parser, None)
    verbs = parser.add_subparsers(
        title="verbs", metavar="VERB", dest="verb", required=True, parser_class=CommandParser
    )
    chosen = _verb_in(words)
    for name in (chosen,) if chosen else VERBS:
        verb = VERBS[name]
        one = verbs.add_parser(
            name,
            help=verb.summary,
            description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
            epilog=f"example:\n  {verb.example}",
            tell=partial(say_failure, name),
        )
        if chosen:
            _common(one)
            verb.options(one)
            one.set_defaults(run=coordination_command(_run), runs=verb.runs)


def _verb_in(words: Sequence[str]) -> str:
    taken = iter(words)
    for word in taken:
        if word in {"--db", "--agent", "--from", "--home"}:
            next(taken, None)
        elif not word.startswith("-"):
            return word if word in VERBS else ""
    return ""


def _run(args: argparse.Namespace) -> int:
    module, _, function = args.runs.partition(":")
    found = getattr(importlib.import_module(f"jobwire.coordination.{module}"), function)
    return int(found(args))


if __name__ == "__main__":
    sys.exit(main())
