"""A conversation as a row: its status, its last word, who has not read it. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.dashboard.numbers import epoch_or_zero

# Other programs may write texts of any length.
MOST_SHOWN = 500
OPEN = (ThreadStatus.PENDING, ThreadStatus.CLAIMED, ThreadStatus.IN_PROGRESS)
#: What can be chosen on the page -> the statuses that it means.
CHOICES: Mapping[str, tuple[ThreadStatus, ...]] = {
    "blocked": (ThreadStatus.BLOCKED,),
    "open": OPEN,
    "failed": (ThreadStatus.FAILED,),
    "ended": (ThreadStatus.DONE, ThreadStatus.CANCELLED),
}


class LastWord(NamedTuple):
    """The newest message of a conversation, in the order of the query's columns."""

    seq: int
    ts_ms: int
    sender: str
    kind: str
    type: str
    summary: str


def thread_row(thread: InboxThread, last: LastWord | None, unread: Mapping[str, int]) -> dict[str, object]:
    """Return a conversation for a table; `unread` counts by agent, `changed` is its place in the order.

    Times in epoch seconds.
    """
    said = None
    if last is not None:
        said = {
            "from": cut(last.sender),
            "at": last.ts_ms / 1000,
            "kind": last.kind,
            "type": cut(last.type),
            "text": cut(last.summary),
        }
    return {
        "id": thread.thread_id,
        "changed": thread.changed,
        "status": thread.status,
        "priority": thread.priority,
        "subject": cut(thread.subject),
        "run": cut(thread.run_id),
        "task": cut(thread.task_id),
        "job": thread.job_id or "",
        "sender": cut(thread.created_by),
        "worker": cut(thread.assigned_to),
        "created": epoch_or_zero(thread.created_at),
        "updated": epoch_or_zero(thread.updated_at),
        "unread": {name: count for name, count in unread.items() if count},
        "last": said,
    }


def count_choices(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many there are of each choice, from the counts by status."""
    return {name: sum(counts.get(status, 0) for status in found) for name, found in CHOICES.items()}


def cut(text: str) -> str:
    """Return a text of others, no longer than it can be shown in a line."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} …"
