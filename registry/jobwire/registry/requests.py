"""What the jobs of a home ask, and how they are answered: each answer a change under the record's lock."""

import getpass
import os
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobwire.core.bounds import MAX_NAME
from jobwire.core.clock import epoch
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    JobwireError,
    NotFoundError,
    StorageError,
)
from jobwire.core.terminal_text import fit, safe
from jobwire.core.topics import is_job_id
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import WAITING_COST, JobRecord
from jobwire.jobs.request_form import RequestKind
from jobwire.jobs.requests import Answer, Request, find, open_requests, seconds_to_answer
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import LockedRecord, RecordStore
from jobwire.storage.process_life import enclosing_job

ENV_AGENT = "JOBWIRE_AGENT"
# Running jobs that a feed, or the search for a request, looks at.
_MOST_JOBS = 100_000
_SHOWN_ANSWER = 80


class AskedJob(NamedTuple):
    """One request and the job that it is of."""

    record: JobRecord
    request: Request

    def to_json(self, now: float) -> dict[str, object]:
        """Return it for programs, with its age in seconds and the command that answers it."""
        return {
            **self.request._asdict(),
            "job_id": self.record.job_id,
            "title": self.record.title,
            "session": self.record.agent_session,
            "priority": str(self.record.priority),
            "age_seconds": round(age_seconds(self.request, now), 3),
            "seconds_to_answer": seconds_to_answer(self.request),
            "command": command_for(self),
        }


def age_seconds(request: Request, now: float) -> float:
    """Return for how long it has been open."""
    return max(0.0, now - epoch(request.asked_at))


def command_for(asked: AskedJob) -> str:
    """Return the command that answers it; "" where none does."""
    if not asked.request.named:
        return ""
    choice = shlex.quote(asked.request.choices[0]) if asked.request.choices else "TEXT"
    return f"jobwire answer {shlex.quote(asked.request.id)} {choice}"


def open_in(queue: JobQueue) -> list[AskedJob]:
    """Return all that waits for a person: the oldest and costliest first."""
    now = queue.store.clock.now()
    found = [
        AskedJob(record, request) for record in _asking(queue) for request in open_requests(record.requests)
    ]
    return sorted(
        found,
        key=lambda one: (-WAITING_COST[one.record.priority] * age_seconds(one.request, now), one.request.seq),
    )


def give_answer(queue: JobQueue, name: str, given: Answer, *, request_id: str | None = None) -> AskedJob:
    """Answer a request, durably, and return it: `name` is its id, or its job's where one is open there.

    Raises ConflictError where it was settled before (the first answer is the answer), NotFoundError,
    InvalidInputError where the name is not one request's, and as `RecordStore.locked`.
    """
    job_id, asked_id = _located(queue, name, request_id)
    with queue.store.locked(job_id) as locked:
        return answer_locked(locked, asked_id, given, queue.store.clock.now())


def answer_locked(
    locked: LockedRecord, request_id: str, given: Answer, now: float, *, op: str = ""
) -> AskedJob:
    """Answer a request of a record whose lock is held; `op` names the message that goes with it.

    Raises as `give_answer`.
    """
    after = fold.answer(locked.record, request_id, given, now)
    request = find(after.requests, request_id)
    if request is None:
        raise NotFoundError(f"no request {request_id}", code="request_not_found")
    record = locked.replace(after, cause=_cause(request), source=given.through, op=op)
    return AskedJob(record, request)


def check_may_answer(request: Request, environ: Mapping[str, str]) -> None:
    """Raise InvalidInputError where a job would permit itself, or another, what a person is asked for."""
    inside = enclosing_job(environ) if request.kind is RequestKind.PERMISSION else None
    if inside is not None:
        raise InvalidInputError(
            f"this runs inside job {inside}: a permission is for a person to give",
            hint="answer from a terminal outside of any job, on the page, or in `jobwire top`",
            code="forbidden",
        )


def find_request(queue: JobQueue, name: str, request_id: str | None = None) -> AskedJob:
    """Return the request that `give_answer` would answer. Raises as it does."""
    job_id, asked_id = _located(queue, name, request_id)
    record = queue.store.get(job_id)
    request = find(record.requests, asked_id)
    if request is None:
        raise NotFoundError(
            f"job {job_id} has no request {asked_id[:80]!r}",
            hint="`jobwire feed` shows what is open",
            code="request_not_found",
        )
    return AskedJob(record, request)


def answerer(environ: Mapping[str, str], agent: str | None = None) -> str:
    """Return who answers: the agent that is named, or the user."""
    name = agent or environ.get(ENV_AGENT)
    if name:
        return name
    try:
        return fit(safe(getpass.getuser()), MAX_NAME)
    except (KeyError, OSError):
        return f"user {os.geteuid()}"


def _cause(request: Request) -> str:
    seconds = seconds_to_answer(request) or 0.0
    always = ", for always" if request.always else ""
    said = fit(safe(request.answer or ""), _SHOWN_ANSWER)
    return f"{request.answered_by} answered {said}{always} after {seconds:.0f} s ({request.answered_through})"


def _asking(queue: JobQueue) -> Iterator[JobRecord]:
    records = queue.list(statuses=[Status.RUNNING], limit=_MOST_JOBS)
    return (record for record in records if record.attention)


def _located(queue: JobQueue, name: str, request_id: str | None) -> tuple[str, str]:
    """Return (job, request): of a job named alone its only open one."""
    if is_job_id(name):
        return name, request_id or _only_open(queue.store.get(name))
    if request_id is not None:
        raise InvalidInputError(f"not a job id: {name[:80]!r}", hint="jobwire answer JOB --request ID")
    # Made ids begin with their job's.
    prefix = name.partition(".")[0]
    if is_job_id(prefix) and _holds(queue.store, prefix, name):
        return prefix, name
    records = queue.list(statuses=[Status.RUNNING], limit=_MOST_JOBS)
    holding = [record for record in records if find(record.requests, name) is not None]
    asking = [record for record in holding if name in {one.id for one in open_requests(record.requests)}]
    found = asking or holding
    if not found:
        raise NotFoundError(
            f"no running job asks {name[:80]!r}",
            hint="`jobwire feed` shows what is open; jobwire answer JOB --request ID names the job too",
            code="request_not_found",
        )
    if len(found) > 1:
        names = ", ".join(record.job_id for record in found[:5])
        raise InvalidInputError(
            f"{len(found)} jobs have a request {name[:80]!r}: {names}",
            hint="name the job too: jobwire answer JOB --request ID",
        )
    return found[0].job_id, name


def _holds(store: RecordStore, job_id: str, request_id: str) -> bool:
    try:
        return find(store.get(job_id).requests, request_id) is not None
    except StorageError:
        raise
    except JobwireError:
        return False


def _only_open(record: JobRecord) -> str:
    # Who comes too late learns who was first.
    asked = open_requests(record.requests) or [one for one in record.requests if one.answered_by][-1:]
    if len(asked) > 1:
        raise InvalidInputError(
            f"job {record.job_id} asks {len(asked)} things: {', '.join(one.id for one in asked[:8])}",
            hint="name the request: jobwire answer REQUEST, or --request ID",
        )
    if not asked:
        ended = f"it is {record.status}" if record.terminal else "it waits for nobody"
        raise ConflictError(
            f"job {record.job_id} asks nothing: {ended}",
            hint="`jobwire feed` shows what is open",
            code="already_terminal" if record.terminal else "not_expected",
        )
    return asked[0].id
