"""A task: its states, what brings it from one to the next, and who may. Pure; times are ms since 1970."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, NoWorkError, TransitionError

MAX_REDRIVES = 3
# A delay is stretched by up to a fifth: a fleet that failed together does not come back together.
_STRETCH = 0.2


class TaskStatus(StrEnum):
    """Where a task is. Ready and stuck are seen from a pending task's dependencies."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    IN_REVIEW = "in_review"
    APPROVED = "approved"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED_TASKS = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})
# A dependency that ended so is not going to be completed by itself.
LOST = frozenset({TaskStatus.FAILED, TaskStatus.CANCELLED})

# (from, to) -> what causes it.
TASK_TRANSITIONS: dict[tuple[TaskStatus, TaskStatus], str] = {
    (TaskStatus.PENDING, TaskStatus.IN_PROGRESS): "claim, once all dependencies are completed",
    (TaskStatus.PENDING, TaskStatus.FAILED): "a dependency failed, and its policy is fail",
    (TaskStatus.PENDING, TaskStatus.CANCELLED): "cancel, or a dependency failed and its policy is skip",
    (TaskStatus.IN_PROGRESS, TaskStatus.PENDING): "its lease ran out, was released, or a run failed",
    (TaskStatus.IN_PROGRESS, TaskStatus.IN_REVIEW): "done, with a review required",
    (TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED): "done",
    (TaskStatus.IN_PROGRESS, TaskStatus.FAILED): "the last run failed, or one that no retry mends",
    (TaskStatus.IN_PROGRESS, TaskStatus.CANCELLED): "cancel",
    (TaskStatus.IN_REVIEW, TaskStatus.APPROVED): "approve, with something to merge",
    (TaskStatus.IN_REVIEW, TaskStatus.COMPLETED): "approve, with nothing to merge",
    (TaskStatus.IN_REVIEW, TaskStatus.PENDING): "reject",
    (TaskStatus.IN_REVIEW, TaskStatus.CANCELLED): "cancel",
    (TaskStatus.APPROVED, TaskStatus.COMPLETED): "merge",
    (TaskStatus.APPROVED, TaskStatus.CANCELLED): "cancel",
    (TaskStatus.FAILED, TaskStatus.PENDING): "retry",
    (TaskStatus.CANCELLED, TaskStatus.PENDING): "retry",
}


class Task(NamedTuple):
    """A node of a run's plan, as the store holds it."""

    run_id: str
    task_id: str
    number: int
    title: str
    text: str
    owner: str
    intent: str
    risk: str
    priority: str
    acceptance: tuple[str, ...]
    review: str
    reviewers: tuple[str, ...]
    max_attempts: int
    retry_delays: tuple[float, ...]
    on_failed_dependency: str
    created_by: str
    created_ms: int
    thread_id: str
    status: TaskStatus = TaskStatus.PENDING
    open_deps: int = 0
    failed_deps: int = 0
    rounds: int = 0
    failures: int = 0
    worker: str = ""
    not_before_ms: int = 0
    reason: str = ""
    branch: str = ""
    fallen_with: str = ""
    redriven: int = 0
    dropped: int = 0
    since_ms: int = 0
    changed: int = 0
    version: int = 1

    @property
    def ready(self) -> bool:
        """Tell whether it may be claimed, now or once its delay is over."""
        return self.status is TaskStatus.PENDING and not self.open_deps

    @property
    def stuck(self) -> bool:
        """Tell whether it waits for something that failed."""
        return self.status is TaskStatus.PENDING and self.failed_deps > 0

    @property
    def ended(self) -> bool:
        """Tell whether it is completed, failed or cancelled."""
        return self.status in ENDED_TASKS

    def due(self, now_ms: int) -> bool:
        """Tell whether it may be claimed now."""
        return self.ready and self.not_before_ms <= now_ms

    @property
    def may_run_again(self) -> bool:
        """Tell whether another run may follow the failures so far."""
        return self.failures < self.max_attempts

    def waiting(self, now_ms: int, missing: tuple[str, ...] = ()) -> dict[str, object] | None:
        """Return what it waits for, None where it waits for nothing; `missing` are open dependencies."""
        on, ref = "", ""
        if self.status is TaskStatus.PENDING and self.open_deps:
            on, ref = ("failed_dependency" if self.failed_deps else "dependency"), ",".join(missing)
        elif self.status is TaskStatus.PENDING and self.not_before_ms > now_ms:
            on, ref = "retry", ""
        elif self.status is TaskStatus.PENDING:
            on, ref = "claim", self.owner
        elif self.status is TaskStatus.IN_REVIEW:
            on, ref = "review", ",".join(self.reviewers)
        elif self.status is TaskStatus.APPROVED:
            on, ref = "merge", self.branch
        since = {"since": utc_timestamp(self.since_ms / 1000), "since_ms": self.since_ms}
        return {"on": on, "ref": ref, **since} if on else None


def outcome_of(policy: str) -> TaskStatus | None:
    """Return what becomes of a pending task one of whose dependencies is lost; None: it waits."""
    return {"fail": TaskStatus.FAILED, "skip": TaskStatus.CANCELLED}.get(policy)


def moved(task: Task, status: TaskStatus) -> Task:
    """Return the task in another state; raises TransitionError where the table forbids that."""
    if (task.status, status) not in TASK_TRANSITIONS:
        raise TransitionError(
            f"task {task.task_id} cannot go from {task.status} to {status}",
            hint="`jobwire tasks show` tells what it waits for",
            before=str(task.status),
            after=str(status),
        )
    return task._replace(status=status)


def retry_wait(task: Task, jitter: float) -> float:
    """Return the seconds before the run that follows the task's last failure; `jitter` is in [0, 1)."""
    delays = task.retry_delays
    if not delays:
        return 0.0
    return delays[min(task.failures, len(delays)) - 1] * (1 + _STRETCH * jitter)


def check_claimable(task: Task, agent: str, now_ms: int, missing: tuple[str, ...] = ()) -> None:
    """Refuse a claim of what is not ready, is another's, or is over; our own running task is ours again."""
    if task.ended or task.status in {TaskStatus.IN_REVIEW, TaskStatus.APPROVED}:
        raise ConflictError(
            f"task {task.task_id} is {task.status}",
            hint=_AFTER.get(task.status, "add another task"),
            code="already_terminal" if task.ended else "not_expected",
            status=str(task.status),
        )
    if task.open_deps:
        raise ConflictError(
            f"task {task.task_id} waits for {', '.join(missing) or f'{task.open_deps} others'}",
            hint="it is sent to its owner when the last of them is completed",
            code="deps_blocked",
            waits_for=list(missing),
        )
    if task.owner not in {"", agent}:
        raise ConflictError(
            f"task {task.task_id} is {task.owner}'s",
            hint="a lead may cancel it and add it for you",
            code="owner_mismatch",
            holder=task.owner,
        )
    if task.status is TaskStatus.PENDING and task.not_before_ms > now_ms:
        wait = (task.not_before_ms - now_ms) / 1000
        raise ConflictError(
            f"task {task.task_id} is tried again in {wait:.0f} s",
            hint="a lead's `jobwire tasks retry` makes it due at once",
            code="not_expected",
            not_before_ms=task.not_before_ms,
        )


_AFTER = {
    TaskStatus.FAILED: "a lead's `jobwire tasks retry` opens it again",
    TaskStatus.CANCELLED: "a lead's `jobwire tasks retry` opens it again",
    TaskStatus.IN_REVIEW: "`jobwire tasks review approve` or `reject` comes first",
    TaskStatus.APPROVED: "`jobwire tasks merge` ends it",
}


def check_version(task: Task, expected: int | None) -> None:
    """Refuse a change of a task that is not as its author saw it."""
    if expected is not None and expected != task.version:
        raise ConflictError(
            f"task {task.task_id} is at version {task.version}, not {expected}",
            hint="look at it again: `jobwire tasks show`",
            code="not_expected",
            version=task.version,
            status=str(task.status),
        )


def check_may_manage(task: Task, agent: str, *, leads: bool, doing: str) -> None:
    """Refuse to cancel or retry a task for anybody but its creator and leads."""
    if not leads and agent != task.created_by:
        raise InvalidInputError(
            f"{agent} may not {doing} task {task.task_id}",
            hint=f"its creator {task.created_by}, a lead or a person may",
            code="forbidden",
        )


def check_may_review(task: Task, agent: str) -> None:
    """Refuse a review of what is in none, and of one's own work."""
    if task.status is not TaskStatus.IN_REVIEW:
        raise ConflictError(
            f"task {task.task_id} is {task.status}, not in review",
            hint="`jobwire tasks show` tells what it waits for",
            code="not_expected",
            status=str(task.status),
        )
    if agent == task.worker:
        raise InvalidInputError(
            f"{agent} did task {task.task_id}: somebody else reviews it",
            hint=f"reviewers: {', '.join(task.reviewers) or 'anybody else'}",
            code="forbidden",
        )


def no_task(run_id: str, agent: str) -> NoWorkError:
    """Return the error where nothing is ready for an agent."""
    return NoWorkError(
        f"no task of run {run_id} is ready for {agent}",
        hint="`jobwire tasks list` tells what each waits for",
        code="no_match",
    )
