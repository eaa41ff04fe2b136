"""Tasks of a run with what waits for what, read from the store."""

from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.stored import all_tasks, views_of
from jobwire.dashboard.coordination.task_rows import arrange_tasks, count_tasks, task_row

# Tasks that are read for one answer, and those of them that are sent: what needs somebody comes first.
MOST_TASKS = 10_000
MOST_SHOWN = 300
_MOST_RUNS = 200


def task_page(store: CoordinationStore, run: str, now: float, *, state: str) -> dict[str, object]:
    """Return the tasks of a run, of one state if one is named; without a run those of the newest one."""
    with store.reading():
        runs = [str(name) for (name,) in store.rows("runs_of_tasks", {"limit": _MOST_RUNS})]
        run = run or (runs[0] if runs else "")
        tasks = all_tasks(store, run, limit=MOST_TASKS)
        rows = arrange_tasks(task_row(view, int(now * 1000)) for view in views_of(store, run, tasks))
    shown = [row for row in rows if state in {"", row.status}]
    return {
        "run": run,
        "runs": runs,
        "tasks": [row._asdict() for row in shown[:MOST_SHOWN]],
        "counts": count_tasks(rows) | {"all": len(rows)},
        "found": len(shown),
        "more": len(tasks) == MOST_TASKS,
    }
