"""What the verbs of `jobwire tasks` do with a whole plan; the others are those of agents."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from jobwire.coordination.command import who_am_i
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.places import open_store, open_to_read
from jobwire.coordination.tasks.graph import mermaid, text_graph
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from jobwire.coordination.tasks.adding import Added

MAX_PLAN = 16 * 1024 * 1024
_FORMATS = {".md": "markdown", ".markdown": "markdown", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}


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


def task_graph(args: Namespace) -> int:
    """Draw the tasks of a run."""
    store = open_to_read(args)
    now_ms = store.now_ms
    views = Tasks(store, STORE_AGENT).graph(args.run_id)
    drawn = mermaid(views, now_ms) if args.mermaid else text_graph(views, now_ms)
    body = {
        "graph": drawn,
        "format": "mermaid" if args.mermaid else "text",
        "tasks": [view.to_json(now_ms) for view in views],
        "event_id": store.latest_event(),
    }
    say(args, body, drawn)
    return 0


def _tasks(args: Namespace) -> Tasks:
    return Tasks(open_store(args), who_am_i(args))


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
