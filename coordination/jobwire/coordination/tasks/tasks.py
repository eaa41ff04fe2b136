"""The tasks of a store: added, claimed, ended, reviewed, retried, cancelled, in the name of one agent.

The plan is the store's alone; the work on a task is a job, and `ThreadWork` crosses between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import DEFAULT_RUN
from jobwire.coordination.reading import leads, thread_of
from jobwire.coordination.tasks import following
from jobwire.coordination.tasks.adding import Added, add_all
from jobwire.coordination.tasks.moving import complete, end_thread, give, lose, open_again, put, tell
from jobwire.coordination.tasks.states import (
    MAX_REDRIVES,
    Task,
    TaskStatus,
    check_claimable,
    check_may_manage,
    check_may_review,
    check_version,
    moved,
    no_task,
)
from jobwire.coordination.tasks.stored import (
    READY,
    TaskRun,
    TaskView,
    all_tasks,
    missing_of,
    runs_of,
    storable,
    task_from,
    task_of,
    view_of,
    views_of,
)
from jobwire.coordination.thread import ThreadStatus
from jobwire.coordination.work import ThreadWork
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.registry.spec import check_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobwire.coordination.message import NewMessage
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.coordination.tasks.adding import EndedTask
    from jobwire.coordination.tasks.new_task import NewTask
    from jobwire.coordination.work import Claimed
    from jobwire.coordination.work_words import Worded

_LOOKS = 5
_WORDS = frozenset({READY, *map(str, TaskStatus)})


class TaskClaimed(NamedTuple):
    """A task that is ours, with the lease of its thread."""

    task: Task
    claimed: Claimed


class TaskWorded(NamedTuple):
    """A task after something was said of it, and what was said."""

    task: Task
    worded: Worded


class Tasks:
    """The tasks of a store, as `agent` sees and changes them. Raises as the store and `ThreadWork` do.

    With `expect_version` a change is refused (20 not_expected) where the task is not as its author saw it.
    """

    def __init__(
        self,
        store: CoordinationStore,
        agent: str,
        *,
        incarnation: str = "",
        environ: Mapping[str, str] | None = None,
        keeps_leases: bool = True,
    ) -> None:
        self.store = store
        self.agent = agent
        self._work = ThreadWork(
            store, agent, incarnation=incarnation, environ=environ, keeps_leases=keeps_leases
        )

    def close(self) -> None:
        """Close this thread's connection to the store; the next call opens it again."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, new: NewTask) -> Added:
        """Add a task; the same one again is no error. Raises as `add_all`."""
        return self.add_all([new])[0]

    def add_all(
        self,
        news: Sequence[NewTask],
        *,
        dry_run: bool = False,
        ended: Mapping[str, EndedTask] | None = None,
    ) -> list[Added]:
        """Add tasks of one run together, all or none; `dry_run` only says what would become of them.

        `ended` are new ones, by id, that ended where they come from: nobody is asked to do them.

        Raises InvalidInputError (dependency_unknown, dependency_cycle with the path), ConflictError
        (duplicate_id) where a task of that id says something else.
        """
        return add_all(self.store, self.agent, news, dry_run=dry_run, ended=ended)

    def get(self, task_id: str, run_id: str = DEFAULT_RUN) -> TaskView:
        """Return a task with its place in the graph; raises NotFoundError (task_not_found)."""
        with self.store.reading():
            return view_of(self.store, task_of(self.store, run_id, task_id))

    def runs(self, task_id: str, run_id: str = DEFAULT_RUN) -> list[TaskRun]:
        """Return the runs of a task, in their order."""
        return runs_of(self.store, task_of(self.store, run_id, task_id))

    def graph(self, run_id: str = DEFAULT_RUN) -> list[TaskView]:
        """Return all tasks of a run with their dependencies, in the order of addition."""
        with self.store.reading():
            return views_of(self.store, run_id, all_tasks(self.store, run_id))

    def listed(
        self,
        run_id: str = DEFAULT_RUN,
        *,
        statuses: Sequence[str] = (),
        owner: str | None = None,
        stuck: bool = False,
        after: int = 0,
        limit: int = 1000,
    ) -> list[TaskView]:
        """Return the tasks of a run that are in one of these states, `ready` among them, and an owner's.

        Those behind the number `after`, in the order of addition. Raises InvalidInputError for another state.
        """
        for word in statuses:
            if word not in _WORDS:
                raise InvalidInputError(f"status is {word!r:.80}", hint=f"one of {', '.join(sorted(_WORDS))}")
        values = {
            "run_id": storable(run_id),
            "statuses": f",{','.join(statuses)}," if statuses else None,
            "owner": None if owner is None else storable(owner),
            "stuck": int(stuck),
            "now_ms": self.store.now_ms,
            "after": after,
            "limit": limit,
        }
        with self.store.reading():
            found = [task_from(row) for row in self.store.rows("listed_tasks", values)]
            return views_of(self.store, run_id, found) if found else []

    def ready(self, run_id: str = DEFAULT_RUN, *, limit: int = 100) -> list[Task]:
        """Return what the agent may claim now, its own and what is anybody's, the most urgent first."""
        found = [
            task_from(row)
            for owner in (self.agent, "")
            for row in self.store.rows(
                "ready_tasks",
                {"run_id": run_id, "owner": owner, "now_ms": self.store.now_ms, "limit": limit},
            )
        ]
        ranks = {"high": 0, "normal": 1, "low": 2}
        return sorted(found, key=lambda one: (ranks[one.priority], one.number))[:limit]

    def claim(
        self,
        task_id: str,
        run_id: str = DEFAULT_RUN,
        *,
        seconds: float = DEFAULT_LEASE_SECONDS,
        expect_version: int | None = None,
    ) -> TaskClaimed:
        """Take a ready task, for nobody but us; our own claim again renews it.

        Raises ConflictError: deps_blocked, owner_mismatch, lease_conflict, already_terminal, not_expected.
        """
        task = self._looked_at(run_id, task_id, expect_version)
        if not task.rounds:
            # It has no thread yet; with one, the claim of that checks the task.
            check_claimable(task, self.agent, self.store.now_ms, missing_of(self.store, task))
        claimed = self._work.claim(task.thread_id, seconds)
        return TaskClaimed(task_of(self.store, run_id, task_id), claimed)

    def claim_next(self, run_id: str = DEFAULT_RUN, *, seconds: float = DEFAULT_LEASE_SECONDS) -> TaskClaimed:
        """Take the most urgent task that is ready for us; raises NoWorkError (no_match)."""
        catch_up(self.store)
        passed: set[str] = set()
        while True:
            # Others may be quicker: then it is the next one's turn.
            found = [one for one in self.ready(run_id, limit=1 + len(passed)) if one.task_id not in passed]
            if not found:
                raise no_task(run_id, self.agent)
            try:
                return self.claim(found[0].task_id, run_id, seconds=seconds)
            except ConflictError:
                passed.add(found[0].task_id)

    def complete(
        self,
        task_id: str,
        new: NewMessage,
        run_id: str = DEFAULT_RUN,
        *,
        token: str | None = None,
        expect_version: int | None = None,
    ) -> TaskWorded:
        """Say that our task is done, with its result; a `branch` in its payload is what there is to merge."""
        task = self._held(run_id, task_id, expect_version, new)
        worded = self._work.done(new._replace(thread_id=task.thread_id), token=token)
        return TaskWorded(task_of(self.store, run_id, task_id), worded)

    def fail(
        self,
        task_id: str,
        new: NewMessage,
        run_id: str = DEFAULT_RUN,
        *,
        token: str | None = None,
        permanent: bool = False,
        expect_version: int | None = None,
    ) -> TaskWorded:
        """Say that our run of a task failed, and why: it is tried again, unless that mends nothing."""
        task = self._held(run_id, task_id, expect_version, new)
        said = new._replace(thread_id=task.thread_id)
        worded = self._work.fail(said, token=token, permanent=permanent)
        return TaskWorded(task_of(self.store, run_id, task_id), worded)

    def review(
        self,
        task_id: str,
        run_id: str = DEFAULT_RUN,
        *,
        approve: bool,
        reason: str = "",
        expect_version: int | None = None,
    ) -> Task:
        """Approve work that is in review, or send it back to its worker with the reason.

        Approved, a task with nothing to merge is completed. Raises InvalidInputError (forbidden) for the
        worker itself, ConflictError (not_expected).
        """
        check_reason(reason)
        if not approve and not reason:
            raise InvalidInputError(
                "why is it rejected?", hint="--reason: its worker knows no more than that"
            )
        catch_up(self.store)
        with self.store.changing() as change:
            task = task_of(change, run_id, task_id)
            check_version(task, expect_version)
            check_may_review(task, self.agent)
            if approve:
                after = self._approved(change, task, reason)
            else:
                after = moved(task, TaskStatus.PENDING)._replace(reason=reason)
                following.say_review(change, task, self.agent, approved=False, reason=reason)
                words = f"rejected by {self.agent}: {reason}"
                after = give(change, after, message_type=following.REVIEW_RESULT, words=words, to=task.worker)
        return after

    def merge(self, task_id: str, run_id: str = DEFAULT_RUN, *, expect_version: int | None = None) -> Task:
        """Say that approved work is merged: the task is completed. Raises ConflictError (not_expected)."""
        with self.store.changing() as change:
            task = task_of(change, run_id, task_id)
            check_version(task, expect_version)
            if task.status is not TaskStatus.APPROVED:
                raise ConflictError(
                    f"task {task_id} is {task.status}, not approved",
                    hint="nothing is left to do"
                    if task.ended
                    else "`jobwire tasks review approve` comes first",
                    code="not_expected",
                    status=str(task.status),
                )
            return complete(change, task, source=self.agent)

    def retry(
        self,
        task_id: str,
        run_id: str = DEFAULT_RUN,
        *,
        force: bool = False,
        expect_version: int | None = None,
    ) -> Task:
        """Open a failed or cancelled task again, with what fell with it; one that waits for a delay is due.

        Its creator or a lead may. Raises ConflictError (not_expected) beyond the third time, unless `force`.
        """
        catch_up(self.store)
        with self.store.changing() as change:
            task = task_of(change, run_id, task_id)
            check_version(task, expect_version)
            check_may_manage(task, self.agent, leads=leads(change, self.agent), doing="retry")
            if task.ready and task.not_before_ms:
                return self._due(change, task)
            if task.redriven >= MAX_REDRIVES and not force:
                raise ConflictError(
                    f"task {task_id} was retried {task.redriven} times",
                    hint="--force retries it all the same",
                    code="not_expected",
                    redriven=task.redriven,
                )
            return open_again(change, task, source=self.agent)

    def cancel(
        self, task_id: str, reason: str = "", run_id: str = DEFAULT_RUN, *, expect_version: int | None = None
    ) -> Task:
        """Cancel a task that is open, with its job; its creator or a lead may. Raises TransitionError."""
        check_reason(reason)
        for _ in range(_LOOKS):
            task = self._looked_at(run_id, task_id, expect_version)
            check_may_manage(task, self.agent, leads=self.leads, doing="cancel")
            if task.status is TaskStatus.IN_PROGRESS or self._has_job(task):
                self._work.cancel(task.thread_id, reason)
                return task_of(self.store, run_id, task_id)
            with self.store.changing() as change:
                now = task_of(change, run_id, task_id)
                if now.version != task.version:
                    continue
                end_thread(change, following.review_thread(now), ThreadStatus.CANCELLED, source=self.agent)
                end_thread(change, now.thread_id, ThreadStatus.CANCELLED, source=self.agent)
                return lose(change, now, TaskStatus.CANCELLED, reason or "cancelled", source=self.agent)
        raise ConflictError(f"task {task_id} changes all the time", hint="try again", code="not_expected")

    def drop(self, task_id: str, run_id: str = DEFAULT_RUN) -> Task:
        """Take a failed task off the dead letters; its creator or a lead may. A retry still opens it."""
        with self.store.changing() as change:
            task = task_of(change, run_id, task_id)
            check_may_manage(task, self.agent, leads=leads(change, self.agent), doing="drop")
            if task.status is not TaskStatus.FAILED or task.dropped:
                raise ConflictError(
                    f"task {task_id} is {'dropped' if task.dropped else task.status}, not a dead letter",
                    hint="`inbox dead list` shows what is",
                    code="not_expected",
                    status=str(task.status),
                )
            after = task._replace(dropped=1)
            return put(change, after, tell(change, after, "task_dropped", source=self.agent), since=False)

    def _approved(self, change: Transaction, task: Task, reason: str) -> Task:
        following.say_review(change, task, self.agent, approved=True, reason=reason)
        if not task.branch:
            return complete(change, task, source=self.agent)
        after = moved(task, TaskStatus.APPROVED)
        return put(change, after, tell(change, after, "task_approved", source=self.agent))

    def _due(self, change: Transaction, task: Task) -> Task:
        """Take a delay away: of the task, and of the message that told of it."""
        for row in change.rows("last_task_in", {"thread_id": task.thread_id}):
            change.execute("put_off", {"seq": row[0], "not_before_ms": 0})
        after = task._replace(not_before_ms=0)
        return put(change, after, tell(change, after, "task_pending", source=self.agent))

    def _looked_at(self, run_id: str, task_id: str, expect_version: int | None) -> Task:
        catch_up(self.store)
        task = task_of(self.store, run_id, task_id)
        check_version(task, expect_version)
        return task

    def _held(self, run_id: str, task_id: str, expect_version: int | None, new: NewMessage) -> Task:
        """Return a task that we work on; raises ConflictError for what is not ours.

        What was said under its id before is said of the task as it was: `ThreadWork` tells that.
        """
        if new.id and self.store.rows("message", {"id": new.id}):
            return task_of(self.store, run_id, task_id)
        task = self._looked_at(run_id, task_id, expect_version)
        if task.status is TaskStatus.IN_PROGRESS and task.worker != self.agent:
            raise ConflictError(
                f"task {task_id} is {task.worker}'s",
                hint="who claimed it says how it ended",
                code="owner_mismatch",
                holder=task.worker,
            )
        if task.status is not TaskStatus.IN_PROGRESS:
            missing = missing_of(self.store, task) if task.open_deps else ()
            check_claimable(task, self.agent, self.store.now_ms, missing)
            raise ConflictError(
                f"nobody works on task {task_id}",
                hint=f"`jobwire tasks claim {task_id}` first",
                code="lease_lost",
            )
        return task

    def _has_job(self, task: Task) -> bool:
        rows = self.store.rows("thread", {"thread_id": task.thread_id})
        if not rows or task.status is not TaskStatus.PENDING:
            return False
        return thread_of(self.store, task.thread_id).job_id is not None

    @property
    def leads(self) -> bool:
        """Tell whether the agent is a lead, a director or a person."""
        return leads(self.store, self.agent)
