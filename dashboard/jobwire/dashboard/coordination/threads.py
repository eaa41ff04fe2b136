"""Conversations, read from the store: a page of the list, what has changed since, counts."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from jobwire.coordination.reading import threads
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.thread import InboxThread, ThreadStatus
from jobwire.dashboard.coordination.agents import unread_of
from jobwire.dashboard.foreign import cut, epoch_or_zero

PAGE = 50
# The choice of threads in which a message was given up.
DEAD = "dead"
# One part in so many is few.
_FEW = 10
#: What can be chosen on the page -> the statuses that it means.
CHOICES: Mapping[str, tuple[ThreadStatus, ...]] = {
    "blocked": (ThreadStatus.BLOCKED,),
    "open": (ThreadStatus.PENDING, ThreadStatus.CLAIMED, ThreadStatus.IN_PROGRESS),
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


class ThreadQuery(NamedTuple):
    """Which conversations; `below` is where the page before ended, None for the first one."""

    choice: str = ""
    agent: str = ""
    below: int | None = None


def thread_page(store: CoordinationStore, query: ThreadQuery, *, me: str) -> dict[str, object]:
    """Return a page of the list, the last changed first; on the first one, what is blocked before all.

    `me` is who looks: what this person has not read is counted as well.
    """
    with store.reading():
        statuses = CHOICES.get(query.choice, ())
        counts: dict[str, int] = dict(store.rows("thread_counts"))
        first: list[InboxThread] = []
        if not statuses and query.choice != DEAD:
            # Those come first, so they are not among the others.
            statuses = tuple(status for status in ThreadStatus if status is not ThreadStatus.BLOCKED)
            if query.below is None:
                first = _found(store, query, (ThreadStatus.BLOCKED,), counts)
        found = _dead(store, query) if query.choice == DEAD else _found(store, query, statuses, counts)
        return {
            "threads": [_row(store, thread, me) for thread in (*first, *found)],
            "next": found[-1].changed if len(found) == PAGE else None,
            "counts": {
                **count_choices(counts),
                "all": sum(counts.values()),
                DEAD: store.rows("dead_figures")[0][0],
            },
            "unread": unread_of(store, me),
            "event_id": store.latest_event(),
        }


def _found(
    store: CoordinationStore,
    query: ThreadQuery,
    statuses: tuple[ThreadStatus, ...],
    counts: Mapping[str, int],
) -> list[InboxThread]:
    agent = query.agent or None
    if sum(counts.get(status, 0) for status in statuses) * _FEW > sum(counts.values()):
        return threads(store, agent=agent, statuses=statuses, below=query.below, limit=PAGE)
    # Of few among many the others would all be passed by.
    values = {"statuses": json.dumps(statuses), "agent": agent, "below": query.below, "limit": PAGE}
    return [InboxThread(*row) for row in store.rows("threads_of_statuses", values)]


def _dead(store: CoordinationStore, query: ThreadQuery) -> list[InboxThread]:
    values = {"agent": query.agent or None, "below": query.below, "limit": PAGE}
    return [InboxThread(*row) for row in store.rows("threads_with_dead", values)]


def _row(store: CoordinationStore, thread: InboxThread, me: str) -> dict[str, object]:
    heads = store.rows("message_head", {"id": thread.latest_message_id})
    return thread_row(thread, LastWord(*heads[0]) if heads else None, unread_in(store, thread, me))


def unread_in(store: CoordinationStore, thread: InboxThread, me: str) -> dict[str, int]:
    """Return how many messages of the thread its worker, its creator and who looks have not read."""
    names = dict.fromkeys(filter(None, (thread.assigned_to, thread.created_by, me)))
    values = {name: {"agent_id": name, "thread_id": thread.thread_id} for name in names}
    return {name: int(store.rows("unread_in", one)[0][0]) for name, one in values.items()}
