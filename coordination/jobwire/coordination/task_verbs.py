"""The verbs of tasks as data: owners work on them from wherever they are, and others review them.

A plan is made and changed where the home is; from elsewhere an agent sees what it may work on. `claim`,
`complete` and `fail` cross the store and a job's record: which task is claimed is named, so that a claim that
is asked for twice is one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobwire.coordination.message import DEFAULT_RUN, STORE_AGENT
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.stored import READY, view_of
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.verb_form import (
    FLAG,
    MOST,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    WORDS,
    AgentVerb,
    limit_of,
    words_of,
)
from jobwire.coordination.work_verbs import seat_of
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.tasks.states import Task
    from jobwire.coordination.tasks.tasks import TaskWorded
    from jobwire.coordination.verb_form import VerbBody

# An answer holds as many tasks as fit into it; what follows is asked for next.
_ANSWER_BYTES = 96 * 1024


def _tasks(store: CoordinationStore, agent: str, args: dict[str, Any]) -> Tasks:
    return Tasks(store, agent, **seat_of(args))


def _told(store: CoordinationStore, task: Task, **more: object) -> dict[str, object]:
    return {**more, "task": view_of(store, task).to_json(store.now_ms), "thread_id": task.thread_id}


def _add(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    dry_run = args.pop("dry_run", False)
    given: dict[str, Any] = {name: tuple(args[name]) for name in _LISTS if name in args}
    if "retry_delays" in given:
        given["retry_delays"] = _seconds(given["retry_delays"])
    added = Tasks(store, agent).add_all([NewTask(**{**args, **given})], dry_run=dry_run)[0]
    return {
        "task": added.view.to_json(store.now_ms),
        "duplicate": added.duplicate,
        "dry_run": dry_run,
    }


def _seconds(words: tuple[str, ...]) -> tuple[float, ...]:
    try:
        return tuple(map(float, words))
    except ValueError as error:
        raise InvalidInputError(
            f"retry delays are {','.join(words)[:80]!r}", hint="seconds: 30,120,600"
        ) from error


def _list(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """List the agent's tasks and what is anybody's, for a lead all; elsewhere `more` is asked for next."""
    tasks, limit = _tasks(store, agent, args), limit_of(args)
    owner = args.get("owner")
    sees_all = agent == STORE_AGENT or tasks.leads
    owners = [owner] if sees_all else [one for one in (agent, "") if owner in {None, one}]
    found = [
        view
        for one in owners
        for view in tasks.listed(
            args.get("run_id", DEFAULT_RUN),
            statuses=args.get("statuses", ()),
            owner=one,
            stuck=args.get("stuck", False),
            after=args.get("after", 0),
            limit=limit,
        )
    ]
    found = sorted(found, key=lambda view: view.task.number)[:limit]
    told: list[dict[str, object]] = []
    size = 0
    for view in found:
        body = view.to_json(store.now_ms)
        size += len(json.dumps(body))
        if told and size > _ANSWER_BYTES and agent != STORE_AGENT:
            more = {"after": found[len(told) - 1].task.number, "limit": limit - len(told)}
            return {"tasks": told, "more": more}
        told.append(body)
    if "after" in args and len(told) == MOST:
        # Whoever goes from page to page is told of the next one.
        return {"tasks": told, "more": {"after": found[-1].task.number}}
    return {"tasks": told}


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    tasks = _tasks(store, agent, args)
    run_id = args.get("run_id", DEFAULT_RUN)
    view, runs = tasks.get(args["task_id"], run_id), tasks.runs(args["task_id"], run_id)
    task = view.task
    known = {STORE_AGENT, task.owner or agent, task.worker, task.created_by, *task.reviewers}
    if agent not in known and not tasks.leads:
        raise InvalidInputError(
            f"task {task.task_id} is {task.owner}'s", hint="ask its owner or a lead", code="forbidden"
        )
    return {"task": view.to_json(store.now_ms), "runs": [one.to_json() for one in runs]}


def _next(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Look which tasks the agent may claim, the most urgent first."""
    found = _tasks(store, agent, args).ready(args.get("run_id", DEFAULT_RUN), limit=limit_of(args))
    return {"task_ids": [one.task_id for one in found], "status": READY}


def _claim(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    task, claimed = _tasks(store, agent, args).claim(
        args["task_id"],
        args.get("run_id", DEFAULT_RUN),
        seconds=args.get("lease_seconds", DEFAULT_LEASE_SECONDS),
        expect_version=args.get("expect_version"),
    )
    return _told(
        store,
        task,
        lease_token=str(claimed.token),
        expires_at=claimed.expires_at,
        event_id=claimed.event_id,
    )


def _ends(end: Callable[..., TaskWorded]) -> VerbBody:
    """Return what ends a run of a task, well or not."""

    def do(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
        given = {name: args[name] for name in ("token", "expect_version", "permanent") if name in args}
        words, run_id = words_of(agent, "result", args), args.get("run_id", DEFAULT_RUN)
        task, worded = end(_tasks(store, agent, args), args["task_id"], words, run_id, **given)
        return {**worded.posted._asdict(), **_told(store, task)}

    return do


def _moves(move: Callable[..., Task], *options: str) -> VerbBody:
    """Return what moves a task on whatever its work is."""

    def do(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
        given = {name: args[name] for name in ("expect_version", *options) if name in args}
        tasks, run_id = _tasks(store, agent, args), args.get("run_id", DEFAULT_RUN)
        return _told(store, move(tasks, args["task_id"], run_id=run_id, **given))

    return do


_LISTS = ("acceptance", "needs", "reviewers", "retry_delays")
_NEW = ("title", "text", "owner", "intent", "risk", "priority", "review", "on_failed_dependency")
_TASK = {"task_id": TEXT, "run_id": TEXT}
_MOVE = {**_TASK, "expect_version": WHOLE}
_WORK = {**_MOVE, "incarnation": TEXT}
_ENDS = {**_WORK, **WORDS, "token": TEXT}
_NAMED = ("task_id",)
TASK_VERBS: Mapping[str, AgentVerb] = {
    "task-add": AgentVerb(
        {
            **_TASK,
            **dict.fromkeys(_NEW, TEXT),
            **dict.fromkeys(_LISTS, TEXTS),
            "max_attempts": WHOLE,
            "dry_run": FLAG,
        },
        _add,
        ("title",),
        changes=True,
        commands=True,
    ),
    "task-list": AgentVerb(
        {"run_id": TEXT, "statuses": TEXTS, "owner": TEXT, "stuck": FLAG, "limit": WHOLE, "after": WHOLE},
        _list,
        public=True,
    ),
    "task-show": AgentVerb(_TASK, _show, _NAMED, public=True),
    "task-next": AgentVerb({"run_id": TEXT, "limit": WHOLE}, _next),
    # Not kept, as no claim is.
    "task-claim": AgentVerb({**_WORK, "lease_seconds": NUMBER}, _claim, _NAMED, changes=True, crosses=True),
    "task-complete": AgentVerb(_ENDS, _ends(Tasks.complete), _NAMED, changes=True, keeps=True, crosses=True),
    "task-fail": AgentVerb(
        {**_ENDS, "permanent": FLAG}, _ends(Tasks.fail), _NAMED, changes=True, keeps=True, crosses=True
    ),
    "task-review": AgentVerb(
        {**_MOVE, "approve": FLAG, "reason": TEXT},
        _moves(Tasks.review, "approve", "reason"),
        ("task_id", "approve"),
        changes=True,
        keeps=True,
    ),
    "task-merge": AgentVerb(_MOVE, _moves(Tasks.merge), _NAMED, changes=True, commands=True),
    "task-retry": AgentVerb(
        {**_MOVE, "force": FLAG}, _moves(Tasks.retry, "force"), _NAMED, changes=True, commands=True
    ),
    "task-cancel": AgentVerb(
        {**_MOVE, "reason": TEXT}, _moves(Tasks.cancel, "reason"), _NAMED, changes=True, commands=True
    ),
}
