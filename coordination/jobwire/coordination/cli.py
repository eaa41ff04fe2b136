"""`jobwire inbox ...`, also `inbox`: messages, threads and deliveries from a command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jobwire.coordination.message import CLASSES, KINDS, PRIORITIES
from jobwire.coordination.verb_options import (
    ACCEPT,
    LEASE,
    MESSAGE,
    PATIENCE,
    RUN,
    SINCE,
    lease,
    limit,
    opt,
    repeatable,
)
from jobwire.coordination.verbs import Row, VerbTable, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence


PROG = "inbox"
_THREAD = opt("--thread", required=True, metavar="ID")
_HOLDER = (
    _THREAD,
    opt(
        "--token",
        metavar="LEASE",
        help="the lease (default: $JOBWIRE_LEASE, else what claim kept for this agent)",
    ),
)
_DIRECT = opt(
    "--direct", action="store_true", help="send the job's event at once, whoever else would send it"
)
_END = (*_HOLDER, *MESSAGE, _DIRECT)
_TAKEN = opt("--token", metavar="LEASE", help="the lease that take printed")
_WHY = opt("--reason", default="", help="why, on one line")
_TRIES = opt(
    "--max-tries", type=whole(1, 1000), default=3, metavar="N", help="dead after so many (default: 3)"
)
_OUTPUT = opt("--output", metavar="FILE", help="where to (default: bus.jsonl in the home)")
_ANY_STATUS = opt("--status", default="", metavar="LIST", help="pending, blocked, ... (default: any)")
_SEND = (
    opt("--to", default="", metavar="NAME,...", help="the recipients, * for the run's agents"),
    opt("--subject", default="", help="of a new thread"),
    opt("--thread", help="an existing thread (default: a new one)"),
    RUN,
    opt("--task", help="the task"),
    opt("--kind", choices=KINDS, help="what it is (default: task in a new thread, else event)"),
    opt("--type", default="", help="a word of your own for it"),
    opt("--priority", choices=PRIORITIES, default="normal"),
    opt(
        "--class",
        dest="message_class",
        choices=CLASSES,
        default="turn",
        help="when an agent is told (default: turn)",
    ),
    opt("--risk", default="", help="low, medium, high"),
    ACCEPT,
    opt("--in-reply-to", metavar="MESSAGE", help="the message that it answers"),
    opt("--correlation", metavar="ID", help="what belongs together across threads"),
    opt(
        "--expires",
        type=number(MAX_SECONDS, zero=False),
        metavar="SECONDS",
        help="not delivered after that",
    ),
    *MESSAGE,
)
_REPLY = (
    opt("--thread", metavar="ID", help="the thread (default: that of --in-reply-to)"),
    opt("--in-reply-to", metavar="MESSAGE", help="the message that it answers"),
    opt("--to", default="", metavar="NAME,...", help="the recipients (default: who wrote to me last)"),
    opt("--kind", choices=KINDS, default="answer", help="what it is (default: answer)"),
    opt("--request", metavar="ID", help="what the job asks, where several questions are open"),
    opt("--type", default="", help="a word of your own for it"),
    *MESSAGE,
)
_FETCH = (
    opt("--status", default="", metavar="LIST", help="pending, blocked, ... (default: pending,blocked)"),
    limit(20),
    opt("--unread", action="store_true", help="only what holds something that you have not read"),
)
_SHOW = (_THREAD, opt("--limit", type=whole(1, 1_000_000), metavar="N", help="only the last messages"))
_RENEW = (*_HOLDER, lease(None, "from now (default: what was granted)"))
_UPDATE = (
    *_HOLDER,
    opt("--status", default="in_progress", metavar="WORD", help="in_progress (default), or blocked"),
    *MESSAGE,
    _DIRECT,
)
_ASK = (
    opt("text", metavar="TEXT", help="the question"),
    *_HOLDER,
    repeatable("--choice", "TEXT", "an answer to choose from; repeatable"),
    opt("--id", default="", help="the message's id: asked again, it is asked once"),
    PATIENCE,
)
_CANCEL = (
    _THREAD,
    _WHY,
    opt("--id", default="", help="the message's id: said again, it is there once"),
)
_LIST = (
    opt("--status", default="", metavar="LIST", help="pending, done, ... (default: any)"),
    opt("--created-by", metavar="NAME"),
    opt("--assigned-to", metavar="NAME"),
    opt("--run", dest="run_id", metavar="NAME"),
    limit(50),
)
_TAKE = (lease(DEFAULT_LEASE_SECONDS, "ours for so long (default: 300)"), _TRIES)
_ACK = (
    opt("--message", metavar="ID", help="the message, by its id or seq"),
    opt("--through", type=whole(0, 2**53 - 1), metavar="SEQ", help="all that I was given up to this number"),
    _TAKEN,
    *MESSAGE,
)
_NACK = (
    opt("--message", metavar="ID", required=True, help="the message, by its id or seq"),
    _WHY,
    _TAKEN,
    opt("--permanent", action="store_true", help="no retry mends it: dead at once"),
    _TRIES,
)
_DEAD = (
    opt("action", choices=("list", "show", "redrive", "drop"), help="what to do"),
    opt("message", nargs="?", metavar="MESSAGE", help="the message, by its id or seq"),
    opt("--task", metavar="ID", help="a failed task, instead of a message"),
    opt("--all", action="store_true", help="all that the options below choose"),
    opt("--for", dest="recipient", metavar="NAME", help="of this recipient only"),
    opt("--run", dest="run_id", metavar="NAME", help="of this run only"),
    opt("--reason", default="", metavar="TEXT", help="only those that died of this"),
    opt("--older-than", type=number(MAX_SECONDS), default=0.0, metavar="S", help="dead for so long"),
    opt("--force", action="store_true", help="redrive beyond the third time"),
    limit(50),
)
_SEARCH = (
    opt("words", nargs="+", metavar="WORD", help='all of them; word* any ending, "several words" a phrase'),
    opt("--before", type=whole(1, 2**53 - 1), metavar="SEQ", help="older than this message: the next page"),
    limit(20),
)
_WAIT_REPLY = (
    _THREAD,
    opt("--kinds", default="", metavar="LIST", help="answer, control, ... (default: whatever others say)"),
    opt("--after-message", metavar="ID", help="only what came after this message"),
    *SINCE,
)
_TABLE: tuple[Row, ...] = (
    ("init", "make home and store where there are none", "", ()),
    (
        "send",
        "send a message: into a thread, or as a new one",
        '--agent lead --to builder --subject "fix the parser"',
        _SEND,
    ),
    ("fetch", "what there is for me, the most urgent first; changes nothing", "--agent builder", _FETCH),
    (
        "claim",
        "take a thread's work, for nobody but me",
        "--agent builder --thread ID --lease-seconds 900",
        (_THREAD, LEASE),
    ),
    (
        "renew",
        "hold a thread for longer",
        "--agent builder --thread ID",
        _RENEW,
    ),
    (
        "update",
        "say how the work goes, or what it waits for",
        '--agent builder --thread ID --summary "12 of 30 files"',
        _UPDATE,
    ),
    (
        "ask",
        "ask what the work waits for, and wait for the answer",
        '"Push to main?" --agent builder --thread ID --choice yes --choice no',
        _ASK,
    ),
    ("reply", "say something in a thread", '--agent lead --thread ID --summary "yes, do that"', _REPLY),
    ("done", "the work is done: the result", '--agent builder --thread ID --summary "it works"', _END),
    ("fail", "the work failed: why", '--agent builder --thread ID --summary "no such file"', _END),
    ("cancel", "the work is no longer wanted", '--agent lead --thread ID --reason "done elsewhere"', _CANCEL),
    ("list", "threads, the last changed first", "--status in_progress,blocked", _LIST),
    ("show", "one thread with all its messages", "--thread ID", _SHOW),
    (
        "watch",
        "wait for something new that concerns me: unread, or from now on",
        "--agent lead --status blocked,done,failed --timeout-seconds 600",
        (_ANY_STATUS, *SINCE),
    ),
    (
        "wait-reply",
        "wait for what others say in a thread after my last question",
        "--agent builder --thread ID --timeout-seconds 1800",
        _WAIT_REPLY,
    ),
    (
        "take",
        "lease my next message",
        "--agent builder",
        _TAKE,
    ),
    ("ack", "a message that I took is done", "--agent builder --message ID --token LEASE", _ACK),
    (
        "nack",
        "give a message back that I took: later again, dead after the third time",
        '--agent builder --message ID --reason "no network"',
        _NACK,
    ),
    (
        "dead",
        "messages and tasks that were given up: list, show, redrive, drop",
        "redrive MESSAGE --agent lead",
        _DEAD,
    ),
    ("search", "messages by their words, newest first", "parser empty*", _SEARCH),
    ("export", "append new messages to a file, one JSON line each", "--output bus.jsonl", (_OUTPUT,)),
)
VERBS = verbs_of(
    PROG,
    _TABLE,
    runs="verb:{}",
    but={"verb:renew-claim": "renew", "actions:{}": "init export", "asking_actions:{}": "ask"},
)


INBOX = VerbTable(PROG, "Messages between agents, durable without any process.", VERBS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `inbox`; return the exit code."""
    return INBOX.main(argv)


if __name__ == "__main__":
    sys.exit(main())
