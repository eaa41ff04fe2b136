"""The tools of `jobwire mcp` for tasks and reviews: what the commands of `jobwire tasks` do and say."""

import json
from collections.abc import Callable
from typing import Any

from jobwire.api.home import Home
from jobwire.coordination.message import NewMessage
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.states import Task
from jobwire.coordination.tasks.stored import view_of
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS

Said = dict[str, Any]


class TaskTools:
    """The tools of one agent; their signatures and docstrings are what the agent is shown."""

    def __init__(self, home: str, agent: str) -> None:
        self._home, self._agent = home, agent

    def all(self) -> list[Callable[..., Said]]:
        """Return the tools: the public methods that say something."""
        return [
            *(self.task_list, self.task_add, self.task_claim),
            *(self.task_complete, self.task_fail, self.task_review),
        ]

    def task_list(self, run: str = "default", status: str = "") -> Said:
        """Show a run's tasks and what each waits for; `status` for example ready, in_review or failed."""
        with self._tasks() as tasks:
            now_ms = tasks.store.now_ms
            found = [view.to_json(now_ms) for view in tasks.graph(run) if status in {"", view.status(now_ms)}]
            return {"tasks": found}

    def task_add(
        self,
        title: str,
        *,
        owner: str = "",
        body: str = "",
        depends_on: list[str] | None = None,
        accept: list[str] | None = None,
        reviewers: list[str] | None = None,
        run: str = "default",
    ) -> Said:
        """Add a task to a run's plan. It is sent to its owner when all that it depends on is completed."""
        with self._tasks() as tasks:
            new = NewTask(
                title,
                run_id=run,
                text=body,
                owner=owner,
                acceptance=tuple(accept or ()),
                needs=tuple(depends_on or ()),
                reviewers=tuple(reviewers or ()),
            )
            return {"task": tasks.add(new).view.to_json(tasks.store.now_ms)}

    def task_claim(
        self, task: str = "", run: str = "default", lease_seconds: float = DEFAULT_LEASE_SECONDS
    ) -> Said:
        """Take a task that is ready, for nobody but you; without `task` the most urgent one."""
        with self._tasks() as tasks:
            if task:
                found, claimed = tasks.claim(task, run, seconds=lease_seconds)
            else:
                found, claimed = tasks.claim_next(run, seconds=lease_seconds)
            return {**_told(tasks, found), "expires_at": claimed.expires_at, "event_id": claimed.event_id}

    def task_complete(
        self, task: str, summary: str, body: str = "", branch: str = "", run: str = "default"
    ) -> Said:
        """Hand in the result of your task; `branch` is what is to be merged once it is approved."""
        with self._tasks() as tasks:
            payload = {"branch": branch} if branch else None
            return _told(tasks, tasks.complete(task, self._words(summary, body, payload), run).task)

    def task_fail(
        self, task: str, summary: str, body: str = "", permanent: bool = False, run: str = "default"
    ) -> Said:
        """Say that your run of a task failed, and why. It is tried again, unless that mends nothing."""
        with self._tasks() as tasks:
            return _told(tasks, tasks.fail(task, self._words(summary, body), run, permanent=permanent).task)

    def task_review(self, task: str, approve: bool, reason: str = "", run: str = "default") -> Said:
        """Approve another's work, or send it back with the reason: its worker does it again."""
        with self._tasks() as tasks:
            return _told(tasks, tasks.review(task, run, approve=approve, reason=reason))

    def _words(self, summary: str, body: str, payload: dict[str, str] | None = None) -> NewMessage:
        text = None if payload is None else json.dumps(payload)
        return NewMessage(self._agent, kind="result", summary=summary, body=body, payload=text)

    def _tasks(self) -> Tasks:
        return Home(self._home).tasks(self._agent)


def _told(tasks: Tasks, task: Task) -> Said:
    return {
        "task": view_of(tasks.store, task).to_json(tasks.store.now_ms),
        "thread_id": task.thread_id,
        "event_id": tasks.store.latest_event(),
    }


def is_task_tool(tool: Callable[..., Said]) -> bool:
    """Tell whether it is one of these."""
    return hasattr(TaskTools, tool.__name__)
