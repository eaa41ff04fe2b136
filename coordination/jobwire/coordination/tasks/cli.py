"""`jobwire tasks ...`: a plan of tasks that wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.message import PRIORITIES
from jobwire.coordination.tasks.new_task import MAX_RUNS, POLICIES, REVIEWS
from jobwire.coordination.verbs import Row, VerbTable, message_options, verbs_of
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, MAX_SECONDS

if TYPE_CHECKING:
    import argparse

    from jobwire.core.commands import CommandParser

PROG = "tasks"
SUMMARY = "a plan of tasks that wait for each other: add, import, claim, complete, review ..."
_MOST = 1_000_000


def _run(parser: CommandParser) -> None:
    parser.add_argument(
        "--run", dest="run_id", metavar="NAME", default="default", help="the run (default: default)"
    )


def _task(parser: CommandParser, nargs: str | None = None, words: str = "the task's id") -> None:
    parser.add_argument("task", metavar="TASK", nargs=nargs, help=words)
    _run(parser)


def _version(parser: CommandParser) -> None:
    parser.add_argument(
        "--expect-version", type=whole(1, 2**53 - 1), metavar="N", help="only if nobody has changed it since"
    )


def _add(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--title", required=True, metavar="TEXT", help="one line")
    add("--task", default="", metavar="ID", help="its id (default: T and a number)")
    add("--owner", default="", metavar="NAME", help="who works on it (default: whoever claims it)")
    add("--depends-on", default="", metavar="ID,...", help="what must be completed before")
    add("--accept", action="append", default=[], metavar="TEXT", help="what must hold in the end; repeatable")
    add("--body", metavar="TEXT", help="what is to be done")
    add("--body-file", metavar="FILE", help="the same from a file, - for stdin")
    add("--intent", default="", metavar="WORD", help="implement, review, test, fix ...")
    add("--risk", default="", metavar="WORD", help="low, medium, high")
    add("--priority", choices=PRIORITIES, default="normal")
    add(
        "--review", choices=REVIEWS, default="none", help="whether somebody else must approve (default: none)"
    )
    add("--reviewers", default="", metavar="NAME,...", help="who is asked to; asks for a review")
    add(
        "--max-attempts",
        type=whole(1, 1000),
        default=MAX_RUNS,
        metavar="N",
        help="failed after so many runs (default: 3)",
    )
    add(
        "--retry-delays",
        default="30,120,600",
        metavar="S,...",
        help="seconds before the next run (default: 30,120,600)",
    )
    add("--on-failed-dependency", choices=POLICIES, default="wait", help="what it does then (default: wait)")
    add("--dry-run", action="store_true", help="only say what would become of it")
    _run(parser)


def _list(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--status", default="", metavar="LIST", help="ready, in_progress, failed ... (default: any)")
    add("--owner", metavar="NAME", help="whose they are")
    add("--stuck", action="store_true", help="only those that wait for something that failed")
    add("--limit", type=whole(1, _MOST), default=1000, metavar="N", help="at most so many (default: 1000)")
    _run(parser)


def _graph(parser: CommandParser) -> None:
    parser.add_argument("--mermaid", action="store_true", help="for Mermaid, as GitHub and editors draw it")
    _run(parser)


def _claim(parser: CommandParser) -> None:
    _task(parser, "?", "the task (default: the most urgent that is ready for me)")
    parser.add_argument(
        "--lease-seconds",
        type=number(MAX_SECONDS, zero=False),
        default=DEFAULT_LEASE_SECONDS,
        metavar="S",
        help="believed without a sign of life (default: 300)",
    )
    _version(parser)


def _said(parser: CommandParser, *also: str) -> None:
    message_options(parser, *also)
    parser.add_argument(
        "--token", metavar="LEASE", help="the lease (default: $JOBWIRE_LEASE, else what claim kept)"
    )


def _complete(parser: CommandParser) -> None:
    _task(parser)
    _said(parser)
    parser.add_argument(
        "--branch", default="", metavar="NAME", help="what is to be merged once it is approved"
    )
    _version(parser)


def _fail(parser: CommandParser) -> None:
    _task(parser)
    _said(parser, "--reason")
    parser.add_argument("--permanent", action="store_true", help="no retry mends it: failed at once")
    _version(parser)


def _review(parser: CommandParser) -> None:
    parser.add_argument("verdict", choices=("approve", "reject"), help="what you think of it")
    _task(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, on one line; needed to reject")
    _version(parser)


def _show(parser: CommandParser) -> None:
    _task(parser)


def _merge(parser: CommandParser) -> None:
    _task(parser)
    _version(parser)


def _retry(parser: CommandParser) -> None:
    _task(parser)
    parser.add_argument("--force", action="store_true", help="beyond the third time")
    _version(parser)


def _cancel(parser: CommandParser) -> None:
    _task(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, on one line")
    _version(parser)


def _import(parser: CommandParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="the plan: .md, .yaml or .json; - for Markdown from stdin")
    add("--dry-run", action="store_true", help="only check it, and show the graph")
    _run(parser)


_TABLE: tuple[Row, ...] = (
    ("add", "add a task", '--agent lead --title "fix the parser" --owner builder --depends-on T1', _add),
    (
        "import",
        "add the tasks of a plan, all or none; again is no error",
        "plan.md --agent lead --dry-run",
        _import,
    ),
    ("list", "the tasks and where they are", "--status ready,in_review", _list),
    ("show", "one task: what it waits for, its runs", "T2", _show),
    ("graph", "what waits for what", "--mermaid", _graph),
    ("claim", "take a task that is ready, for nobody but me", "T2 --agent builder", _claim),
    ("complete", "my task is done: the result", 'T2 --agent builder --summary "it works"', _complete),
    (
        "fail",
        "my run of a task failed: why; it is tried again",
        'T2 --agent builder --summary "no disk"',
        _fail,
    ),
    (
        "review",
        "approve another's work, or send it back",
        'reject T2 --agent lead --reason "no test"',
        _review,
    ),
    ("merge", "approved work is merged: the task is completed", "T2 --agent lead", _merge),
    ("retry", "open a failed or cancelled task again, or end its delay", "T2 --agent lead", _retry),
    ("cancel", "a task is no longer wanted", 'T2 --agent lead --reason "done elsewhere"', _cancel),
)
VERBS = verbs_of(PROG, _TABLE, runs="tasks.actions:task_")
TASKS = VerbTable(PROG, SUMMARY, "Tasks that wait for each other: what is ready goes to its owner.", VERBS)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `tasks` to `jobwire`."""
    TASKS.add_to(commands)
