"""The plan of a session folder: `state/tasks/tasks.json`, with `version` and `tasks`, to a run and back.

A task must say its id, title, owner, acceptance, depends_on and status; one that lacks a field is named, and
then no task of the file is taken in. States without a word there are written as the nearest: what is reviewed
is in progress, what was cancelled has failed. A claim made there is no lease here: the task is to be claimed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, cast

from jobwire.coordination.bus.session_folder import INBOX, MAX_FILE, OUTBOX, TASKS, file_name, read_page
from jobwire.coordination.message import NewMessage, first_line
from jobwire.coordination.tasks.adding import EndedTask, check_same
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.states import Task, TaskStatus
from jobwire.coordination.tasks.stored import TaskRun, TaskView, all_tasks, runs_of, views_of
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_agent
from jobwire.storage.named_files import read_named_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobwire.coordination.store import CoordinationStore

_VERSION = 1
_TEXTS = ("id", "title", "owner", "status")
_LISTS = ("acceptance", "depends_on")
# What the file says of a task besides its id and what it needs.
_SAID = ("title", "owner", "intent", "risk", "acceptance")
_WORDS: Mapping[TaskStatus, str] = {
    TaskStatus.PENDING: "pending",
    TaskStatus.IN_PROGRESS: "in_progress",
    TaskStatus.IN_REVIEW: "in_progress",
    TaskStatus.APPROVED: "in_progress",
    TaskStatus.COMPLETED: "completed",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELLED: "failed",
}
# Who added a task that does not say so.
_LEAD = "lead"


class PlannedTask(NamedTuple):
    """A task as the file says it: `by` works or worked on it, `dispatch` is the message that asked for it."""

    new: NewTask
    status: str
    by: str
    reason: str
    dispatch: str
    creator: str


def read_plan(folder: str, run_id: str) -> list[PlannedTask]:
    """Return the tasks of a session folder, none where it has no plan; raises InvalidInputError."""
    try:
        raw = read_named_file(f"{folder}/{TASKS}", "plan", limit=MAX_FILE)
    except FileNotFoundError:
        return []
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"it is not JSON: {error}"[:300]) from error
    tasks = value.get("tasks") if isinstance(value, dict) else None
    if not isinstance(value, dict) or value.get("version", _VERSION) != _VERSION:
        raise InvalidInputError(f"it is no plan of version {_VERSION}")
    if isinstance(tasks, dict):
        tasks = [{"id": key, **one} if isinstance(one, dict) else one for key, one in tasks.items()]
    if not isinstance(tasks, list):
        raise InvalidInputError("it has no list `tasks`")
    return [_task(item, f"task {number}", run_id) for number, item in enumerate(tasks, 1)]


def add_plan(
    store: CoordinationStore, plan: Sequence[PlannedTask], folder: str, run_id: str
) -> tuple[int, dict[str, str]]:
    """Add the tasks that are not there, all or none; what the message says that asks for one is its text.

    Return how many those are, and by its id the thread of each message that asks for a task of the plan.
    Raises ConflictError (duplicate_id) where a task is another one here.
    """
    with store.reading():
        known = {one.task.task_id: one for one in views_of(store, run_id, all_tasks(store, run_id))}
    for one in plan:
        if one.new.task_id in known:
            there = known[one.new.task_id]
            check_same(one.new, there.task, there.needs, _SAID, "what is planned stays as it was added")
    fresh = [one for one in plan if one.new.task_id not in known]
    threads = {view.task.task_id: view.task.thread_id for view in known.values() if view.task.rounds}
    if fresh:
        ended = {
            one.new.task_id: EndedTask(TaskStatus(one.status), one.by, one.reason)
            for one in fresh
            if one.status in {"completed", "failed"}
        }
        creator = next((one.creator for one in fresh if one.creator), _LEAD)
        added = Tasks(store, creator).add_all([_with_text(one, folder) for one in fresh], ended=ended)
        threads |= {one.view.task.task_id: one.view.task.thread_id for one in added if one.view.task.rounds}
    asked = {
        one.dispatch: threads[one.new.task_id] for one in plan if one.dispatch and one.new.task_id in threads
    }
    return len(fresh), asked


def complete_plan(store: CoordinationStore, plan: Sequence[PlannedTask], run_id: str) -> int:
    """Complete, in the name of who did it, what is completed there and ready here; return how many."""
    count = 0
    for one in plan:
        if one.status != "completed" or not one.by:
            continue
        tasks = Tasks(store, one.by, environ={})
        task = tasks.get(one.new.task_id, run_id).task
        if not task.ready:
            continue
        token = str(tasks.claim(task.task_id, run_id).claimed.token)
        words = NewMessage(one.by, kind="result", summary=first_line(one.reason or f"{task.task_id} is done"))
        tasks.complete(task.task_id, words, run_id, token=token)
        count += 1
    return count


def plan_text(store: CoordinationStore, run_id: str) -> str:
    """Return the file that says the tasks of a run; "" where it has none."""
    views = views_of(store, run_id, all_tasks(store, run_id))
    tasks = [_item(view, runs_of(store, view.task) if view.jobs else []) for view in views]
    return (
        json.dumps({"version": _VERSION, "tasks": tasks}, ensure_ascii=False, indent=2) + "\n"
        if tasks
        else ""
    )


def strangers(folder: str, text: str, run_id: str) -> str:
    """Return why a folder's plan is not replaced: what it says would be lost. "": it may be."""
    try:
        there = {one.new.task_id for one in read_plan(folder, run_id)}
    except InvalidInputError as error:
        return f"{TASKS}: {error.message}"
    ours = {str(one["id"]) for one in json.loads(text)["tasks"]} if text else set()
    missing = sorted(there - ours)
    return f"{TASKS}: {', '.join(missing[:10])} would be lost; import the folder first" if missing else ""


def _with_text(one: PlannedTask, folder: str) -> NewTask:
    path = f"{folder}/{INBOX}/{one.new.owner}/{file_name(one.dispatch)}.md"
    try:
        body = (
            read_page(read_named_file(path, "message", limit=MAX_FILE).decode()).body if one.dispatch else ""
        )
    except (FileNotFoundError, UnicodeDecodeError, InvalidInputError):
        return one.new
    return one.new._replace(text=body.strip("\n"))


def _task(item: object, place: str, run_id: str) -> PlannedTask:
    if not isinstance(item, dict):
        raise InvalidInputError(f"{place} is no object")
    place = f"{place} ({item['id'][:64]})" if isinstance(item.get("id"), str) else place
    if missing := [name for name in (*_TEXTS, *_LISTS) if name not in item]:
        raise InvalidInputError(f"{place} lacks {', '.join(missing)}")
    text = {name: _text(item, name, place) for name in (*_TEXTS, "risk", "created_by", "last_error")}
    text["intent"] = _text(item, "intent" if "intent" in item else "work_type", place)
    if text["status"] not in _WORDS.values():
        raise InvalidInputError(f"{place}: status is {text['status'][:40]!r}")
    asked = item.get("dispatch")
    by = next(
        (found for name in ("completed_by", "claimed_by", "owner") if (found := _text(item, name, place))), ""
    )
    for name in filter(None, (by, text["created_by"])):
        check_agent(name)
    new = NewTask(
        text["title"],
        text["id"],
        run_id,
        owner=text["owner"],
        intent=text["intent"],
        risk=text["risk"],
        acceptance=_texts(item, "acceptance", place),
        needs=tuple(dict.fromkeys(_texts(item, "depends_on", place))),
    )
    return PlannedTask(
        new,
        text["status"],
        by,
        text["last_error"],
        _text(asked, "message_id", place) if isinstance(asked, dict) else "",
        text["created_by"],
    )


def _text(item: Mapping[str, object], name: str, place: str) -> str:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{place}: {name} is no text")
    return value or ""


def _texts(item: Mapping[str, object], name: str, place: str) -> tuple[str, ...]:
    value = item[name]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInputError(f"{place}: {name} is no list of texts")
    return tuple(cast("list[str]", value))


def _item(view: TaskView, runs: Sequence[TaskRun]) -> dict[str, object]:
    task = view.task
    claimed = task.worker if task.status not in {TaskStatus.PENDING, TaskStatus.CANCELLED} else ""
    done = task.status is TaskStatus.COMPLETED
    since = utc_timestamp(task.since_ms / 1000)
    failed = next((run for run in reversed(runs) if run.outcome == "failed"), None)
    error = task.reason if _WORDS[task.status] == "failed" else failed.reason if failed else ""
    asked = f"k{task.thread_id[1:]}-{task.rounds}" if task.rounds else ""
    return {
        "id": task.task_id,
        "title": task.title,
        "owner": task.owner,
        "status": _WORDS[task.status],
        "acceptance": list(task.acceptance),
        "depends_on": list(view.needs),
        "work_type": task.intent or "implement",
        "intent": task.intent,
        "risk": task.risk,
        "claimed_by": claimed or None,
        "claimed_at": utc_timestamp(runs[-1].began_ms / 1000) if claimed and runs else None,
        "source_message_id": None,
        "created_by": task.created_by,
        "created_at": utc_timestamp(task.created_ms / 1000),
        "updated_at": since,
        "evidence": [],
        "receipt_file": f"{OUTBOX}/{file_name(asked, task.worker)}.md" if done and asked else None,
        "last_error": error or None,
        "last_error_by": (failed.agent_id if failed else task.worker or None) if error else None,
        "last_error_at": (_time(failed.ended_ms) if failed else since) if error else None,
        "completed_by": (task.worker or None) if done else None,
        "completed_at": since if done else None,
        "dispatch": _dispatch(task, asked),
        "history": _history(task, runs),
    }


def _dispatch(task: Task, asked: str) -> dict[str, object] | None:
    if not asked:
        return None
    at = utc_timestamp(task.since_ms / 1000)
    return {"from": task.created_by, "to": task.owner, "intent": task.intent, "message_id": asked, "at": at}


def _history(task: Task, runs: Sequence[TaskRun]) -> list[dict[str, object]]:
    found = [{"at": _time(task.created_ms), "action": "add", "by": task.created_by, "note": ""}]
    for run in runs:
        found.append({"at": _time(run.began_ms), "action": "claim", "by": run.agent_id, "note": run.job_id})
        if run.ended_ms is not None:
            action = "complete" if run.outcome == "done" else "fail"
            found.append(
                {"at": _time(run.ended_ms), "action": action, "by": run.agent_id, "note": run.reason}
            )
    return list(map(dict[str, object], found))


def _time(ms: int | None) -> str:
    return utc_timestamp((ms or 0) / 1000)
