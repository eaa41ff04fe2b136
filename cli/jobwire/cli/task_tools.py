"""The tools of `jobwire mcp` for tasks and reviews: what the commands of `jobwire tasks` do and say."""

import json
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from jobwire.cli.mcp_shared_tools import SharedTools
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS

Said = dict[str, Any]
_MOST = 1000


class TaskTools(SharedTools):
    """The tools of one agent; their signatures and docstrings are what the agent is shown."""

    @abstractmethod
    def look(self, verb: str, **args: object) -> Said:
        """Do a verb that looks at a plan: at home all of it is seen."""

    @abstractmethod
    def leased(self, verb: str, args: Said) -> Said:
        """Do a verb of work, under the lease that the agent was granted."""

    def task_tools(self) -> list[Callable[..., Said]]:
        """Return these tools."""
        return [
            *(self.task_list, self.task_show, self.task_add, self.task_claim),
            *(self.task_complete, self.task_fail, self.task_review),
        ]

    def task_list(self, run: str = "default", status: str = "", after: int = 0) -> Said:
        """Show a run's tasks, at most 1,000, and what each waits for; `status` for example ready, in_review
        or failed. Where there is `more`, ask again with its `after`.
        """  # noqa: D205 - shown to agents as it is
        wanted = [status] if status else []
        return self.look("task-list", run_id=run, statuses=wanted, after=after, limit=_MOST)

    def task_show(self, task: str, run: str = "default") -> Said:
        """Show one task: what it waits for, its runs and how each ended."""
        return self.look("task-show", task_id=task, run_id=run)

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
        lists = {"needs": depends_on or [], "acceptance": accept or [], "reviewers": reviewers or []}
        return self.call("task-add", title=title, owner=owner, text=body, run_id=run, **lists)

    def task_claim(
        self, task: str = "", run: str = "default", lease_seconds: float = DEFAULT_LEASE_SECONDS
    ) -> Said:
        """Take a task that is ready, for nobody but you; without `task` the most urgent one."""
        named = {"task_id": task} if task else {}
        return self.leased("task-claim", {**named, "run_id": run, "lease_seconds": lease_seconds})

    def task_complete(
        self, task: str, summary: str, body: str = "", branch: str = "", run: str = "default"
    ) -> Said:
        """Hand in the result of your task; `branch` is what is to be merged once it is approved."""
        payload = {"payload": json.dumps({"branch": branch})} if branch else {}
        said = {"task_id": task, "run_id": run, "summary": summary, "body": body}
        return self.leased("task-complete", {**said, **payload})

    def task_fail(
        self, task: str, summary: str, body: str = "", permanent: bool = False, run: str = "default"
    ) -> Said:
        """Say that your run of a task failed, and why. It is tried again, unless that mends nothing."""
        said = {"task_id": task, "run_id": run, "summary": summary, "body": body, "permanent": permanent}
        return self.leased("task-fail", said)

    def task_review(self, task: str, approve: bool, reason: str = "", run: str = "default") -> Said:
        """Approve another's work, or send it back with the reason: its worker does it again."""
        return self.call("task-review", task_id=task, run_id=run, approve=approve, reason=reason)
