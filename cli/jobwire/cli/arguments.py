"""The arguments of the umbrella's own commands. What they do stands in modules of their names.

Apart from those, which load brokers, transports and terminals: help and a typo need none of that.
"""

import argparse
import os

from jobwire.core.argument_types import add_job, count, whole
from jobwire.core.bounds import MAX_PORT
from jobwire.core.commands import Subparsers, telling
from jobwire.storage.home import NAME, VARIABLE, Need

_PORT = whole(1, MAX_PORT)
# Of output, that `attach` shows from before.
_LINES = 10
# What `unit`, `schema` and `skill` know (tests hold them to it).
SERVICES = ("up", "broker", "registry", "metrics", "dashboard", "sessions")
DOCUMENTS = ("event", "record", "state", "asyncapi")
ROLES = ("worker", "lead", "director", "reviewer")


def add_init(subparsers: Subparsers) -> None:
    """Add `jobwire init`."""
    parser = subparsers.add_parser(
        "init",
        description=f"Make the home DIR/{NAME}, or the one that --home or {VARIABLE} names, mode 0700. What"
        " is there stays as it is. Every command in DIR and below finds it.",
        epilog="examples:\n  jobwire init\n  jobwire --home /srv/jobwire init",
    )
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", help=f"where to make {NAME} (default: this directory)"
    )
    parser.add_argument("--json", action="store_true", help='print {"home", "created"}')
    parser.set_defaults(run="jobwire.cli.init:run", home_need=Need.NOTHING)


def add_up(subparsers: Subparsers) -> None:
    """Add `jobwire up`."""
    up = subparsers.add_parser(
        "up",
        description="Run a broker, the registry process (`jobwire serve`) and the page (`jobwire dashboard`)"
        " for one home, until Ctrl-C, SIGTERM, a closed terminal or `jobwire down`. The home is made if there"
        " is none. What ends is started again: after 1 s, then 2, 4 and so on up to 60.",
        epilog="examples:\n  jobwire up\n  jobwire up --detach && jobwire run -- make; jobwire down\n"
        "  jobwire up --allow-actions\n"
        "  jobwire up --host 192.0.2.1 --certfile page.pem --keyfile page.key --token-file page.token",
    )
    add = up.add_argument
    add("--detach", action="store_true", help="in the background; return when all is up")
    add("--mosquitto", action="store_true", help="run Mosquitto instead of the embedded broker")
    add("--no-broker", action="store_true", help="use the broker that the settings name")
    add("--no-page", action="store_true", help="serve no page")
    add("--with-metrics", action="store_true", help="compute the fleet's figures by Spark as well")
    add("--port", type=_PORT, help="the broker's (default: the home's; a new home takes 8883 or a free one)")
    page = up.add_argument_group("the page", "passed on to `jobwire dashboard`, which says more of each")
    page.add_argument("--page-port", type=_PORT, help="its port (default: 8470 or a free one)")
    page.add_argument(
        "--host", metavar="ADDRESS", help="where it listens (127.0.0.1); the broker stays on loopback"
    )
    page.add_argument(
        "--allow-actions",
        action="store_true",
        help="let it answer, cancel and write; else it only shows",
    )
    page.add_argument("--certfile", metavar="FILE", help="TLS certificate; needed beyond loopback")
    page.add_argument("--keyfile", metavar="FILE", help="its private key")
    page.add_argument(
        "--token-file", metavar="FILE", help="your own token, mode 0600; needed beyond loopback"
    )
    add("--json", action="store_true", help="print one JSON line of what runs where")
    up.set_defaults(run="jobwire.cli.up:run_up", home_need=Need.PLACE)


def add_down(subparsers: Subparsers) -> None:
    """Add `jobwire down`."""
    down = subparsers.add_parser(
        "down",
        description="End what `jobwire up` runs for this home, in order, and return when all has ended. Exit"
        " code 0 also where nothing runs. A second one hurries the first.",
        epilog="example:\n  jobwire --home ~/work/.hermes down",
    )
    down.add_argument("--json", action="store_true", help='print {"stopped": PID or null}')
    down.set_defaults(run="jobwire.cli.up:run_down")


_DEMO_DESCRIPTION = """\
Make certificates, start a broker with TLS 1.3 on a free loopback port and the registry process, delegate
three real jobs at once (one succeeds, one fails, one asks for permission), watch them live in one view,
and print a summary, with Spark's figures where Java is installed. Exit code 0 when all three ended as they
should. It ends everything that it starts."""


def add_demo(subparsers: Subparsers) -> None:
    """Add `jobwire demo`."""
    parser = subparsers.add_parser(
        "demo",
        description=_DEMO_DESCRIPTION,
        epilog="examples:\n  jobwire demo --directory var/demo\n  jobwire demo --team --stay",
    )
    add = parser.add_argument
    add("--directory", default="var/demo", help="made afresh (default: var/demo)")
    add("--team", action="store_true", help="a plan, worked off by three agents (shell scripts), instead")
    add("--source", default=".", help="the tree that the first job surveys")
    add("--stay", action="store_true", help="keep the live page open until Ctrl-C")
    add("--no-metrics", action="store_true", help="leave out Spark")
    add("--json", action="store_true", help="print the result as JSON, the rest on stderr")
    parser.set_defaults(run="jobwire.cli.demo:run", home_need=Need.NOTHING)


_LOGS_EXAMPLES = """\
examples:
  jobwire logs 1a2b3c4d
  jobwire logs -f --lines 20 1a2b3c4d

on a terminal, colours pass and other control characters are spelled out; elsewhere nothing is changed."""


def add_logs(subparsers: Subparsers) -> None:
    """Add `jobwire logs`."""
    parser = subparsers.add_parser(
        "logs",
        description="Print what a job's command has written to both of its streams.",
        epilog=_LOGS_EXAMPLES,
    )
    add_job(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="keep going until the job ends")
    parser.add_argument("--lines", type=count, metavar="N", help="the last N lines only (default: all)")
    parser.set_defaults(run="jobwire.cli.logs:run")


_ATTACH_EXAMPLES = """\
example:
  jobwire attach 1a2b3c4d

a job that runs in a tmux pane is shown there: in this terminal, or by switching the tmux that you are in.
Without a terminal, and for every other job, its output and events are shown here until the verdict, whose
exit code becomes this command's. Ctrl-C leaves the job running."""


def add_attach(subparsers: Subparsers) -> None:
    """Add `jobwire attach`."""
    parser = subparsers.add_parser(
        "attach",
        description="Join a job that was started elsewhere.",
        epilog=_ATTACH_EXAMPLES,
    )
    add_job(parser)
    parser.add_argument(
        "--lines",
        type=count,
        default=_LINES,
        metavar="N",
        help=f"output before now (default: {_LINES} lines)",
    )
    parser.add_argument("--json", action="store_true", help="events as JSON lines on standard error")
    parser.set_defaults(run="jobwire.cli.attach:run")


def add_unit(subparsers: Subparsers) -> None:
    """Add `jobwire unit`."""
    parser = subparsers.add_parser(
        "unit",
        description="Print the systemd unit of one of jobwire's processes, for this home.",
        epilog="examples:\n  jobwire --home /srv/jobwire unit registry --run-as jobwire"
        " > /etc/systemd/system/jobwire-registry.service\n"
        "  jobwire unit --user broker > ~/.config/systemd/user/jobwire-broker.service",
    )
    add = parser.add_argument
    add("service", choices=SERVICES)
    add("--user", action="store_true", help="a unit of your own, for systemctl --user: no root is needed")
    add("--run-as", metavar="USER", help="who it runs as (default: you)")
    add(
        "--arguments",
        metavar="WORDS",
        default="",
        help="more words for its command line, such as --port 8080",
    )
    add("--json", action="store_true", help='print {"name", "text"}')
    parser.set_defaults(run="jobwire.cli.unit:run")


def add_settings(subparsers: Subparsers) -> None:
    """Add `jobwire settings`."""
    parser = subparsers.add_parser(
        "settings",
        description="Show every setting with its value and where that comes from: a variable of the"
        " environment, a file with its line, or the default. Passwords are masked. docs/settings.md explains"
        " each. The options of a command and the `broker` of a job's record go before all of them.",
        epilog="examples:\n  jobwire settings\n  jobwire settings --json",
    )
    parser.add_argument("--json", action="store_true", help='print {"home", "settings"}')
    parser.set_defaults(run="jobwire.cli.settings:run")


def add_schema(subparsers: Subparsers) -> None:
    """Add `jobwire schema`."""
    parser = subparsers.add_parser(
        "schema",
        description="Print the JSON Schema (draft 2020-12) of one document, or the AsyncAPI of the topics.",
        epilog="example:\n  jobwire schema event > event.schema.json",
    )
    parser.add_argument("document", choices=DOCUMENTS)
    parser.add_argument("--json", action="store_true", help="the output is JSON in any case")
    parser.set_defaults(run="jobwire.cli.schema:run", home_need=Need.NOTHING)


def add_skill(subparsers: Subparsers) -> None:
    """Add `jobwire skill`."""
    parser = subparsers.add_parser(
        "skill",
        description="Print what to give to an agent: when to take part, the rules, the commands of its day."
        " A worker does work, a lead gives it, a director decides on a board. The text is a SKILL.md.",
        epilog="examples:\n  jobwire skill worker\n  jobwire skill lead > SKILL.md",
        **telling("skill"),
    )
    parser.add_argument("role", nargs="?", choices=ROLES, default=ROLES[0], help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help='print {"role", "text", "commands"}')
    parser.set_defaults(run="jobwire.cli.skill:run", home_need=Need.NOTHING, told=True)


def add_mcp(subparsers: Subparsers) -> None:
    """Add `jobwire mcp`."""
    parser = subparsers.add_parser(
        "mcp",
        description="Serve an agent's commands as tools of the Model Context Protocol over stdin and stdout,"
        " until stdin ends. The agent's program starts it: docs/mcp.md shows what to write where.",
        epilog="example:\n  jobwire mcp --agent builder",
    )
    parser.add_argument("--agent", metavar="NAME", help="who I am (default: $JOBWIRE_AGENT)")
    parser.add_argument(
        "--ticket",
        metavar="FILE",
        help="the agent's ticket, away from the home's host ($JOBWIRE_TICKET)",
    )
    parser.set_defaults(run="jobwire.cli.mcp_server:run", home_need=_need_of_mcp)


def _need_of_mcp(args: argparse.Namespace) -> Need:
    return Need.NOTHING if args.ticket or os.environ.get("JOBWIRE_TICKET") else Need.HOME
