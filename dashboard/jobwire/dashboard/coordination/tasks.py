"""Tasks of a run with what waits for what, read from the store: what needs somebody first."""

from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.stored import READY, TaskView, task_of, view_of
from jobwire.dashboard.foreign import cut

STUCK = "stuck"
#: Every state; in this order they are listed: what needs somebody first.
ORDER = ("failed", STUCK, "in_review", "approved", "in_progress", READY, "pending", "completed", "cancelled")
# Tasks that are sent at first, and at most.
SHOWN = 200
MOST_SHOWN = 5000
_MOST_RUNS = 200


def task_page(
    store: CoordinationStore, run: str, now: float, *, state: str, limit: int = SHOWN
) -> dict[str, object]:
    """Return the first tasks of a run, of one state if one is named; without a run those of the newest one.

    What needs somebody comes first. `found` is how many there are, and `limit` how many are sent at most.
    """
    limit = min(limit, MOST_SHOWN)
    now_ms = int(now * 1000)
    with store.reading():
        runs = [str(name) for (name,) in store.rows("runs_of_tasks", {"limit": _MOST_RUNS})]
        run = run or (runs[0] if runs else "")
        values = {
            "run_id": run,
            "now_ms": now_ms,
            "state": state,
            "limit": limit,
            "order": f",{','.join(ORDER)},",
        }
        counts = dict.fromkeys(ORDER, 0) | dict(store.rows("task_counts", values))
        tasks = [task_of(store, run, task_id) for (task_id,) in store.rows("arranged_tasks", values)]
        rows = [task_row(view_of(store, task), now_ms) for task in tasks]
    found = counts.get(state, 0) if state else sum(counts.values())
    return {
        "run": run,
        "runs": runs,
        "tasks": rows,
        "counts": counts | {"all": sum(counts.values())},
        "found": found,
        "more": min(found, MOST_SHOWN) > len(rows),
    }


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
