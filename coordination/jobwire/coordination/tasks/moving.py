"""Changes of tasks in one transaction, with all that follows: who is told, what is unlocked, what falls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import MAX_SUMMARY, STORE_AGENT, NewMessage, check_message, first_line
from jobwire.coordination.reading import find_thread, leads_of
from jobwire.coordination.sending import Bulk, begin_thread, move, post, write
from jobwire.coordination.tasks.states import LOST, Task, TaskStatus, moved, outcome_of
from jobwire.coordination.tasks.stored import dependants_of
from jobwire.coordination.thread import ENDED, ThreadStatus
from jobwire.core.errors import ConflictError, TransitionError

if TYPE_CHECKING:
    from jobwire.coordination.store import Transaction

MAX_REASON = 1024
_NAMED = 10
# In place of a digest: the ids of these messages are made here, and nobody sends them again.
_OURS = "task"


def put(change: Transaction, task: Task, number: int, *, since: bool = True) -> Task:
    """Write what became of a task at the event `number`, and return it."""
    after = task._replace(changed=number, since_ms=change.now_ms if since else task.since_ms)
    change.execute("put_task", {**after._asdict(), "status": str(after.status)})
    return after._replace(version=after.version + 1)


def tell(change: Transaction, task: Task, event_type: str, *, source: str) -> int:
    """Write down a change of a task, and return its number."""
    number = change.event(
        event_type,
        source=source,
        run_id=task.run_id,
        task_id=task.task_id,
        summary=task.reason or task.title,
        payload={"task_id": task.task_id, "status": str(task.status)},
    )
    change.agents.update(filter(None, (task.owner, task.created_by)))
    change.resources.add(f"tasks:{task.run_id}")
    return number


def give(
    change: Transaction, task: Task, *, message_type: str = "", words: str = "", to: str = "", due_ms: int = 0
) -> Task:
    """Send a task that is ready to its owner: one message, in its thread, which is open for a claim then.

    `words` say why it comes again. It can be claimed from `due_ms` on.
    """
    # The first time there is none; a completion may make a thousand tasks ready.
    thread = find_thread(change, task.thread_id) if task.rounds else None
    rounds, number = task.rounds + 1, change.latest_event() + 1
    to = to or task.owner or (thread.addressed_to if thread is not None else "")
    new = check_message(
        NewMessage(
            task.created_by,
            (to,) if to else (),
            kind="task",
            type=message_type or task.intent,
            id=f"k{task.thread_id[1:]}-{rounds}",
            thread_id=task.thread_id,
            subject=task.title,
            summary=first_line(f"{task.title}: {words}" if words else task.title),
            body=f"{words}\n\n{task.text}".strip() if words else task.text,
            run_id=task.run_id,
            task_id=task.task_id,
            acceptance=task.acceptance,
            risk=task.risk,
            priority=task.priority,
        )
    )
    if thread is None:
        begin_thread(change, new, task.thread_id, list(new.to))
    # First the task, then its message: the thread of a task opens again for a pending one alone.
    after = put(change, task._replace(rounds=rounds, not_before_ms=due_ms), number)
    posted = write(change, new, Bulk.of(new, BlobFolder(change.home)), _OURS)
    if due_ms:
        change.execute("put_off", {"seq": posted.event_id, "not_before_ms": due_ms})
    return after


def complete(change: Transaction, task: Task, *, source: str) -> Task:
    """Complete a task, and send those that waited for it alone to their owners."""
    after = moved(task, TaskStatus.COMPLETED)._replace(reason="", not_before_ms=0)
    after = put(change, after, tell(change, after, "task_completed", source=source))
    for one in dependants_of(change, task):
        left = one._replace(open_deps=one.open_deps - 1)
        if left.ready:
            give(change, left)
        else:
            put(change, left, after.changed, since=False)
    return after


def lose(change: Transaction, task: Task, status: TaskStatus, reason: str, *, source: str) -> Task:
    """Let a task fail or be cancelled, with those that fall with it; leads hear of what waits in vain."""
    after = moved(task, status)._replace(reason=reason[:MAX_REASON], not_before_ms=0)
    after = put(change, after, tell(change, after, f"task_{status}", source=source))
    todo, fallen, stuck = [after], list[Task](), list[Task]()
    while todo:
        lost = todo.pop(0)
        for one in dependants_of(change, lost):
            hit = one._replace(failed_deps=one.failed_deps + 1)
            outcome = outcome_of(one.on_failed_dependency) if one.status is TaskStatus.PENDING else None
            if outcome is None:
                put(change, hit, lost.changed, since=False)
                if one.status is TaskStatus.PENDING:
                    stuck.append(hit)
                continue
            why = f"its dependency {lost.task_id} is {lost.status}"
            hit = moved(hit, outcome)._replace(reason=why, fallen_with=lost.task_id)
            hit = put(change, hit, tell(change, hit, f"task_{outcome}", source=STORE_AGENT))
            fallen.append(hit)
            todo.append(hit)
    if stuck or fallen:
        _alert(change, after, fallen, stuck)
    return after


def open_again(change: Transaction, task: Task, *, source: str) -> Task:
    """Open a lost task again, with those that fell with it; what is ready goes to its owner."""
    if task.status not in LOST:
        raise TransitionError(
            f"task {task.task_id} is {task.status}: there is nothing to retry",
            hint="`jobwire tasks show` tells what it waits for",
            before=str(task.status),
            after=str(TaskStatus.PENDING),
        )
    if task.failed_deps:
        raise ConflictError(
            f"a dependency of task {task.task_id} failed",
            hint="retry that first; those that fell with it come back with it",
            code="deps_blocked",
        )
    opened = _opened(change, task, source)
    todo = [opened]
    while todo:
        back = todo.pop(0)
        for one in dependants_of(change, back):
            left = one._replace(failed_deps=one.failed_deps - 1)
            if one.status in LOST and one.fallen_with and not left.failed_deps:
                todo.append(_opened(change, left, source))
                continue
            if one.fallen_with == back.task_id:
                other = _another_lost(change, left, but=back.task_id)
                left = left._replace(fallen_with=other or one.fallen_with)
            put(change, left, back.changed, since=False)
    return give(change, opened) if opened.ready else opened


def leads_or(change: Transaction, task: Task) -> tuple[str, ...]:
    """Return who leads the task's run; where nobody does, who added the task."""
    return leads_of(change, task.run_id) or (task.created_by,)


def _opened(change: Transaction, task: Task, source: str) -> Task:
    back = moved(task, TaskStatus.PENDING)._replace(
        reason="", fallen_with="", failures=0, not_before_ms=0, dropped=0, redriven=task.redriven + 1
    )
    return put(change, back, tell(change, back, "task_pending", source=source))


def _another_lost(change: Transaction, task: Task, *, but: str) -> str:
    rows = change.rows("needs_of", task._asdict())
    return next((name for name, status in rows if status in LOST and name != but), "")


def _alert(change: Transaction, lost: Task, fallen: list[Task], stuck: list[Task]) -> None:
    """Tell the leads once what a failure does to the plan."""
    parts = [
        f"{len(found)} {words}: {', '.join(one.task_id for one in found[:_NAMED])}"
        for found, words in (
            (stuck, "wait for it"),
            ([one for one in fallen if one.status is TaskStatus.FAILED], "failed with it"),
            ([one for one in fallen if one.status is TaskStatus.CANCELLED], "are skipped"),
        )
        if found
    ]
    new = NewMessage(
        STORE_AGENT,
        leads_or(change, lost),
        type="alert",
        summary=f"task {lost.task_id} is {lost.status}; {'; '.join(parts)}"[:MAX_SUMMARY],
        payload=json.dumps({"task_id": lost.task_id, "stuck": len(stuck), "fallen": len(fallen)}),
        run_id=lost.run_id,
        task_id=lost.task_id,
        priority="high",
    )
    if change.row("thread", {"thread_id": lost.thread_id}) is not None:
        new = new._replace(thread_id=lost.thread_id)
    post(change, new)


def end_thread(change: Transaction, thread_id: str, status: ThreadStatus, *, source: str) -> None:
    """End a thread that nobody works in, where there is one that has not ended."""
    thread = find_thread(change, thread_id)
    if thread is None or thread.status in ENDED or thread.job_id is not None:
        return
    number = change.event(
        f"thread_{status}",
        source=source,
        thread_id=thread_id,
        run_id=thread.run_id,
        task_id=thread.task_id,
        payload={"plan": True},
    )
    move(change, thread._replace(status=status, updated_at=change.at, changed=number))
