"""The arguments of `jobwire submit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.core.argument_types import number
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.commands import telling
from jobwire.sessions.cli import add_agent_options

if TYPE_CHECKING:
    import argparse

_SECONDS = number(MAX_SECONDS, zero=False)
_EXAMPLES = """\
examples:
  jobwire submit --agent-session builder --agent claude "fix the flaky test in tests/test_parser.py"
  jobwire submit --agent-session builder --file plan.md --detach
  git diff | jobwire submit --agent-session review --agent-command 'claude -p' -

the session's pane is opened, or used again where its agent lives on; the agent gets a header that says how to
report, and the instructions, in its own way (docs/sessions.md). Events are shown as they come; the exit code
is the verdict's. Ctrl-C cancels the job, leaves the agent in its pane. Closing the terminal leaves both."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `jobwire submit`."""
    parser = subparsers.add_parser(
        "submit",
        description="Register a job, hand it to the agent of a session, and watch it to its verdict.",
        epilog=_EXAMPLES,
        **telling("submit"),
    )
    add = parser.add_argument
    add("instructions", nargs="?", metavar="INSTRUCTIONS", help="- for stdin")
    add("--file", metavar="FILE", help="the instructions from a file, - for stdin")
    add("--agent-session", required=True, metavar="S", help="the session: opened where it is not there")
    add_agent_options(parser)
    add("--idle-timeout", metavar="S", type=_SECONDS, help="end the job after S seconds without an event")
    add("--wall-timeout", metavar="S", type=_SECONDS, help="end it after S seconds in any case")
    add(
        "--wait",
        metavar="S",
        type=number(MAX_SECONDS),
        default=0.0,
        help="wait so long until the session is free (default: refuse with 20)",
    )
    add("--detach", action="store_true", help="print the job's id and return; `jobwire watch` joins later")
    add("--quiet", action="store_true", help="no lines about events")
    add("--json", action="store_true", help="events as JSON lines on standard error")
    parser.set_defaults(run="jobwire.cli.submit:run", told=True)
