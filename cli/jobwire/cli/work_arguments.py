"""The arguments of the commands that give work away: `run`, `submit`, `autopilot`. See `arguments`."""

import argparse
from typing import Any

from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.commands import Subparsers, telling
from jobwire.core.override import override
from jobwire.storage.home import Need

_MANY = whole(1, 1000)
_SECONDS = number(MAX_SECONDS, zero=False)
# Whose hooks `run` knows (a test holds it to that).
AGENTS = ("claude", "codex", "opencode")


def _add_limits(parser: argparse.ArgumentParser, *, signs: str = "an event or output") -> None:
    add = parser.add_argument
    add("--idle-timeout", metavar="S", type=_SECONDS, help=f"end it after S seconds without {signs}")
    add("--wall-timeout", metavar="S", type=_SECONDS, help="end it after S seconds in any case")


def _add_watch(parser: argparse.ArgumentParser, *, quiet: str = "no lines about events") -> None:
    add = parser.add_argument
    add("--detach", action="store_true", help="print the job's id and return; `jobwire watch` joins it later")
    add("--quiet", action="store_true", help=quiet)
    add("--json", action="store_true", help="events as JSON lines on standard error")


_RUN_EXAMPLES = """\
examples:
  jobwire run -- make -j2 world
  jobwire run --wall-timeout 600 --title "nightly build" -- ./build.sh
  jobwire run --tmux work --agent claude -- claude "fix the tests"
  job=$(jobwire run --detach -- ./nightly.sh); jobwire attach $job

the command's output passes through and is kept in DIR/logs/JOB/output.log. Percentages in it, [12/60], and
lines `::progress TEXT`, `::permission TEXT` and `::question TEXT`, become events. The timeouts are the job's
own: the registry process, where one runs, enforces them also when this command is gone. With --answer-stdin
the answers (`jobwire answer`, the page) come as lines on the command's standard input, in the order in which
it asked; without it, whatever it reports next takes the question back.

where input and output are a terminal, the command has it to itself, keys included: Ctrl-C interrupts it, and
cancels the job if that ends it; Ctrl-Z suspends both. Elsewhere SIGINT and SIGTERM cancel the job
(SIGTERM to all it started, after 5 s SIGKILL). So does closing the terminal, but with --tmux, --detach and
nohup the job goes on.

settings that cannot be used (jobwire.toml, certificate and password files) are refused before anything
starts. A broker that does not answer or refuses us stops nothing: the command runs, one line warns, and the
events wait in DIR/logs until the next `publish_event --flush` or the registry process sends them.

exit code 0 means that the command ended with 0, 1 that it did not (or that the job says error)."""


class _TakeWords(argparse.Action):
    """Takes the command's words: those after the first `--`, which is not the command's."""

    @override
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: object
    ) -> None:
        words = values[1:] if values[:1] == ["--"] else values
        if not words:
            parser.error("no command is named; write it after the options, or after --")
        setattr(namespace, self.dest, words)


def _add_command(parser: argparse.ArgumentParser) -> None:
    """Add the words of the command to run, which may have options of its own."""
    parser.add_argument(
        "command",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        action=_TakeWords,
        help="what to run, with its own options",
    )


def add_run(subparsers: Subparsers) -> None:
    """Add `jobwire run`."""
    parser = subparsers.add_parser(
        "run",
        usage="%(prog)s [options] [--] COMMAND [its options]",
        description="Register a job, run COMMAND as its worker, watch it, and exit as it ended.",
        epilog=_RUN_EXAMPLES,
    )
    add = parser.add_argument
    add("--title", default="", help="what lists show (default: the command)")
    add("--agent-session", metavar="S", help="the session that the job belongs to")
    _add_limits(parser)
    add("--tmux", metavar="SESSION", help="run the worker in a window of this tmux session")
    add("--tmux-socket", metavar="NAME", help="the tmux server (tmux -L; default: the one that we are in)")
    add(
        "--answer-stdin",
        action="store_true",
        help="the answers to its `::permission` and `::question` lines are the command's standard input",
    )
    add(
        "--agent",
        metavar="NAME",
        choices=AGENTS,
        help=f"COMMAND starts this coding agent, whose own hooks then report for it: {', '.join(AGENTS)}",
    )
    add(
        "--approve-remotely",
        action="store_true",
        help="with --agent codex: its questions can be answered from here as well, by its app-server",
    )
    add("--mtls", action="store_true", help="give the worker a certificate for this job alone, no password")
    _add_watch(parser, quiet="no lines about events, only the output")
    _add_command(parser)
    parser.set_defaults(run="jobwire.cli.run:run")


_SUBMIT_EXAMPLES = """\
examples:
  jobwire submit --agent-session builder --agent claude "fix the flaky test in tests/test_parser.py"
  jobwire submit --agent-session builder --file plan.md --detach
  git diff | jobwire submit --agent-session review --agent-command 'claude -p' -

the session's pane is opened, or used again where its agent lives on; the agent gets a header that says how to
report, and the instructions, in its own way (docs/sessions.md). Events are shown as they come; the exit code
is the verdict's. Ctrl-C cancels the job, leaves the agent in its pane. Closing the terminal leaves both."""


def add_submit(subparsers: Subparsers) -> None:
    """Add `jobwire submit`."""
    from jobwire.sessions.cli import add_agent_options  # noqa: PLC0415 - of this command only

    parser = subparsers.add_parser(
        "submit",
        description="Register a job, hand it to the agent of a session, and watch it to its verdict.",
        epilog=_SUBMIT_EXAMPLES,
        **telling("submit"),
    )
    add = parser.add_argument
    add("instructions", nargs="?", metavar="INSTRUCTIONS", help="- for stdin")
    add("--file", metavar="FILE", help="the instructions from a file, - for stdin")
    add("--agent-session", required=True, metavar="S", help="the session: opened where it is not there")
    add_agent_options(parser)
    _add_limits(parser, signs="an event")
    add(
        "--wait",
        metavar="S",
        type=number(MAX_SECONDS),
        default=0.0,
        help="wait so long until the session is free (default: refuse with 20)",
    )
    _add_watch(parser)
    parser.set_defaults(run="jobwire.cli.submit:run", told=True)


_AUTOPILOT_EXAMPLES = """\
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
    return tuple(_SECONDS(word.strip()) for word in text.split(","))


def add_autopilot(subparsers: Subparsers) -> None:
    """Add `jobwire autopilot`."""
    from jobwire.coordination.verbs import add_common  # noqa: PLC0415 - of this command only

    parser = subparsers.add_parser(
        "autopilot",
        usage="%(prog)s [options] [--] COMMAND [its options]",
        description="Take the messages of agents and run COMMAND for each, as a job: tasks and questions; for"
        " a lead results and alerts as well. One at a time for each agent, agents side by side.",
        epilog=_AUTOPILOT_EXAMPLES,
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
    _add_limits(parser)
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
    _add_command(parser)
    parser.set_defaults(run="jobwire.cli.autopilot:run", home_need=Need.NOTHING, verb="autopilot", told=True)
