"""`jobwire tasks ...`: a plan of tasks that wait for each other."""

from __future__ import annotations

from jobwire.coordination.message import PRIORITIES
from jobwire.coordination.tasks.new_task import MAX_RUNS, POLICIES, REVIEWS
from jobwire.coordination.verb_options import ACCEPT, LEASE, MESSAGE, RUN, limit, message, opt
from jobwire.coordination.verbs import Row, VerbTable, verbs_of
from jobwire.core.argument_types import whole

_TASK = (opt("task", metavar="TASK", help="the task's id"), RUN)
_VERSION = opt(
    "--expect-version", type=whole(1, 2**53 - 1), metavar="N", help="only if nobody has changed it since"
)
_TOKEN = opt("--token", metavar="LEASE", help="the lease (default: $JOBWIRE_LEASE, else what claim kept)")
_ADD = (
    opt("--title", required=True, metavar="TEXT", help="one line"),
    opt("--task", default="", metavar="ID", help="its id (default: T and a number)"),
    opt("--owner", default="", metavar="NAME", help="who works on it (default: whoever claims it)"),
    opt("--depends-on", default="", metavar="ID,...", help="what must be completed before"),
    ACCEPT,
    opt("--body", metavar="TEXT", help="what is to be done"),
    opt("--body-file", metavar="FILE", help="the same from a file, - for stdin"),
    opt("--intent", default="", metavar="WORD", help="implement, review, test, fix ..."),
    opt("--risk", default="", metavar="WORD", help="low, medium, high"),
    opt("--priority", choices=PRIORITIES, default="normal"),
    opt(
        "--review", choices=REVIEWS, default="none", help="whether somebody else must approve (default: none)"
    ),
    opt("--reviewers", default="", metavar="NAME,...", help="who is asked to; asks for a review"),
    opt(
        "--max-attempts",
        type=whole(1, 1000),
        default=MAX_RUNS,
        metavar="N",
        help="failed after so many runs (default: 3)",
    ),
    opt(
        "--retry-delays",
        default="30,120,600",
        metavar="S,...",
        help="seconds before the next run (default: 30,120,600)",
    ),
    opt("--on-failed-dependency", choices=POLICIES, default="wait", help="what it does then (default: wait)"),
    opt("--dry-run", action="store_true", help="only say what would become of it"),
    RUN,
)
_IMPORT = (
    opt("file", metavar="FILE", help="the plan: .md, .yaml or .json; - for Markdown from stdin"),
    opt("--dry-run", action="store_true", help="only check it, and show the graph"),
    RUN,
)
_LIST = (
    opt("--status", default="", metavar="LIST", help="ready, in_progress, failed ... (default: any)"),
    opt("--owner", metavar="NAME", help="whose they are"),
    opt("--stuck", action="store_true", help="only those that wait for something that failed"),
    limit(1000),
    RUN,
)
_GRAPH = (opt("--mermaid", action="store_true", help="for Mermaid, as GitHub and editors draw it"), RUN)
_CLAIM = (
    opt("task", metavar="TASK", nargs="?", help="the task (default: the most urgent that is ready for me)"),
    RUN,
    LEASE,
    _VERSION,
)
_COMPLETE = (
    *_TASK,
    *MESSAGE,
    _TOKEN,
    opt("--branch", default="", metavar="NAME", help="what is to be merged once it is approved"),
    _VERSION,
)
_FAIL = (
    *_TASK,
    *message("--reason"),
    _TOKEN,
    opt("--permanent", action="store_true", help="no retry mends it: failed at once"),
    _VERSION,
)
_REVIEW = (
    opt("verdict", choices=("approve", "reject"), help="what you think of it"),
    *_TASK,
    opt("--reason", default="", metavar="TEXT", help="why, on one line; needed to reject"),
    _VERSION,
)
_CANCEL = (*_TASK, opt("--reason", default="", metavar="TEXT", help="why, on one line"), _VERSION)
_RETRY = (*_TASK, opt("--force", action="store_true", help="beyond the third time"), _VERSION)
_TABLE: tuple[Row, ...] = (
    ("add", "add a task", '--agent lead --title "fix the parser" --owner builder --depends-on T1', _ADD),
    (
        "import",
        "add the tasks of a plan, all or none; again is no error",
        "plan.md --agent lead --dry-run",
        _IMPORT,
    ),
    ("list", "the tasks and where they are", "--status ready,in_review", _LIST),
    ("show", "one task: what it waits for, its runs", "T2", _TASK),
    ("graph", "what waits for what", "--mermaid", _GRAPH),
    ("claim", "take a task that is ready, for nobody but me", "T2 --agent builder", _CLAIM),
    ("complete", "my task is done: the result", 'T2 --agent builder --summary "it works"', _COMPLETE),
    (
        "fail",
        "my run of a task failed: why; it is tried again",
        'T2 --agent builder --summary "no disk"',
        _FAIL,
    ),
    (
        "review",
        "approve another's work, or send it back",
        'reject T2 --agent lead --reason "no test"',
        _REVIEW,
    ),
    ("merge", "approved work is merged: the task is completed", "T2 --agent lead", (*_TASK, _VERSION)),
    ("retry", "open a failed or cancelled task again, or end its delay", "T2 --agent lead", _RETRY),
    (
        "cancel",
        "a task is no longer wanted",
        'T2 --agent lead --reason "done elsewhere"',
        _CANCEL,
    ),
)
_AT_HOME = {"tasks.actions:task_{}": "import graph"}
VERBS = verbs_of("jobwire tasks", _TABLE, runs="verb:task-{}", but=_AT_HOME)
TASKS = VerbTable("tasks", "Tasks that wait for each other: what is ready goes to its owner.", VERBS)
