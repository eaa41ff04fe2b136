"""A task follows the jobs of its thread: in the transaction that shows a job's change, whoever runs that."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from jobwire.coordination.message import MAX_SUMMARY, MAX_TYPE, NewMessage
from jobwire.coordination.sending import post
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.moving import complete, end_thread, give, leads_or, lose, put, tell
from jobwire.coordination.tasks.states import (
    Task,
    TaskStatus,
    check_claimable,
    check_may_manage,
    moved,
    retry_wait,
)
from jobwire.coordination.tasks.stored import missing_of, task_of_thread
from jobwire.coordination.thread import ENDED, InboxThread, ThreadStatus
from jobwire.core.errors import ConflictError

if TYPE_CHECKING:
    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.jobs.record import JobRecord

REVIEW_REQUEST = "review_request"
REVIEW_RESULT = "review_result"
# In the data of a job's last event: no retry mends its failure. And what there is to merge.
PERMANENT = "permanent"
BRANCH = "branch"


def follow(change: Transaction, thread: InboxThread, record: JobRecord) -> InboxThread:
    """Bring the thread's task, where it has one, to where its job is; return the thread after that.

    A run that failed and may be repeated opens the thread again.
    """
    task = task_of_thread(change, thread.thread_id)
    if task is None:
        return thread
    ended = thread.status in ENDED
    _note(change, task, thread, record, ended=ended)
    if task.status not in {TaskStatus.PENDING, TaskStatus.IN_PROGRESS}:
        return thread  # it was ended meanwhile, and its job is about to be: see `unwanted`
    if not ended:
        _working(change, task, thread)
        return thread
    if task.status is TaskStatus.PENDING:
        task = moved(task, TaskStatus.IN_PROGRESS)
    task = task._replace(worker=thread.assigned_to or task.worker or task.owner)
    if thread.status == ThreadStatus.DONE:
        _done(change, task, record)
    elif thread.status == ThreadStatus.CANCELLED:
        lose(change, task, TaskStatus.CANCELLED, record.detail or "cancelled", source=task.worker)
    else:
        _failed(change, task, record)
    return InboxThread(*change.rows("thread", {"thread_id": thread.thread_id})[0])


def withdraw(change: Transaction, thread: InboxThread, agent: str, reason: str) -> None:
    """Cancel the task of a thread that was cancelled before anybody claimed it."""
    task = task_of_thread(change, thread.thread_id)
    if task is not None and not task.ended:
        lose(change, task, TaskStatus.CANCELLED, reason, source=agent)


def check_claim(
    reader: CoordinationStore | Transaction, thread: InboxThread, agent: str, now_ms: int
) -> None:
    """Refuse a claim of a thread whose task cannot be claimed now."""
    task = task_of_thread(reader, thread.thread_id) if thread.task_id else None
    if task is not None:
        check_claimable(task, agent, now_ms, missing_of(reader, task) if task.open_deps else ())


def check_cancel(
    reader: CoordinationStore | Transaction, thread: InboxThread, agent: str, *, leads: bool
) -> None:
    """Refuse to cancel a task for anybody but its creator and leads."""
    task = task_of_thread(reader, thread.thread_id) if thread.task_id else None
    if task is not None:
        check_may_manage(task, agent, leads=leads, doing="cancel")


def unwanted(reader: CoordinationStore | Transaction, thread: InboxThread) -> str:
    """Return why a job of the thread is to be cancelled: its task ended before. "": it is wanted."""
    task = task_of_thread(reader, thread.thread_id) if thread.task_id else None
    if task is None or thread.status in ENDED or not task.ended:
        return ""
    return f"task {task.task_id} is {task.status}"


def check_reopens(change: Transaction, thread: InboxThread) -> None:
    """Refuse new work in the thread of a task that is not waiting to be claimed."""
    task = task_of_thread(change, thread.thread_id)
    if task is not None and task.status is not TaskStatus.PENDING:
        raise ConflictError(
            f"thread {thread.thread_id} is that of task {task.task_id}, which is {task.status}",
            hint="`jobwire tasks retry` or `review reject` opens it; add another task for other work",
            code="already_terminal",
            status=str(task.status),
        )


def review_thread(task: Task) -> str:
    """Return the thread in which the review of the task's last run is asked for."""
    return f"rv{task.thread_id[1:]}-{task.rounds}"


def _working(change: Transaction, task: Task, thread: InboxThread) -> None:
    if thread.status == ThreadStatus.PENDING:
        if task.status is TaskStatus.IN_PROGRESS:
            _left(change, moved(task, TaskStatus.PENDING), thread)
    elif task.status is TaskStatus.PENDING or task.worker != thread.assigned_to:
        begun = moved(task, TaskStatus.IN_PROGRESS) if task.status is TaskStatus.PENDING else task
        begun = begun._replace(worker=thread.assigned_to)
        put(change, begun, tell(change, begun, "task_in_progress", source=thread.assigned_to))


def _left(change: Transaction, task: Task, thread: InboxThread) -> None:
    """Its worker is gone: the same job waits for the next one, who hears of it once."""
    values = {"agent_id": task.owner, "thread_id": thread.thread_id, "through": 2**62}
    if task.owner and not change.rows("open_in_thread", values):
        give(change, task, words="its lease ran out")
    else:
        put(change, task, tell(change, task, "task_pending", source=task.worker))


def _done(change: Transaction, task: Task, record: JobRecord) -> None:
    task = task._replace(branch=_branch(change, record))
    if task.review == "none":
        complete(change, task, source=task.worker)
        return
    after = moved(task, TaskStatus.IN_REVIEW)._replace(reason="")
    after = put(change, after, tell(change, after, "task_in_review", source=task.worker))
    _ask_reviewers(change, after, record.detail)


def _failed(change: Transaction, task: Task, record: JobRecord) -> None:
    task = task._replace(failures=task.failures + 1)
    reason = record.detail or "its job failed"
    data = (record.result or {}).get("data")
    permanent = isinstance(data, dict) and data.get(PERMANENT) is True
    if permanent or not task.may_run_again:
        lose(change, task, TaskStatus.FAILED, reason, source=task.worker)
        return
    again = moved(task, TaskStatus.PENDING)._replace(reason=reason)
    seconds = retry_wait(again, random.random())  # noqa: S311 - spreads retries, keeps no secret
    due_ms = change.now_ms + round(seconds * 1000)
    words = f"run {task.failures} of {task.max_attempts} failed: {reason}"
    give(change, again, words=words, due_ms=due_ms if seconds else 0)


def _ask_reviewers(change: Transaction, task: Task, result: str) -> None:
    """Ask for a review in a thread of its own: who reviews may claim that as any work."""
    named = task.reviewers or leads_or(change, task)
    post(
        change,
        NewMessage(
            task.worker,
            tuple(name for name in named if name != task.worker),
            kind="task",
            type=REVIEW_REQUEST,
            id=f"{review_thread(task)}-ask",
            subject=f"review {task.task_id}: {task.title}"[:200],
            summary=f"review {task.task_id}: {task.title}"[:MAX_SUMMARY],
            body=f"{task.worker} says: {result}\n\n"
            f"jobwire tasks review approve {task.task_id}\n"
            f'jobwire tasks review reject {task.task_id} --reason "..."',
            payload=json.dumps({"task_id": task.task_id, "thread_id": task.thread_id, "branch": task.branch}),
            run_id=task.run_id,
            task_id=task.task_id,
            correlation_id=task.task_id,
            acceptance=task.acceptance,
            risk=task.risk,
            priority=task.priority,
        ),
        new_thread=review_thread(task),
    )


def say_review(change: Transaction, task: Task, reviewer: str, *, approved: bool, reason: str) -> None:
    """Say what the review said: to who added the task, and of an approval to its worker.

    Whose work is rejected hears of it with the work. The request for the review is done.
    """
    end_thread(change, review_thread(task), ThreadStatus.DONE, source=reviewer)
    told = (task.worker, task.created_by) if approved else (task.created_by,)
    to = tuple(name for name in dict.fromkeys(told) if name not in {"", reviewer})
    verdict = "approved" if approved else "rejected"
    post(
        change,
        NewMessage(
            reviewer,
            to,
            kind="answer",
            type=REVIEW_RESULT,
            summary=f"{task.task_id} is {verdict}{f': {reason}' if reason else ''}"[:MAX_SUMMARY],
            payload=json.dumps({"task_id": task.task_id, "result": verdict, "reason": reason}),
            thread_id=task.thread_id,
            run_id=task.run_id,
            task_id=task.task_id,
            correlation_id=task.task_id,
        ),
    )


def _note(change: Transaction, task: Task, thread: InboxThread, record: JobRecord, *, ended: bool) -> None:
    """Write down the run: its job, who does it, and how it ended."""
    change.execute(
        "put_task_run",
        {
            "job_id": record.job_id,
            "run_id": task.run_id,
            "task_id": task.task_id,
            "agent_id": thread.assigned_to or task.worker,
            "now_ms": change.now_ms,
            "ended_ms": change.now_ms if ended else None,
            "outcome": thread.status if ended else "",
            "reason": record.detail[:1024] if ended else "",
        },
    )


def _branch(change: Transaction, record: JobRecord) -> str:
    """Return the branch that the result names: of the message, else of the job's last event."""
    data = (record.result or {}).get("data")
    if not isinstance(data, dict):
        return ""
    row = change.row("message", {"id": data.get("op")}) if isinstance(data.get("op"), str) else None
    said = InboxMessage(*row) if row is not None else None
    payload = json.loads(said.payload) if said is not None and said.payload else data
    branch = payload.get(BRANCH) if isinstance(payload, dict) else None
    if not isinstance(branch, str) or not branch.isprintable():
        return ""
    return branch[:MAX_TYPE]
