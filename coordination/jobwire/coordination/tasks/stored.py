"""Tasks as the store gives them back, and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.tasks.states import Task, TaskStatus
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.coordination.store import CoordinationStore, Transaction

# The words that stand as JSON arrays in their columns.
_LISTS = ("acceptance", "reviewers", "retry_delays")
# How the store counts and orders tasks: nobody else is told.
_WITHIN = frozenset({"number", "created_ms", "open_deps", "failed_deps", "rounds", "changed"})
READY = "ready"


class TaskRun(NamedTuple):
    """One run of a task: its job, and what became of it. `ended_ms` is None while it goes on."""

    job_id: str
    agent_id: str
    began_ms: int
    ended_ms: int | None
    outcome: str
    reason: str

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "job_id": self.job_id,
            "agent": self.agent_id,
            "began_at": utc_timestamp(self.began_ms / 1000),
            "ended_at": None if self.ended_ms is None else utc_timestamp(self.ended_ms / 1000),
            "outcome": self.outcome,
            "reason": self.reason,
        }


class TaskView(NamedTuple):
    """A task with its place in the graph: what it needs, what of that is open, its jobs in their order."""

    task: Task
    needs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    def status(self, now_ms: int) -> str:
        """Return its state; `ready` for a pending one that may be claimed now."""
        return READY if self.task.due(now_ms) else str(self.task.status)

    def to_json(self, now_ms: int) -> dict[str, object]:
        """Return it as commands print it."""
        task = self.task
        said = {name: value for name, value in task._asdict().items() if name not in _WITHIN}
        return {
            **said,
            **{name: list(said[name]) for name in _LISTS},
            "depends_on": list(self.needs),
            "status": self.status(now_ms),
            "ready": task.due(now_ms),
            "stuck": task.stuck,
            "waiting": task.waiting(now_ms, self.missing),
            "job_id": self.jobs[-1] if self.jobs else None,
            "jobs": list(self.jobs),
            "dropped": bool(task.dropped),
            "created_at": utc_timestamp(task.created_ms / 1000),
        }


def task_from(row: tuple[object, ...]) -> Task:
    """Return the task of a row."""
    task = Task(*row)  # type: ignore[arg-type]  # the tables are STRICT
    lists = {name: tuple(json.loads(str(getattr(task, name)))) for name in _LISTS}
    return task._replace(status=TaskStatus(task.status), **lists)  # type: ignore[arg-type]  # as above


def task_of(reader: CoordinationStore | Transaction, run_id: str, task_id: str) -> Task:
    """Return the task; raises NotFoundError (task_not_found)."""
    for row in reader.rows("task", {"run_id": storable(run_id), "task_id": storable(task_id)}):
        return task_from(row)
    raise NotFoundError(
        f"run {run_id} has no task {task_id!r}",
        hint="`jobwire tasks list` shows them; --run names another run",
        code="task_not_found",
    )


def task_of_thread(reader: CoordinationStore | Transaction, thread_id: str) -> Task | None:
    """Return the task that the thread works on, None where it is another kind of thread."""
    rows = reader.rows("task_of_thread", {"thread_id": thread_id})
    return task_from(rows[0]) if rows else None


def dependants_of(reader: CoordinationStore | Transaction, task: Task) -> list[Task]:
    """Return the tasks that wait for this one, in the order of addition."""
    return [task_from(row) for row in reader.rows("dependants_of", task._asdict())]


def missing_of(reader: CoordinationStore | Transaction, task: Task) -> tuple[str, ...]:
    """Return the dependencies that are not completed."""
    rows = reader.rows("needs_of", task._asdict())
    return tuple(name for name, status in rows if status != TaskStatus.COMPLETED)


def view_of(reader: CoordinationStore | Transaction, task: Task) -> TaskView:
    """Return the task with its place in the graph."""
    needs = reader.rows("needs_of", task._asdict())
    missing = tuple(name for name, status in needs if status != TaskStatus.COMPLETED)
    jobs = tuple(one.job_id for one in runs_of(reader, task))
    return TaskView(task, tuple(name for name, _ in needs), missing, jobs)


def runs_of(reader: CoordinationStore | Transaction, task: Task) -> list[TaskRun]:
    """Return the task's runs, in their order."""
    return [TaskRun(*row) for row in reader.rows("task_runs", task._asdict())]


def views_of(reader: CoordinationStore | Transaction, run_id: str, tasks: Iterable[Task]) -> list[TaskView]:
    """Return these tasks of a run with their places in its graph."""
    needs: dict[str, list[str]] = {}
    jobs: dict[str, list[str]] = {}
    for found, query in ((needs, "needs_of_run"), (jobs, "jobs_of_tasks")):
        for task_id, other in reader.rows(query, {"run_id": run_id}):
            found.setdefault(task_id, []).append(other)
    completed = {row[0] for row in reader.rows("completed_tasks", {"run_id": run_id})}
    return [
        TaskView(
            task,
            tuple(needs.get(task.task_id, ())),
            tuple(one for one in needs.get(task.task_id, ()) if one not in completed),
            tuple(jobs.get(task.task_id, ())),
        )
        for task in tasks
    ]


def all_tasks(reader: CoordinationStore | Transaction, run_id: str) -> list[Task]:
    """Return the run's tasks in the order of addition."""
    return [task_from(row) for row in reader.rows("tasks_of_run", {"run_id": storable(run_id)})]


def storable(text: str) -> str:
    """Return a name as a query takes it: SQLite takes no half of a surrogate pair."""
    return text.encode(errors="replace").decode()
