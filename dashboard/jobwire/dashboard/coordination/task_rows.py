"""A task as a row: its state, what it waits for. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.coordination.tasks.stored import READY, TaskView
from jobwire.dashboard.coordination.thread_rows import cut

STUCK = "stuck"
#: Every state; in this order they are listed: what needs somebody first.
ORDER = ("failed", STUCK, "in_review", "approved", "in_progress", READY, "pending", "completed", "cancelled")


class TaskRow(NamedTuple):
    """One task for a table and a node of the graph. Times in epoch seconds."""

    id: str
    status: str
    title: str
    owner: str
    worker: str
    priority: str
    needs: tuple[str, ...]
    waits: Mapping[str, object] | None
    job: str
    jobs: int
    thread: str
    failures: int
    most: int
    reason: str
    since: float
    not_before: float
    branch: str
    number: int
    version: int


def task_row(view: TaskView, now_ms: int) -> TaskRow:
    """Return the row of a task at this time."""
    task = view.task
    return TaskRow(
        task.task_id,
        STUCK if task.stuck else view.status(now_ms),
        cut(task.title),
        cut(task.owner),
        cut(task.worker),
        task.priority,
        view.needs,
        task.waiting(now_ms, view.missing),
        view.jobs[-1] if view.jobs else "",
        len(view.jobs),
        task.thread_id,
        task.failures,
        task.max_attempts,
        cut(task.reason),
        task.since_ms / 1000,
        task.not_before_ms / 1000 if task.not_before_ms > now_ms else 0.0,
        cut(task.branch),
        task.number,
        task.version,
    )
