"""Waiting for others: for an answer, for activity that concerns me, for an event whose name fits a pattern.

A look at the store, then sleep until somebody commits (storage.wake). Every wait has a cursor, the number of
an event: what came before the wait began is found where it lies behind the cursor, and the answer names the
cursor of the next wait. A look costs nothing while nobody has committed.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from jobwire.coordination.marks import catch_up, marked
from jobwire.coordination.message import KINDS, check_word
from jobwire.coordination.reading import message_of, thread_of
from jobwire.coordination.stored import json_or_text
from jobwire.coordination.thread import check_statuses
from jobwire.core.bounds import check_line
from jobwire.core.topics import check_agent
from jobwire.storage.wake import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from jobwire.coordination.store import CoordinationStore

MAX_PATTERN = 512
_SCAN = 1000
# How pieces of work end, in the words of those who wait for it by name.
_ENDINGS = {
    "thread_done": "TASK_COMPLETE",
    "thread_failed": "TASK_FAILED",
    "thread_cancelled": "TASK_CANCELLED",
    "task_completed": "TASK_COMPLETE",
    "task_failed": "TASK_FAILED",
    "task_cancelled": "TASK_CANCELLED",
}


class Found(NamedTuple):
    """What ended a wait: the number of the event, and the message or thread that it is about."""

    event_id: int
    thread_id: str = ""
    seq: int | None = None
    event: dict[str, object] | None = None


class Waited(NamedTuple):
    """How a wait ended. `next_event_id` is the cursor of the next one."""

    found: Found | None
    next_event_id: int


def wait_reply(
    store: CoordinationStore,
    *,
    agent: str,
    thread_id: str,
    seconds: float,
    after: int | None = None,
    after_message: str | None = None,
    kinds: Sequence[str] = (),
) -> Waited:
    """Wait for a message of somebody else in the thread, of one of `kinds` (default: any).

    Behind event `after` or message `after_message`; without either behind my last question in the thread,
    else my last message there, else what is there now. Raises NotFoundError, InvalidInputError.
    """
    check_agent(agent)
    for kind in kinds:
        check_word("kind", kind, KINDS)
    thread_of(store, thread_id)
    values = {"thread_id": thread_id, "agent_id": agent}
    if after_message is not None:
        after = message_of(store, after_message).seq
    if after is None:
        last = store.rows("last_question_of", values)[0][0]
        after = store.latest_event() if last is None else int(last)

    def look() -> Found | None:
        for (seq,) in store.rows("reply_after", {**values, "after": after, "kinds": _listed(kinds)}):
            return Found(seq, thread_id, seq)
        return None

    return _wait(store, look, (f"thread:{thread_id}",), seconds, after)


def watch(
    store: CoordinationStore,
    *,
    agent: str,
    seconds: float,
    statuses: Sequence[str] = (),
    after: int | None = None,
) -> Waited:
    """Wait for activity of others in a thread that concerns the agent and has one of `statuses`.

    Without `after` what the agent has not read counts, and what comes from now on.
    """
    check_agent(agent)
    check_statuses(statuses)
    values = {"agent_id": agent, "statuses": _listed(statuses)}
    unread = after is None
    cursor = store.latest_event() if after is None else after
    begun = cursor

    def look() -> Found | None:
        nonlocal cursor
        with store.reading():
            if unread:
                for seq, thread_id in store.rows("unread_activity", values):
                    return Found(seq, thread_id, seq)
            through = store.latest_event()
            for event_id, thread_id in store.rows(
                "activity_after", {**values, "after": cursor, "through": through}
            ):
                return Found(event_id, thread_id)
        # A change of a thread has an event of its own: what was looked through need not be again.
        cursor = through
        return None

    return _wait(store, look, (f"agent:{agent}", "agent:*"), seconds, begun)


def wait_pattern(
    store: CoordinationStore, pattern: str, *, seconds: float, after: int | None = None
) -> Waited:
    """Wait for an event whose name fits `pattern` (`*`, `?`, `[...]`), from now on or behind `after`.

    The name is `TYPE_KEY`: the message's type, else that of the event, and the task's id, else `all` or the
    thread's. The end of work is also called TASK_COMPLETE, TASK_FAILED or TASK_CANCELLED.
    """
    check_line("pattern", pattern, MAX_PATTERN)
    cursor = begun = store.latest_event() if after is None else after

    def look() -> Found | None:
        nonlocal cursor
        while rows := store.rows("named_events_after", {"after": cursor, "limit": _SCAN}):
            for row in rows:
                if any(fnmatchcase(name, pattern) for name in event_names(*row)):
                    return Found(row[0], row[3], event=_event(row))
            cursor = rows[-1][0]
        return None

    return _wait(store, look, ("events",), seconds, begun)


def event_names(*row: Any) -> Iterator[str]:
    """Return the names under which somebody may wait for an event (a row of `named_events_after`)."""
    _, _, task_id, thread_id, _, event_type, message_id, summary, payload_json, _, message_type, payload = row
    key = task_id or _task_in(payload) or ("" if message_id or thread_id else summary)
    # The end of a task's job is not the task's: it may be tried again, or reviewed.
    ending = None if thread_id and _in(payload_json, "plan") else _ENDINGS.get(event_type)
    for name in (message_type or event_type, ending):
        if name:
            yield f"{name}_{key or 'all'}"
            if thread_id and not key:
                yield f"{name}_{thread_id}"


def _task_in(payload: str | None) -> str:
    task = _in(payload, "task_id")
    return task if isinstance(task, str) else ""


def _in(payload: str | None, name: str) -> object:
    value = json_or_text(payload)
    return value.get(name) if isinstance(value, dict) else None


def _event(row: Sequence[Any]) -> dict[str, object]:
    names = ("event_id", "run_id", "task_id", "thread_id", "source", "event_type", "message_id", "summary")
    return {**dict(zip(names, row, strict=False)), "created_at": row[9], "names": list(event_names(*row))}


def _wait(
    store: CoordinationStore,
    look: Callable[[], Found | None],
    names: Sequence[str],
    seconds: float,
    cursor: int,
) -> Waited:
    found = wait_until(
        _unless_unchanged(store, look), home=store.home, names=names, seconds=seconds, clock=store.clock
    )
    return Waited(found, cursor if found is None else found.event_id)


def _unless_unchanged(
    store: CoordinationStore, look: Callable[[], Found | None]
) -> Callable[[], Found | None]:
    """Return a look that reads nothing while no other connection has committed."""
    seen: int | None = None

    def cheap() -> Found | None:
        nonlocal seen
        # Before the look: what is committed during it is found by the next.
        version = store.rows("data_version")[0][0]
        if version == seen and not marked(store):
            return None
        # A job may have ended without the inbox.
        catch_up(store)
        seen = version
        return look()

    return cheap


def _listed(words: Collection[str]) -> str | None:
    return f",{','.join(words)}," if words else None
