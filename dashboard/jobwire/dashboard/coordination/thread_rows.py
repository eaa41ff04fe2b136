"""A conversation as a row: its status, its last word, who has not read it. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.core.clock import epoch

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


class ThreadRow(NamedTuple):
    """One conversation for a table. Times in epoch seconds; `changed` is its place in the order."""

    id: str
    changed: int
    status: str
    priority: str
    subject: str
    run: str
    task: str
    job: str
    sender: str
    worker: str
    created: float
    updated: float
    unread: Mapping[str, int]
    last: Mapping[str, object] | None


def thread_row(thread: InboxThread, last: LastWord | None, unread: Mapping[str, int]) -> ThreadRow:
    """Return the row of a thread; `unread` counts by agent."""
    said = None
    if last is not None:
        said = {
            "from": cut(last.sender),
            "at": last.ts_ms / 1000,
            "kind": last.kind,
            "type": cut(last.type),
            "text": cut(last.summary),
        }
    return ThreadRow(
        thread.thread_id,
        thread.changed,
        thread.status,
        thread.priority,
        cut(thread.subject),
        cut(thread.run_id),
        cut(thread.task_id),
        thread.job_id or "",
        cut(thread.created_by),
        cut(thread.assigned_to),
        seconds(thread.created_at),
        seconds(thread.updated_at),
        {name: count for name, count in unread.items() if count},
        said,
    )


def count_choices(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many there are of each choice, from the counts by status."""
    return {name: sum(counts.get(status, 0) for status in found) for name, found in CHOICES.items()}


def cut(text: str) -> str:
    """Return a text of others, no longer than it can be shown in a line."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} …"


def seconds(stamp: str) -> float:
    """Return the time of a stamp, 0 for what another program wrote instead of one."""
    try:
        return epoch(stamp)
    except ValueError:
        return 0.0
