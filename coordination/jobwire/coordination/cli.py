"""`jobwire inbox ...`, also `inbox`: messages, threads and deliveries from a command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jobwire.coordination.message import CLASSES, KINDS, PRIORITIES
from jobwire.coordination.verbs import Verb, VerbTable
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobwire.core.commands import CommandParser

PROG = "inbox"
SUMMARY = "messages between agents: send, fetch, claim, update, reply, done ... (also: inbox)"
_MOST = 1_000_000
_FOREVER = 30 * 86400.0


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


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add how long to wait, and behind which event."""
    add = parser.add_argument
    add(
        "--timeout-seconds",
        type=number(MAX_SECONDS),
        default=_FOREVER,
        metavar="S",
        help="exit 10 after that (default: 30 days)",
    )
    add("--after-event", type=whole(0, 2**53 - 1), metavar="N", help="only what came after event N")


def _watch(parser: CommandParser) -> None:
    parser.add_argument("--status", default="", metavar="LIST", help="pending, blocked, ... (default: any)")
    add_timeout(parser)


def _wait_reply(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--thread", required=True, metavar="ID")
    add("--kinds", default="", metavar="LIST", help="answer, control, ... (default: whatever others say)")
    add("--after-message", metavar="ID", help="only what came after this message")
    add_timeout(parser)


VERBS: dict[str, Verb] = {
    "init": Verb(
        "make home and store where there are none",
        "inbox init",
        lambda _: None,
        "actions:init",
    ),
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
    "show": Verb(
        "one thread with all its messages",
        "inbox show --thread ID",
        _show,
        "actions:show",
    ),
    "watch": Verb(
        "wait for something new that concerns me: unread, or from now on",
        "inbox watch --agent lead --status blocked,done,failed --timeout-seconds 600",
        _watch,
        "waiting_actions:watch",
    ),
    "wait-reply": Verb(
        "wait for what others say in a thread after my last question",
        "inbox wait-reply --agent builder --thread ID --timeout-seconds 1800",
        _wait_reply,
        "waiting_actions:wait_reply",
    ),
}


INBOX = VerbTable(PROG, SUMMARY, "Messages between agents, durable without any process.", VERBS)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `inbox` to `jobwire`."""
    INBOX.add_to(commands)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `inbox`; return the exit code."""
    return INBOX.main(argv)


if __name__ == "__main__":
    sys.exit(main())
