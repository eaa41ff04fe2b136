"""Adding tasks: all of them or none, each once, and never a circle."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.tasks import graph
from jobwire.coordination.tasks.moving import give, lose, put, tell
from jobwire.coordination.tasks.new_task import MAX_ADDED, NewTask, check_new_task
from jobwire.coordination.tasks.states import LOST, Task, TaskStatus, outcome_of
from jobwire.coordination.tasks.stored import TaskView, task_from, task_of, view_of
from jobwire.core.errors import ConflictError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobwire.coordination.store import CoordinationStore, Transaction

_SAID = (
    "title",
    "text",
    "owner",
    "intent",
    "risk",
    "priority",
    "acceptance",
    "review",
    "reviewers",
    "max_attempts",
    "retry_delays",
    "on_failed_dependency",
)
_SHOWN = 20
_OTHER = "give the new one an id of its own; what is planned stays as it was added"


class Added(NamedTuple):
    """A task that is in the plan: `duplicate` where it was before."""

    view: TaskView
    duplicate: bool = False


class EndedTask(NamedTuple):
    """How a task that is added ended before it was: completed or failed, by whom, and why."""

    status: TaskStatus
    worker: str = ""
    reason: str = ""


class _DryRun(Exception):  # noqa: N818 - undoes the transaction, and never leaves this module
    def __init__(self, added: list[Added]) -> None:
        super().__init__()
        self.added = added


def add_all(
    store: CoordinationStore,
    agent: str,
    news: Sequence[NewTask],
    *,
    dry_run: bool = False,
    ended: Mapping[str, EndedTask] | None = None,
) -> list[Added]:
    """Add tasks of one run together, in one transaction; see `Tasks.add_all`."""
    if len(news) > MAX_ADDED:
        raise InvalidInputError(f"{len(news)} tasks at once, {MAX_ADDED} are allowed", code="too_large")
    checked = [check_new_task(new) for new in news]
    if len({new.run_id for new in checked}) > 1:
        raise InvalidInputError("tasks of several runs at once", hint="add those of one run together")
    try:
        with store.changing() as change:
            return _add(change, agent, checked, ended or {}, dry_run=dry_run)
    except _DryRun as undone:
        return undone.added


def _add(
    change: Transaction, agent: str, news: list[NewTask], ended: Mapping[str, EndedTask], *, dry_run: bool
) -> list[Added]:
    news = _named(change, news)
    known = _known(change, news)
    _check_graph(news, known)
    fresh = [new for new in news if new.task_id not in known]
    first = _last_number(change, news) + 1
    completed = {one for one, how in ended.items() if how.status is TaskStatus.COMPLETED}
    completed |= {one for one, task in known.items() if task.status is TaskStatus.COMPLETED}
    completed -= {one for one, task in known.items() if task.status is not TaskStatus.COMPLETED}
    for number, new in enumerate(fresh, first):
        _insert(change, agent, new, number, completed)
    change.execute_many(
        "insert_need",
        [{"run_id": new.run_id, "task_id": new.task_id, "needs": one} for new in fresh for one in new.needs],
    )
    _end(change, agent, {new.task_id: ended[new.task_id] for new in fresh if new.task_id in ended}, news)
    for new in fresh:
        _begin(change, task_of(change, new.run_id, new.task_id), new, known)
    is_fresh = {new.task_id for new in fresh}
    added = [
        Added(view_of(change, task_of(change, new.run_id, new.task_id)), new.task_id not in is_fresh)
        for new in news
    ]
    if dry_run:
        raise _DryRun(added)
    return added


def _named(change: Transaction, news: list[NewTask]) -> list[NewTask]:
    """Return the tasks with ids: `T` and a number for those that were given none."""
    taken = {new.task_id for new in news if new.task_id}
    if len(taken) < sum(1 for new in news if new.task_id):
        twice = next(one for one in taken if sum(new.task_id == one for new in news) > 1)
        raise InvalidInputError(f"task {twice} is there twice", hint="each has an id of its own")
    number = _last_number(change, news)
    named: list[NewTask] = []
    for new in news:
        task_id = new.task_id
        while not task_id:
            number += 1
            candidate = f"T{number}"
            values = {"run_id": new.run_id, "task_id": candidate}
            if candidate not in taken and change.row("task", values) is None:
                task_id = candidate
        named.append(new._replace(task_id=task_id))
    return named


def _last_number(change: Transaction, news: list[NewTask]) -> int:
    run_id = news[0].run_id if news else ""
    return int(change.rows("last_task_number", {"run_id": run_id})[0][0])


def _known(change: Transaction, news: list[NewTask]) -> dict[str, Task]:
    """Return the tasks that are there of those that are added or needed; refuses another under an id."""
    known: dict[str, Task] = {}
    for new in news:
        for task_id in (new.task_id, *new.needs):
            row = change.row("task", {"run_id": new.run_id, "task_id": task_id})
            if row is not None and task_id not in known:
                known[task_id] = task_from(row)
        if new.task_id in known:
            task = known[new.task_id]
            check_same(new, task, (row[0] for row in change.rows("needs_of", task._asdict())))
    return known


def check_same(
    new: NewTask, task: Task, needs: Iterable[str], names: Iterable[str] = _SAID, hint: str = _OTHER
) -> None:
    """Refuse a task that differs from its namesake in one of `names` or its needs (ConflictError)."""
    differing = [name for name in names if getattr(new, name) != getattr(task, name)]
    if set(needs) != set(new.needs):
        differing.append("depends_on")
    if differing:
        raise ConflictError(
            f"there is another task {task.task_id}: its {', '.join(differing)} differ",
            hint=hint,
            code="duplicate_id",
        )


def _check_graph(news: list[NewTask], known: dict[str, Task]) -> None:
    needs = {new.task_id: new.needs for new in news}
    if missing := graph.unknown(needs, known):
        pairs = ", ".join(f"{task} needs {one}" for task, one in missing[:_SHOWN])
        raise InvalidInputError(
            f"unknown tasks: {pairs}",
            hint="add what is needed first, or in the same file",
            code="dependency_unknown",
            unknown=[one for _, one in missing[:_SHOWN]],
        )
    if circle := graph.cycle(needs):
        path = [*circle, circle[0]] if len(circle) <= _SHOWN else [*circle[:_SHOWN], "..."]
        raise InvalidInputError(
            f"tasks wait for each other in a circle: {' -> '.join(path)}",
            hint="take one of these dependencies out",
            code="dependency_cycle",
            cycle=circle[:_SHOWN],
        )


def _insert(change: Transaction, agent: str, new: NewTask, number: int, completed: set[str]) -> None:
    values = new._asdict() | {
        "number": number,
        "acceptance": json.dumps(new.acceptance, ensure_ascii=False),
        "reviewers": json.dumps(new.reviewers),
        "retry_delays": json.dumps(new.retry_delays),
        "created_by": agent,
        "created_ms": change.now_ms,
        "thread_id": f"t-{os.urandom(8).hex()}",
        "open_deps": sum(one not in completed for one in new.needs),
        "changed": change.event(
            "task_added", source=agent, run_id=new.run_id, task_id=new.task_id, summary=new.title
        ),
    }
    change.execute("insert_task", values)


def _end(change: Transaction, agent: str, ended: Mapping[str, EndedTask], news: list[NewTask]) -> None:
    """Let tasks end that ended elsewhere: first what is completed, then what takes others along."""
    for task_id, how in sorted(ended.items(), key=lambda one: one[1].status is TaskStatus.FAILED):
        task = task_of(change, news[0].run_id, task_id)._replace(worker=how.worker)
        if how.status is TaskStatus.COMPLETED:
            done = task._replace(status=TaskStatus.COMPLETED)
            put(change, done, tell(change, done, "task_completed", source=agent))
        elif task.status is TaskStatus.PENDING:
            lose(change, task, TaskStatus.FAILED, how.reason or "it failed elsewhere", source=agent)


def _begin(change: Transaction, task: Task, new: NewTask, known: dict[str, Task]) -> None:
    """Send a new task that is ready to its owner; one that needs what failed falls as its policy says."""
    lost = [known[one] for one in new.needs if one in known and known[one].status in LOST]
    if lost and not task.ended:
        hit = put(change, task._replace(failed_deps=task.failed_deps + len(lost)), task.changed)
        # One that is added with it may have taken it along already.
        outcome = outcome_of(hit.on_failed_dependency) if hit.status is TaskStatus.PENDING else None
        if outcome is not None:
            why = f"its dependency {lost[0].task_id} is {lost[0].status}"
            lose(change, hit._replace(fallen_with=lost[0].task_id), outcome, why, source=task.created_by)
    elif task.ready:
        give(change, task)
