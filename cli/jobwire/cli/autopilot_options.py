"""The arguments of `jobwire autopilot`; what it does stands in `autopilot`."""

from jobwire.cli.arguments import add_command
from jobwire.coordination.verbs import add_common
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.commands import Subparsers, telling
from jobwire.storage.home import Need

_MANY = whole(1, 1000)
_SECONDS = number(MAX_SECONDS, zero=False)
_EXAMPLES = """\
examples:
  jobwire autopilot --agent builder -- claude -p
  jobwire autopilot --agents builder,reviewer --serial -- ./agent.sh
  jobwire autopilot --agent builder --verify -- sh -c 'codex exec -o "$JOBWIRE_RECEIPT" -'

the command gets the message as its standard input and as the file $JOBWIRE_MESSAGE; JOBWIRE_AGENT,
JOBWIRE_THREAD and JOBWIRE_JOB tell who and where it is. What it writes to $JOBWIRE_RECEIPT, else the end of
its output, is the receipt. Exit status 0 means done. Anything else is tried again later, three times at most,
and then dead: `jobwire inbox dead list`. Each try is a job: `jobwire list`, `jobwire logs JOB`, and `jobwire
ask` within it.

SIGTERM and Ctrl-C let what runs end and take nothing more; a second one ends that too, and it comes again."""


def _delays(text: str) -> tuple[float, ...]:
    read = number(MAX_SECONDS, zero=False)
    return tuple(read(word.strip()) for word in text.split(","))


def add_autopilot(subparsers: Subparsers) -> None:
    """Add `jobwire autopilot`."""
    parser = subparsers.add_parser(
        "autopilot",
        usage="%(prog)s [options] [--] COMMAND [its options]",
        description="Take the messages of agents and run COMMAND for each, as a job: tasks and questions; for"
        " a lead results and alerts as well. One at a time for each agent, agents side by side.",
        epilog=_EXAMPLES,
        **telling("autopilot"),
    )
    add_common(parser, None)
    add = parser.add_argument
    add("--agents", default="", metavar="A,B,C", help="several agents; their names reach it as JOBWIRE_AGENT")
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--serial", action="store_true", help="one at a time in the whole run")
    order.add_argument("--parallel", action="store_true", help="agents side by side (the default)")
    add("--max-in-flight", type=_MANY, metavar="N", help="at most N commands at a time")
    add("--per-run-cap", type=_MANY, metavar="N", help="at most N at a time in each run")
    add("--max-tries", type=_MANY, default=3, metavar="N", help="tries before a message is dead (default: 3)")
    add(
        "--retry-delays",
        type=_delays,
        default=(30.0, 120.0, 600.0),
        metavar="S,S,S",
        help="seconds between tries (default: 30,120,600)",
    )
    add("--idle-timeout", metavar="S", type=_SECONDS, help="end it after S silent seconds")
    add("--wall-timeout", metavar="S", type=_SECONDS, help="end it after S seconds in any case")
    add("--lease", type=_SECONDS, default=60.0, metavar="S", help="of its jobs and messages (default: 60 s)")
    add(
        "--verify",
        action="store_true",
        help="run the acceptance lines of tasks, and those you allow",
    )
    add("--verify-timeout", type=_SECONDS, default=600.0, metavar="S", help="for each line (default: 600 s)")
    add(
        "--answer-stdin",
        action="store_true",
        help="its input is answers, not the message",
    )
    add(
        "--until-idle",
        action="store_true",
        help="end once nothing is left, later tries included",
    )
    add("--open", dest="open_work", action="store_true", help="take work that is nobody's as well")
    add("--bus", default="", metavar="FOLDER", help="a session folder: take in its files, write receipts")
    add("--dry-run", action="store_true", help="show what would be handled, and change nothing")
    add_command(parser)
    parser.set_defaults(run="jobwire.cli.autopilot:run", home_need=Need.NOTHING, verb="autopilot", told=True)
