"""`jobwire agent ...`: who takes part, and whether it lives; `jobwire wait`: for an event by its name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jobwire.coordination.command import coordination_command
from jobwire.coordination.liveness import (
    DEFAULT_INTERVAL_SECONDS,
    MAX_INTERVAL_SECONDS,
    AgentKind,
    AgentStatus,
)
from jobwire.coordination.verb_options import SINCE, VerbOption, add_options, opt
from jobwire.coordination.verbs import Row, VerbTable, add_common, run_verb, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.told import say_failure
from jobwire.storage.home import Need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobwire.core.commands import Subparsers


_MAX_PID = 2**22
_PERCENT = 100.0


def _alive(status: AgentStatus) -> tuple[VerbOption, ...]:
    words = "a sign of life each S seconds is promised (default: 10); 3 missed: WARN, 10 STALE, 30 DEAD"
    return (
        opt(
            "--status",
            choices=[str(one) for one in AgentStatus],
            default=str(status),
            help=f"default: {status}",
        ),
        opt(
            "--interval",
            type=number(MAX_INTERVAL_SECONDS, zero=False),
            default=DEFAULT_INTERVAL_SECONDS,
            metavar="S",
            help=words,
        ),
    )


_JOIN = (
    opt("--kind", choices=[str(one) for one in AgentKind], default=str(AgentKind.WORKER)),
    opt("--role", default="", metavar="LIST", help="words of your own: reviewer, tester ..."),
    opt("--run", dest="run_id", default="default", help="the run (default: default)"),
    opt("--pid", type=whole(1, _MAX_PID), help="its process (default: who started this command)"),
    *_alive(AgentStatus.IDLE),
)
_BEAT = (
    opt("--task", help="what it works on"),
    opt("--progress", type=number(_PERCENT), metavar="PERCENT", help="how far it is, from 0 to 100"),
    opt("--while-pid", type=whole(1, _MAX_PID), metavar="PID", help="go on as long as this process lives"),
    *_alive(AgentStatus.WORKING),
)
_TICKET = (
    opt("name", metavar="NAME", help="the agent"),
    opt("--out", default="-", metavar="FILE", help="where to (mode 0600; default: standard output)"),
    opt("--broker", action="append", default=[], metavar="KEY=VALUE", help="as another host sees the broker"),
    opt("--certificate-days", type=number(36500, zero=False), default=90.0, metavar="D", help="default: 90"),
)
_LIST = (opt("--run", dest="run_id", help="only the agents of this run"),)
_WAIT = (opt("pattern", metavar="PATTERN", help="TYPE_TASK, with * ? and [...]"), *SINCE)
_NOTIFY = (
    opt("subject", metavar="AGENT|JOB", help="who, or which job"),
    opt("--when", required=True, metavar="LIST", help="idle, done, blocked, stopped: whichever comes first"),
)
_TABLE: tuple[Row, ...] = (
    ("join", "make an agent known to the others", "--agent builder", _JOIN),
    (
        "beat",
        "give a sign of life, once or as long as a process lives",
        "--agent builder --while-pid $$ &",
        _BEAT,
    ),
    ("list", "who is there, what each does, and how long ago it was heard of", "", _LIST),
    (
        "ticket",
        "write what an agent on another host needs, with a new key and certificate",
        "builder --out builder.ticket --broker broker=broker.example.org",
        _TICKET,
    ),
    ("leave", "take an agent off the list and free what it holds", "--agent builder", ()),
)
AGENT = VerbTable(
    "agent",
    "Agents: who takes part, what each does, and whether it lives.",
    verbs_of(
        "jobwire agent",
        _TABLE,
        runs="verb:{}",
        but={"verb:agents": "list", "agent_actions:beat": "beat", "ticket_actions:ticket": "ticket"},
    ),
)


def add_wait(commands: Subparsers) -> None:
    """Add `wait`."""
    _add(
        commands,
        "wait",
        "Wait for an event of the coordination by its name, from now on or after event N.",
        "jobwire wait 'TASK_COMPLETE_*' --timeout-seconds 600",
        _WAIT,
        runs="actions:wait",
    )


def add_notify(commands: Subparsers) -> None:
    """Add `notify`."""
    _add(
        commands,
        "notify",
        "Be told once, by a message, when an agent or a job comes to rest: now, or as soon as it does.",
        "jobwire notify --agent lead --when done,stopped builder",
        _NOTIFY,
        runs="verb:notify",
    )


def _add(
    commands: Subparsers,
    name: str,
    description: str,
    example: str,
    options: Sequence[VerbOption],
    *,
    runs: str,
) -> None:
    """Add a command without verbs; `runs` as of a verb."""
    tell = partial(say_failure, name)
    parser = commands.add_parser(name, description=description, epilog=f"example:\n  {example}", tell=tell)
    add_common(parser, None)
    add_options(parser, options)
    run = coordination_command(run_verb)
    parser.set_defaults(run=run, runs=runs, verb=name, home_need=Need.NOTHING)
