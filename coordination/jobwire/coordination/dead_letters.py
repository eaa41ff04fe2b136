"""What was given up, messages and tasks: listed, and brought back or dropped by one or by many."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination import taking
from jobwire.coordination.message import DEFAULT_RUN
from jobwire.coordination.tasks.states import TaskStatus
from jobwire.coordination.tasks.stored import task_from, task_of
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from jobwire.coordination.delivery import InboxDelivery
    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.taking import Taken
    from jobwire.coordination.tasks.states import Task

_ALL = 100_000
# What concerns one letter, or who asks; a store that fails stops all.
_REFUSALS = (ConflictError, InvalidInputError, NotFoundError)


class Chosen(NamedTuple):
    """Which dead letters are meant: for an agent, of a run, with words in the reason, as old as seconds."""

    agent: str | None = None
    run_id: str | None = None
    reason: str = ""
    older_than: float = 0.0
    limit: int = 50


class Buried(NamedTuple):
    """Dead messages, and failed tasks that nobody has dropped; newest first."""

    messages: list[Taken]
    tasks: list[Task]


class Raised(NamedTuple):
    """What became of dead letters; `refused` are those that stay, with why."""

    deliveries: list[InboxDelivery]
    tasks: list[Task]
    refused: list[tuple[str, str]]


def buried(store: CoordinationStore, chosen: Chosen) -> Buried:
    """Return the dead letters that are meant. Tasks that failed with another come back with that."""
    before = int((store.clock.now() - chosen.older_than) * 1000)
    dead = (
        one
        for one in taking.dead_of(store, chosen.agent, limit=_ALL)
        if chosen.run_id in {None, one.message.run_id}
        and chosen.reason in one.delivery.last_error
        and one.message.ts_ms <= before
    )
    failed = (
        task
        for task in map(task_from, store.rows("failed_tasks", {"run_id": chosen.run_id, "limit": _ALL}))
        if chosen.agent in {None, task.owner, task.worker}
        and chosen.reason in task.reason
        and task.since_ms <= before
    )
    return Buried(list(islice(dead, chosen.limit)), list(islice(failed, chosen.limit)))


def raise_all(store: CoordinationStore, chosen: Chosen, *, by: str, drop: bool, force: bool) -> Raised:
    """Bring back, or drop, all that is meant; what may not be is told, and does not stop the others."""
    found = buried(store, chosen)
    raised = Raised([], [], [])
    for letter in found.messages:
        message, agent = letter.message, letter.delivery.agent_id
        try:
            if drop:
                moved = taking.drop(store, message.id, agent, by=by)
            else:
                moved = taking.redrive(store, message.id, agent, by=by, force=force)
            raised.deliveries.extend(moved)
        except _REFUSALS as error:
            raised.refused.append((message.id, error.message))
    for task in found.tasks:
        try:
            after = raise_task(store, task.task_id, task.run_id, by=by, drop=drop, force=force)
            raised.tasks.append(after)
        except _REFUSALS as error:
            raised.refused.append((task.task_id, error.message))
    return raised


def failed_task(store: CoordinationStore, task_id: str, run_id: str = DEFAULT_RUN) -> Task:
    """Return a failed task that nobody has dropped; raises NotFoundError for any other."""
    task = task_of(store, run_id, task_id)
    if task.status is not TaskStatus.FAILED or task.dropped:
        raise NotFoundError(
            f"task {task_id} is {task.status}, not dead",
            hint="`inbox dead list` shows what is",
            code="task_not_found",
        )
    return task


def raise_task(
    store: CoordinationStore, task_id: str, run_id: str = DEFAULT_RUN, *, by: str, drop: bool, force: bool
) -> Task:
    """Bring a failed task back, or drop it; see `Tasks.retry` and `Tasks.drop`."""
    tasks = Tasks(store, by)
    return tasks.drop(task_id, run_id) if drop else tasks.retry(task_id, run_id, force=force)
