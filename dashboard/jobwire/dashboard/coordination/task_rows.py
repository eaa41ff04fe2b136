"""A task as a row: its state, what it waits for. Pure."""

from jobwire.coordination.tasks.stored import READY, TaskView
from jobwire.dashboard.coordination.thread_rows import cut

STUCK = "stuck"
#: Every state; in this order they are listed: what needs somebody first.
ORDER = ("failed", STUCK, "in_review", "approved", "in_progress", READY, "pending", "completed", "cancelled")


def task_row(view: TaskView, now_ms: int) -> dict[str, object]:
    """Return a task for a table and a node of the graph, at this time. Times in epoch seconds."""
    task = view.task
    return {
        "id": task.task_id,
        "status": STUCK if task.stuck else view.status(now_ms),
        "title": cut(task.title),
        "owner": cut(task.owner),
        "worker": cut(task.worker),
        "priority": task.priority,
        "needs": view.needs,
        "waits": task.waiting(now_ms, view.missing),
        "job": view.jobs[-1] if view.jobs else "",
        "jobs": len(view.jobs),
        "thread": task.thread_id,
        "failures": task.failures,
        "most": task.max_attempts,
        "reason": cut(task.reason),
        "since": task.since_ms / 1000,
        "not_before": task.not_before_ms / 1000 if task.not_before_ms > now_ms else 0.0,
        "branch": cut(task.branch),
        "number": task.number,
        "version": task.version,
    }
