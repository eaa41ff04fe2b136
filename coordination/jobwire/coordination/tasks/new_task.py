"""What somebody says who adds a task, and its bounds. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobwire.coordination.message import (
    DEFAULT_RUN,
    MAX_INLINE,
    MAX_LIST,
    MAX_SUBJECT,
    MAX_TYPE,
    PRIORITIES,
)
from jobwire.core.bounds import MAX_INSTRUCTIONS, MAX_SECONDS, check_count, check_line, check_text
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_agent

REVIEWS = ("none", "required")
POLICIES = ("wait", "fail", "skip")
RETRY_DELAYS = (30.0, 120.0, 600.0)
MAX_RUNS = 3
MAX_NEEDS = 1000
MAX_ADDED = 20_000
# Run and task are part of a job's idempotency key.
MAX_RUN = 128
_MAX_ATTEMPTS = 1000
_TASK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class NewTask(NamedTuple):
    """A task to be added. `task_id` "" makes one; times in seconds."""

    title: str
    task_id: str = ""
    run_id: str = DEFAULT_RUN
    text: str = ""
    owner: str = ""
    intent: str = ""
    risk: str = ""
    priority: str = "normal"
    acceptance: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    review: str = "none"
    reviewers: tuple[str, ...] = ()
    max_attempts: int = MAX_RUNS
    retry_delays: tuple[float, ...] = RETRY_DELAYS
    on_failed_dependency: str = "wait"


def check_task_id(task_id: str) -> str:
    """Return the id if a task may have it; raises InvalidInputError."""
    if not _TASK.fullmatch(task_id):
        raise InvalidInputError(
            f"not a task's id: {task_id[:80]!r}", hint="1 to 64 of A-Z a-z 0-9 _ . -, the first no . or -"
        )
    return task_id


def check_new_task(new: NewTask) -> NewTask:
    """Return the task without repetitions; raises InvalidInputError naming the bad field."""
    if new.task_id:
        check_task_id(new.task_id)
    check_line("run", new.run_id, MAX_RUN)
    check_line("title", new.title, MAX_SUBJECT)
    check_text("text", new.text, MAX_INSTRUCTIONS)
    check_line("intent", new.intent, MAX_TYPE, empty=True)
    check_line("risk", new.risk, MAX_TYPE, empty=True)
    for field, value, words in (
        ("priority", new.priority, PRIORITIES),
        ("review", new.review, REVIEWS),
        ("on_failed_dependency", new.on_failed_dependency, POLICIES),
    ):
        if value not in words:
            raise InvalidInputError(f"{field} is {value!r}", hint=f"one of {', '.join(words)}")
    for name in (*([new.owner] if new.owner else []), *new.reviewers):
        check_agent(name)
    _check_lists(new)
    for one in new.needs:
        check_task_id(one)
    check_count("max_attempts", new.max_attempts, _MAX_ATTEMPTS)
    for seconds in new.retry_delays:
        if not 0 <= seconds <= MAX_SECONDS:
            raise InvalidInputError(f"a retry delay is {seconds!r}", hint="seconds, 0 or more")
    return new._replace(
        needs=tuple(dict.fromkeys(new.needs)),
        reviewers=tuple(dict.fromkeys(new.reviewers)),
        retry_delays=tuple(map(float, new.retry_delays)),
        review="required" if new.reviewers else new.review,
    )


def _check_lists(new: NewTask) -> None:
    for field, items, most in (
        ("acceptance lines", new.acceptance, MAX_LIST),
        ("dependencies", new.needs, MAX_NEEDS),
        ("reviewers", new.reviewers, MAX_LIST),
        ("retry delays", new.retry_delays, _MAX_ATTEMPTS),
    ):
        if len(items) > most:
            raise InvalidInputError(f"{len(items)} {field}, {most} are allowed", code="too_large")
    for text in new.acceptance:
        check_text("acceptance", text, MAX_INLINE)
    if new.owner and new.owner in new.reviewers:
        raise InvalidInputError(
            f"{new.owner} would review its own work", hint="name other reviewers", code="forbidden"
        )
