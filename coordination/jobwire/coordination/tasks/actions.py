"""What the verbs of `jobwire tasks` do: arguments in, one call of the library, one object or words out."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from jobwire.coordination.actions import body_of, said
from jobwire.coordination.command import incarnation, say, who_am_i
from jobwire.coordination.message import NewMessage, split_words
from jobwire.coordination.places import open_store, open_to_read
from jobwire.coordination.tasks.drawing import mermaid, text_graph
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.states import TaskStatus
from jobwire.coordination.tasks.stored import READY, view_of
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.tasks.words import task_page, task_table
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.told import at_most

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.tasks.adding import Added
    from jobwire.coordination.tasks.states import Task

_WORDS = frozenset({READY, *map(str, TaskStatus)})
_NOBODY = "jobwire"
MAX_PLAN = 16 * 1024 * 1024
_FORMATS = {".md": "markdown", ".markdown": "markdown", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}


def task_add(args: Namespace) -> int:
    """Add a task."""
    tasks = _tasks(args)
    new = NewTask(
        args.title,
        args.task,
        args.run_id,
        body_of(args),
        args.owner,
        args.intent,
        args.risk,
        args.priority,
        tuple(args.accept),
        split_words(args.depends_on),
        args.review,
        split_words(args.reviewers),
        args.max_attempts,
        _delays(args.retry_delays),
        args.on_failed_dependency,
    )
    added = tasks.add_all([new], dry_run=args.dry_run)[0]
    view, now_ms = added.view, tasks.store.now_ms
    body = {
        "task": view.to_json(now_ms),
        "duplicate": added.duplicate,
        "dry_run": args.dry_run,
        "event_id": tasks.store.latest_event(),
    }
    words = "is there already" if added.duplicate else "would be" if args.dry_run else "is"
    say(args, body, f"task {view.task.task_id} {words} {view.status(now_ms)}")
    return 0


def task_import(args: Namespace) -> int:
    """Add the tasks of a plan."""
    from jobwire.coordination.tasks.plan_file import tasks_in  # noqa: PLC0415 - once a plan

    tasks = _tasks(args)
    news = tasks_in(_plan_text(args.file), args.run_id, _format_of(args.file))
    added = tasks.add_all(news, dry_run=args.dry_run)
    fresh = sum(not one.duplicate for one in added)
    now_ms = tasks.store.now_ms
    views = [one.view for one in added]
    body = {
        "added": fresh,
        "duplicates": len(added) - fresh,
        "dry_run": args.dry_run,
        "tasks": [view.to_json(now_ms) for view in views],
        "event_id": tasks.store.latest_event(),
    }
    say(args, body, lambda: _imported(args, added, now_ms))
    return 0


def task_list(args: Namespace) -> int:
    """List the tasks of a run."""
    wanted = split_words(args.status)
    for word in wanted:
        if word not in _WORDS:
            raise InvalidInputError(f"status is {word!r}", hint=f"one of {', '.join(sorted(_WORDS))}")
    store = open_to_read(args)
    now_ms = store.now_ms
    found = Tasks(store, _NOBODY).listed(
        args.run_id, statuses=wanted, owner=args.owner, stuck=args.stuck, limit=args.limit + 1
    )
    told = [view.to_json(now_ms) for view in at_most(args, found)]
    body = {"tasks": told, "event_id": store.latest_event()}
    say(args, body, lambda: task_table(told))
    return 0


def task_show(args: Namespace) -> int:
    """Show one task with its runs."""
    store = open_to_read(args)
    tasks = Tasks(store, _NOBODY)
    told = tasks.get(args.task, args.run_id).to_json(store.now_ms)
    runs = [one.to_json() for one in tasks.runs(args.task, args.run_id)]
    body = {"task": told, "runs": runs, "event_id": store.latest_event()}
    say(args, body, lambda: task_page(told, runs))
    return 0


def task_graph(args: Namespace) -> int:
    """Draw the tasks of a run."""
    store = open_to_read(args)
    now_ms = store.now_ms
    views = Tasks(store, _NOBODY).graph(args.run_id)
    drawn = mermaid(views, now_ms) if args.mermaid else text_graph(views, now_ms)
    body = {
        "graph": drawn,
        "format": "mermaid" if args.mermaid else "text",
        "tasks": [view.to_json(now_ms) for view in views],
        "event_id": store.latest_event(),
    }
    say(args, body, drawn)
    return 0


def task_claim(args: Namespace) -> int:
    """Claim a task."""
    tasks = _tasks(args)
    if args.task is None:
        task, claimed = tasks.claim_next(args.run_id, seconds=args.lease_seconds)
    else:
        task, claimed = tasks.claim(
            args.task, args.run_id, seconds=args.lease_seconds, expect_version=args.expect_version
        )
    more = {
        "lease_token": str(claimed.token),
        "expires_at": claimed.expires_at,
        "event_id": claimed.event_id,
    }
    return _say_task(args, tasks.store, task, f"is yours until {claimed.expires_at}", **more)


def task_complete(args: Namespace) -> int:
    """Say that a task is done."""
    new = said(args, NewMessage(who_am_i(args), kind="result"))
    if args.branch:
        if new.payload is not None:
            raise InvalidInputError("--branch beside --payload-json", hint='put "branch" into the payload')
        from json import dumps  # noqa: PLC0415 - few name a branch

        new = new._replace(payload=dumps({"branch": args.branch}))
    tasks = _tasks(args)
    task, worded = tasks.complete(
        args.task, new, args.run_id, token=args.token, expect_version=args.expect_version
    )
    return _say_task(args, tasks.store, task, f"is {task.status}", **worded.posted._asdict())


def task_fail(args: Namespace) -> int:
    """Say that a run of a task failed."""
    tasks = _tasks(args)
    task, worded = tasks.fail(
        args.task,
        said(args, NewMessage(who_am_i(args), kind="result")),
        args.run_id,
        token=args.token,
        permanent=args.permanent,
        expect_version=args.expect_version,
    )
    wait = max(0, task.not_before_ms - tasks.store.now_ms) / 1000
    words = f"is {task.status}" if task.ended else f"is tried again in {wait:.0f} s"
    return _say_task(args, tasks.store, task, words, **worded.posted._asdict())


def task_review(args: Namespace) -> int:
    """Approve work, or send it back."""
    tasks = _tasks(args)
    task = tasks.review(
        args.task,
        args.run_id,
        approve=args.verdict == "approve",
        reason=args.reason,
        expect_version=args.expect_version,
    )
    back = f"goes back to {task.worker}"
    return _say_task(args, tasks.store, task, f"is {task.status}" if args.verdict == "approve" else back)


def task_merge(args: Namespace) -> int:
    """Say that approved work is merged."""
    tasks = _tasks(args)
    task = tasks.merge(args.task, args.run_id, expect_version=args.expect_version)
    return _say_task(args, tasks.store, task, f"is {task.status}")


def task_retry(args: Namespace) -> int:
    """Open a task again."""
    tasks = _tasks(args)
    task = tasks.retry(args.task, args.run_id, force=args.force, expect_version=args.expect_version)
    return _say_task(args, tasks.store, task, "is open again")


def task_cancel(args: Namespace) -> int:
    """Cancel a task."""
    tasks = _tasks(args)
    task = tasks.cancel(args.task, args.reason, args.run_id, expect_version=args.expect_version)
    return _say_task(args, tasks.store, task, f"is {task.status}")


def _tasks(args: Namespace) -> Tasks:
    return Tasks(open_store(args), who_am_i(args), incarnation=incarnation())


def _say_task(args: Namespace, store: CoordinationStore, task: Task, words: str, **more: object) -> int:
    with store.reading():
        view = view_of(store, task)
        thread = next(iter(store.rows("thread", {"thread_id": task.thread_id})), None)
        body = {"event_id": store.latest_event(), **more, "task": view.to_json(store.now_ms)}
    if thread is not None:
        body["thread_id"] = task.thread_id
    say(args, body, f"task {task.task_id} {words}")
    return 0


def _imported(args: Namespace, added: Sequence[Added], now_ms: int) -> str:
    fresh = sum(not one.duplicate for one in added)
    verb = "would be added" if args.dry_run else "added"
    drawn = text_graph([one.view for one in added], now_ms)
    return f"{drawn}\n\n{fresh} tasks {verb}, {len(added) - fresh} were there"


def _format_of(path: str) -> str:
    if path == "-":
        return "markdown"
    ending = os.path.splitext(path)[1].lower()
    if ending not in _FORMATS:
        raise InvalidInputError(
            f"{path}: a plan is .md, .yaml or .json", hint="rename it, or write - for stdin"
        )
    return _FORMATS[ending]


def _plan_text(path: str) -> str:
    from jobwire.storage.named_files import read_named_file  # noqa: PLC0415 - as above

    if path == "-":
        raw = sys.stdin.buffer.read(MAX_PLAN + 1)
    else:
        try:
            raw = read_named_file(path, "plan", limit=MAX_PLAN)
        except FileNotFoundError as error:
            raise NotFoundError(
                f"there is no plan {path}", hint="is its path right?", code="not_found"
            ) from error
    if len(raw) > MAX_PLAN:
        raise InvalidInputError(f"the plan has more than {MAX_PLAN} bytes", code="too_large")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the plan is not valid UTF-8", hint="is it a text file?") from error


def _delays(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(one) for one in split_words(text))
    except ValueError as error:
        raise InvalidInputError(f"retry delays are {text[:80]!r}", hint="seconds: 30,120,600") from error
    return found
