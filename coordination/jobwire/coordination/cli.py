"""`jobwire inbox ...`, also `inbox`: messages, threads and deliveries from a command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jobwire.coordination.verbs import Verb, VerbTable, message_options
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_SECONDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobwire.core.commands import CommandParser

PROG = "inbox"
SUMMARY = "messages between agents: send, fetch, claim, update, reply, done ... (also: inbox)"
_MOST = 1_000_000
_FOREVER = 30 * 86400.0


def _send(parser: CommandParser) -> None:
    from jobwire.coordination.message import CLASSES, KINDS, PRIORITIES  # noqa: PLC0415 - for its options

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
    message_options(parser)


def _fetch(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--status", default="", metavar="LIST", help="pending, blocked, ... (default: pending,blocked)")
    add("--limit", type=whole(1, _MOST), default=20, metavar="N", help="at most so many (default: 20)")
    add("--unread", action="store_true", help="only what holds something that you have not read")


def _show(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--thread", required=True, metavar="ID")
    add("--limit", type=whole(1, _MOST), metavar="N", help="only the last messages")


def _timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout-seconds",
        type=number(MAX_SECONDS),
        default=_FOREVER,
        metavar="S",
        help="exit 10 after that (default: 30 days)",
    )


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add how long to wait, and behind which event."""
    _timeout(parser)
    add = parser.add_argument
    add("--after-event", type=whole(0, 2**53 - 1), metavar="N", help="only what came after event N")


def _thread(parser: CommandParser) -> None:
    parser.add_argument("--thread", required=True, metavar="ID")


def _holder(parser: CommandParser) -> None:
    _thread(parser)
    parser.add_argument(
        "--token",
        metavar="LEASE",
        help="the lease (default: $JOBWIRE_LEASE, else what claim kept for this agent)",
    )


def _lease(parser: CommandParser, default: float | None, words: str) -> None:
    parser.add_argument(
        "--lease-seconds", type=number(MAX_SECONDS, zero=False), default=default, metavar="S", help=words
    )


def _claim(parser: CommandParser) -> None:
    _thread(parser)
    _lease(parser, DEFAULT_LEASE_SECONDS, "believed without a sign of life (default: 300)")


def _renew(parser: CommandParser) -> None:
    _holder(parser)
    _lease(parser, None, "from now (default: what was granted)")


def _update(parser: CommandParser) -> None:
    _holder(parser)
    parser.add_argument(
        "--status", default="in_progress", metavar="WORD", help="in_progress (default), or blocked"
    )
    message_options(parser)
    _direct(parser)


def _ask(parser: CommandParser) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="the question")
    _holder(parser)
    add("--choice", action="append", default=[], metavar="TEXT", help="an answer to choose from; repeatable")
    add("--id", default="", help="the message's id: asked again, it is asked once")
    _timeout(parser)


def _direct(parser: CommandParser) -> None:
    parser.add_argument(
        "--direct", action="store_true", help="send the job's event at once, whoever else would send it"
    )


def _end(parser: CommandParser) -> None:
    _holder(parser)
    message_options(parser)
    _direct(parser)


def _cancel(parser: CommandParser) -> None:
    _thread(parser)
    parser.add_argument("--reason", default="", help="why, on one line")
    parser.add_argument("--id", default="", help="the message's id: said again, it is there once")


def _reply(parser: CommandParser) -> None:
    from jobwire.coordination.message import KINDS  # noqa: PLC0415 - for its options

    add = parser.add_argument
    add("--thread", metavar="ID", help="the thread (default: that of --in-reply-to)")
    add("--in-reply-to", metavar="MESSAGE", help="the message that it answers")
    add("--to", default="", metavar="NAME,...", help="the recipients (default: who wrote to me last)")
    add("--kind", choices=KINDS, default="answer", help="what it is (default: answer)")
    add("--request", metavar="ID", help="what the job asks, where several questions are open")
    add("--type", default="", help="a word of your own for it")
    message_options(parser)


def _list(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--status", default="", metavar="LIST", help="pending, done, ... (default: any)")
    add("--created-by", metavar="NAME")
    add("--assigned-to", metavar="NAME")
    add("--run", dest="run_id", metavar="NAME")
    add("--limit", type=whole(1, _MOST), default=50, metavar="N", help="at most so many (default: 50)")


def _tries(parser: CommandParser) -> None:
    parser.add_argument(
        "--max-tries",
        type=whole(1, 1000),
        default=3,
        metavar="N",
        help="dead after so many (default: 3)",
    )


def _take(parser: CommandParser) -> None:
    _lease(parser, DEFAULT_LEASE_SECONDS, "ours for so long (default: 300)")
    _tries(parser)


def _ack(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--message", metavar="ID", help="the message, by its id or seq")
    add("--through", type=whole(0, 2**53 - 1), metavar="SEQ", help="all that I was given up to this number")
    add("--token", metavar="LEASE", help="the lease that take printed")
    message_options(parser)


def _nack(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--message", metavar="ID", required=True, help="the message, by its id or seq")
    add("--reason", default="", help="why, on one line")
    add("--token", metavar="LEASE", help="the lease that take printed")
    add("--permanent", action="store_true", help="no retry mends it: dead at once")
    _tries(parser)


def _dead(parser: CommandParser) -> None:
    add = parser.add_argument
    add("action", choices=("list", "show", "redrive", "drop"), help="what to do")
    add("message", nargs="?", metavar="MESSAGE", help="the message, by its id or seq")
    add("--task", metavar="ID", help="a failed task, instead of a message")
    add("--all", action="store_true", help="all that the options below choose")
    add("--for", dest="recipient", metavar="NAME", help="of this recipient only")
    add("--run", dest="run_id", metavar="NAME", help="of this run only")
    add("--reason", default="", metavar="TEXT", help="only those that died of this")
    add("--older-than", type=number(MAX_SECONDS), default=0.0, metavar="S", help="dead for so long")
    add("--force", action="store_true", help="redrive beyond the third time")
    add("--limit", type=whole(1, _MOST), default=50, metavar="N", help="at most so many (default: 50)")


def _search(parser: CommandParser) -> None:
    add = parser.add_argument
    add("words", nargs="+", metavar="WORD", help='all of them; word* any ending, "several words" a phrase')
    add("--before", type=whole(1, 2**53 - 1), metavar="SEQ", help="older than this message: the next page")
    add("--limit", type=whole(1, _MOST), default=20, metavar="N", help="at most so many (default: 20)")


def _export(parser: CommandParser) -> None:
    parser.add_argument("--output", metavar="FILE", help="where to (default: bus.jsonl in the home)")


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
    "claim": Verb(
        "take a thread's work, for nobody but me",
        "inbox claim --agent builder --thread ID --lease-seconds 900",
        _claim,
        "work_actions:claim",
    ),
    "renew": Verb(
        "hold a thread for longer",
        "inbox renew --agent builder --thread ID",
        _renew,
        "work_actions:renew",
    ),
    "update": Verb(
        "say how the work goes, or what it waits for",
        'inbox update --agent builder --thread ID --summary "12 of 30 files"',
        _update,
        "work_actions:update",
    ),
    "ask": Verb(
        "ask what the work waits for, and wait for the answer",
        'inbox ask "Push to main?" --agent builder --thread ID --choice yes --choice no',
        _ask,
        "asking_actions:ask",
    ),
    "reply": Verb(
        "say something in a thread",
        'inbox reply --agent lead --thread ID --summary "yes, do that"',
        _reply,
        "actions:reply",
    ),
    "done": Verb(
        "the work is done: the result",
        'inbox done --agent builder --thread ID --summary "it works"',
        _end,
        "work_actions:done",
    ),
    "fail": Verb(
        "the work failed: why",
        'inbox fail --agent builder --thread ID --summary "no such file"',
        _end,
        "work_actions:fail",
    ),
    "cancel": Verb(
        "the work is no longer wanted",
        'inbox cancel --agent lead --thread ID --reason "done elsewhere"',
        _cancel,
        "work_actions:cancel",
    ),
    "list": Verb(
        "threads, the last changed first",
        "inbox list --status in_progress,blocked",
        _list,
        "actions:list_threads",
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
    "take": Verb(
        "lease my next message",
        "inbox take --agent builder",
        _take,
        "delivery_actions:take",
    ),
    "ack": Verb(
        "a message that I took is done",
        "inbox ack --agent builder --message ID --token LEASE",
        _ack,
        "delivery_actions:ack",
    ),
    "nack": Verb(
        "give a message back that I took: later again, dead after the third time",
        'inbox nack --agent builder --message ID --reason "no network"',
        _nack,
        "delivery_actions:nack",
    ),
    "dead": Verb(
        "messages and tasks that were given up: list, show, redrive, drop",
        "inbox dead redrive MESSAGE --agent lead",
        _dead,
        "dead_actions:dead",
    ),
    "search": Verb(
        "messages by their words, newest first",
        "inbox search parser empty*",
        _search,
        "actions:search",
    ),
    "export": Verb(
        "append new messages to a file, one JSON line each",
        "inbox export --output bus.jsonl",
        _export,
        "actions:export",
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
