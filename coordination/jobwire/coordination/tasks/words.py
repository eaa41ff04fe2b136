"""Tasks in words, from what programs are told of them: the same at home and by a ticket. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.core.clock import utc_timestamp
from jobwire.core.terminal_text import safe, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TaskJson = dict[str, Any]
_HEADER = ("TASK", "STATUS", "OWNER", "PRIORITY", "RUNS", "WAITS FOR", "TITLE")


def task_table(found: Sequence[TaskJson]) -> str:
    """Return tasks as lines of a table."""
    if not found:
        return "there are no such tasks"
    rows = [
        (
            task["task_id"],
            task["status"] + (" (stuck)" if task["stuck"] else ""),
            task["owner"] or "anybody",
            task["priority"],
            str(len(task["jobs"])),
            "-" if task["ready"] else _awaited(task) or "-",
            task["title"],
        )
        for task in found
    ]
    return "\n".join(table([_HEADER, *rows], None))


def task_page(task: TaskJson, runs: Iterable[TaskJson]) -> str:
    """Return one task with its runs."""
    delayed = (task["waiting"] or {}).get("on") == "retry"
    facts = {
        "owner": task["owner"] or "anybody",
        "worker": task["worker"],
        "depends on": ", ".join(task["depends_on"]),
        "waits for": _awaited(task),
        "not before": utc_timestamp(task["not_before_ms"] / 1000) if delayed else "",
        "review": f"{task['review']} {', '.join(task['reviewers'])}".strip()
        if task["review"] != "none"
        else "",
        "to merge": task["branch"],
        "failed runs": f"{task['failures']} of {task['max_attempts']}" if task["failures"] else "",
        "why": task["reason"],
        "thread": task["thread_id"],
        "version": str(task["version"]),
    }
    lines = [f"{task['task_id']}  {task['title']}  [{task['status']}]"]
    lines += [f"  {name}: {value}" for name, value in facts.items() if value]
    lines += [f"  accept: {one}" for one in task["acceptance"]]
    lines += [f"  {one}" for one in task["text"].splitlines()]
    for count, run in enumerate(runs, 1):
        outcome = f"{run['outcome'] or 'under way'}  {run['reason']}"
        lines.append(f"  run {count}: job {run['job_id']} by {run['agent']}, {outcome}")
    return "\n".join(map(safe, lines))


def claimed_words(task: TaskJson, until: str) -> str:
    """Return what is said of a task that was claimed."""
    return safe(f"task {task['task_id']} is yours until {until}")


def moved_words(task: TaskJson) -> str:
    """Return what is said of a task that was worked on, reviewed or otherwise moved."""
    if (task["waiting"] or {}).get("on") == "retry":
        return safe(
            f"task {task['task_id']} is tried again after {utc_timestamp(task['not_before_ms'] / 1000)}"
        )
    return safe(f"task {task['task_id']} is {task['status']}")


def _awaited(task: TaskJson) -> str:
    waiting = task["waiting"]
    if waiting is None:
        return ""
    return f"{waiting['on'].replace('_', ' ')} {waiting['ref'].replace(',', ', ')}".rstrip()
