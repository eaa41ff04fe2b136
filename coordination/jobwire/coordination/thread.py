"""A thread: its status as the job's projection, and who may do what in it. Pure."""

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.message import check_word
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.jobs.lifecycle import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobwire.jobs.record import JobRecord

LEADING = frozenset({"lead", "director", "person"})


class ThreadStatus(StrEnum):
    """Where a thread is."""

    PENDING = "pending"
    CLAIMED = "claimed"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({ThreadStatus.DONE, ThreadStatus.FAILED, ThreadStatus.CANCELLED})
_OF_JOB = {
    Status.PENDING: ThreadStatus.PENDING,
    Status.COMPLETED: ThreadStatus.DONE,
    Status.ERROR: ThreadStatus.FAILED,
    Status.CANCELLED: ThreadStatus.CANCELLED,
}


class InboxThread(NamedTuple):
    """A conversation, as the store holds it."""

    thread_id: str
    run_id: str
    task_id: str
    subject: str
    created_by: str
    assigned_to: str
    addressed_to: str
    status: str
    priority: str
    latest_message_id: str | None
    created_at: str
    updated_at: str
    job_id: str | None
    jobs: int
    work: int
    position: int
    changed: int

    @property
    def ended(self) -> bool:
        """Tell whether it is done, failed or cancelled."""
        return self.status in ENDED


def status_of(record: "JobRecord") -> ThreadStatus:
    """Return the status of the thread whose work the job does."""
    if record.status is not Status.RUNNING:
        return _OF_JOB[record.status]
    if record.attention:
        return ThreadStatus.BLOCKED
    said = record.last_seq > record.attempt_seq
    return ThreadStatus.IN_PROGRESS if said else ThreadStatus.CLAIMED


def check_statuses(words: "Sequence[str]") -> "tuple[str, ...]":
    """Return the words, of which each is a status; raises InvalidInputError."""
    for word in words:
        check_word("status", word, ThreadStatus)
    return tuple(words)


def check_may_claim(thread: InboxThread, agent: str) -> None:
    """Refuse a claim of what is addressed to somebody else, or over."""
    if thread.assigned_to not in {"", agent}:
        raise ConflictError(
            f"thread {thread.thread_id} is {thread.assigned_to}'s",
            hint="its creator or a lead may send it to you",
            code="owner_mismatch",
            holder=thread.assigned_to,
        )
    check_open_thread(thread)


def check_open_thread(thread: InboxThread) -> None:
    """Refuse what is over."""
    if thread.ended:
        raise ConflictError(
            f"thread {thread.thread_id} is {thread.status}",
            hint="send a new task into it, or begin another",
            code="already_terminal",
            status=thread.status,
        )


def check_may_end(thread: InboxThread, agent: str, *, leads: bool, takes_part: bool) -> None:
    """Refuse to cancel a thread, or to end a free one, for anybody but those whose matter it is."""
    if leads or agent in {thread.created_by, thread.assigned_to} or (takes_part and not thread.work):
        return
    raise InvalidInputError(
        f"{agent} may not end thread {thread.thread_id}",
        hint=f"its creator {thread.created_by}, its assignee, a lead or a person may",
        code="forbidden",
    )


def check_may_reply(thread: InboxThread, agent: str, *, leads: bool, takes_part: bool) -> None:
    """Refuse a reply of somebody who has no part in the thread."""
    if leads or takes_part or agent in {thread.created_by, thread.assigned_to}:
        return
    raise InvalidInputError(
        f"{agent} has no part in thread {thread.thread_id}",
        hint="its participants, leads and persons may reply; `inbox send` begins another",
        code="forbidden",
    )
