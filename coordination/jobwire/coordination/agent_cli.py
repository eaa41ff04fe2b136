"""`jobwire agent ...`: who takes part, and whether it lives; `jobwire wait`: for an event by its name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jobwire.coordination.cli import add_timeout
from jobwire.coordination.command import coordination_command, say_failure
from jobwire.coordination.liveness import (
    DEFAULT_INTERVAL_SECONDS,
    MAX_INTERVAL_SECONDS,
    AgentKind,
    AgentStatus,
)
from jobwire.coordination.verbs import Verb, VerbTable, add_common, run_verb
from jobwire.core.argument_types import number, whole
from jobwire.storage.home import Need

if TYPE_CHECKING:
    import argparse

    from jobwire.core.commands import CommandParser


_MAX_PID = 2**22
_PERCENT = 100.0


def _alive(parser: CommandParser, status: AgentStatus) -> None:
    parser.add_argument(
        "--status", choices=[str(one) for one in AgentStatus], default=str(status), help=f"default: {status}"
    )
    parser.add_argument(
        "--interval",
        type=number(MAX_INTERVAL_SECONDS, zero=False),
        default=DEFAULT_INTERVAL_SECONDS,
        metavar="S",
        help="a sign of life each S seconds is promised (default: 10); 3 missed: WARN, 10 STALE, 30 DEAD",
    )


def _join(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--kind", choices=[str(one) for one in AgentKind], default=str(AgentKind.WORKER))
    add("--role", default="", metavar="LIST", help="words of your own: reviewer, tester ...")
    add("--run", dest="run_id", default="default", help="the run (default: default)")
    add("--pid", type=whole(1, _MAX_PID), help="its process (default: who started this command)")
    _alive(parser, AgentStatus.IDLE)


def _beat(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--task", help="what it works on")
    add("--progress", type=number(_PERCENT), metavar="PERCENT", help="how far it is, from 0 to 100")
    add("--while-pid", type=whole(1, _MAX_PID), metavar="PID", help="go on as long as this process lives")
    _alive(parser, AgentStatus.WORKING)


def _ticket(parser: CommandParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="the agent")
    add("--out", default="-", metavar="FILE", help="where to (mode 0600; default: standard output)")
    add("--broker", action="append", default=[], metavar="KEY=VALUE", help="as another host sees the broker")
    add("--certificate-days", type=number(36500, zero=False), default=90.0, metavar="D", help="default: 90")


def _list(parser: CommandParser) -> None:
    parser.add_argument("--run", dest="run_id", help="only the agents of this run")


AGENT = VerbTable(
    "agent",
    "who takes part: join, beat, list, leave, ticket",
    "Agents: who takes part, what each does, and whether it lives.",
    {
        "join": Verb(
            "make an agent known to the others",
            "jobwire agent join --agent builder",
            _join,
            "agent_actions:join",
        ),
        "beat": Verb(
            "give a sign of life, once or as long as a process lives",
            "jobwire agent beat --agent builder --while-pid $$ &",
            _beat,
            "agent_actions:beat",
        ),
        "list": Verb(
            "who is there, what each does, and how long ago it was heard of",
            "jobwire agent list",
            _list,
            "agent_actions:list_agents",
        ),
        "ticket": Verb(
            "write what an agent on another host needs, with a new key and certificate",
            "jobwire agent ticket builder --out builder.ticket --broker broker=broker.example.org",
            _ticket,
            "ticket_actions:ticket",
        ),
        "leave": Verb(
            "take an agent off the list and free what it holds",
            "jobwire agent leave --agent builder",
            lambda _: None,
            "agent_actions:leave",
        ),
    },
)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `agent`, `wait` and `notify` to `jobwire`."""
    AGENT.add_to(commands)
    _add_notify(commands)
    summary = "wait for an event of the coordination by its name"
    parser = commands.add_parser(
        "wait",
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}, from now on or after event N.",
        epilog="example:\n  jobwire wait 'TASK_COMPLETE_*' --timeout-seconds 600",
        tell=partial(say_failure, "wait"),
    )
    parser.add_argument("pattern", metavar="PATTERN", help="TYPE_TASK, with * ? and [...]")
    add_common(parser, None)
    add_timeout(parser)
    parser.set_defaults(
        run=coordination_command(run_verb), runs="waiting_actions:wait", verb="wait", home_need=Need.NOTHING
    )


def _add_notify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "be told once, by a message, when an agent or a job comes to rest"
    parser = commands.add_parser(
        "notify",
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}: now, or as soon as it does.",
        epilog="example:\n  jobwire notify --agent lead --when done,stopped builder",
        tell=partial(say_failure, "notify"),
    )
    parser.add_argument("subject", metavar="AGENT|JOB", help="who, or which job")
    parser.add_argument(
        "--when", required=True, metavar="LIST", help="idle, done, blocked, stopped: whichever comes first"
    )
    add_common(parser, None)
    parser.set_defaults(
        run=coordination_command(run_verb),
        runs="notice_actions:notify",
        verb="notify",
        home_need=Need.NOTHING,
    )
