"""The verbs of the inbox as data: messages, threads and their words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jobwire.coordination import reading
from jobwire.coordination.message import Artifact, NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.stored import InboxMessage, thread_json
from jobwire.coordination.thread import check_statuses
from jobwire.coordination.verb_form import (
    FLAG,
    MOST,
    TEXT,
    TEXTS,
    WHOLE,
    WORDS,
    AgentVerb,
    artifact_fields,
    limit_of,
)
from jobwire.core.errors import InvalidInputError, JobwireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.sending import Posted
    from jobwire.coordination.store import CoordinationStore

# Pages of a search that are looked through for an agent to whom little of them is open.
_SEARCHES = 5


def check_part(store: CoordinationStore, agent: str, thread_id: str) -> None:
    """Refuse an agent that takes no part in the thread (forbidden)."""
    if not _takes_part(store, agent, thread_id):
        raise InvalidInputError(
            f"{agent} takes no part in thread {thread_id}", hint="ask who does", code="forbidden"
        )


def posted_json(store: CoordinationStore, posted: Posted) -> dict[str, object]:
    """Return a message that was written, with its thread, as commands print it."""
    thread = thread_json(reading.thread_of(store, posted.thread_id))
    return {**posted._asdict(), "seq": posted.event_id, "thread": thread}


def _takes_part(store: CoordinationStore, agent: str, thread_id: str) -> bool:
    thread, part = reading.thread_of(store, thread_id), reading.part_in(store, thread_id, agent)
    return part.leads or part.takes_part or thread.assigned_to in {agent, ""}


def _send(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    for name in ("to", "acceptance"):
        args[name] = tuple(args.get(name, ()))
    artifacts = tuple(Artifact(*artifact_fields(one)) for one in args.pop("artifacts", ()))
    return posted_json(store, send(store, NewMessage(agent, **args, artifacts=artifacts)))


def _send_elsewhere(store: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    if "in_reply_to" in args:
        check_part(store, agent, reading.message_of(store, args["in_reply_to"]).thread_id)
    if "thread_id" in args:
        check_part(store, agent, args["thread_id"])


def _fetch(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    found = reading.fetch(
        store,
        agent,
        statuses=check_statuses(args.get("statuses", ())) or (() if args.get("unread") else reading.FETCHED),
        limit=limit_of(args),
        unread=args.get("unread", False),
    )
    return {"threads": [thread_json(one) for one in found]}


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Show a thread with its last messages; a `reader` has read them."""
    del agent
    with store.reading():
        thread = reading.thread_of(store, args["thread_id"])
        found = reading.last_messages_of(store, thread.thread_id, limit_of(args, none=-1))
        ways = reading.ways_in(store, thread.thread_id)
        said = [reading.message_json(store, one) | {"deliveries": ways.get(one.id, [])} for one in found]
        last = store.latest_event()
    if found and "reader" in args:
        from jobwire.coordination.taking import mark_read  # noqa: PLC0415 - few looks are a reader's

        try:
            mark_read(store, args["reader"], thread.thread_id, found[-1].seq)
        except JobwireError as error:
            # Reading works where nothing can be written, on a disk that is full or read-only.
            sys.stderr.write(f"inbox: warning: not marked as read: {error.message}\n")
    return {"thread": thread_json(thread), "messages": said, "event_id": last}


def _show_elsewhere(store: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    check_part(store, agent, args["thread_id"])
    args.setdefault("limit", 20)
    args["reader"] = agent


def _list(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """List threads; with a `reader` those that it began or works on."""
    del agent
    found = reading.threads(
        store,
        agent=args.get("reader"),
        statuses=check_statuses(args.get("statuses", ())),
        created_by=args.get("created_by"),
        assigned_to=args.get("assigned_to"),
        run_id=args.get("run_id"),
        limit=limit_of(args),
    )
    return {"threads": [thread_json(one) for one in found]}


def _search(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Search messages; with a `reader` those of threads that it takes part in."""
    del agent
    limit, below, reader = limit_of(args), args.get("before"), args.get("reader")
    if reader is None:
        found = reading.search(store, args["words"], below=below, limit=limit)
        return {"messages": [one.to_json() for one in found]}
    mine: list[InboxMessage] = []
    for _ in range(_SEARCHES):
        page = reading.search(store, args["words"], below=below, limit=MOST)
        mine += [one for one in page if _takes_part(store, reader, one.thread_id)]
        if len(mine) >= limit or len(page) < MOST:
            break
        below = page[-1].seq
    return {"messages": [one.to_json() for one in mine[:limit]]}


def _reads_as_itself(_: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    args["reader"] = agent


_LISTED = {"reader": TEXT, "limit": WHOLE}
INBOX_VERBS: Mapping[str, AgentVerb] = {
    "send": AgentVerb(
        {
            **WORDS,
            **dict.fromkeys(("kind", "type", "thread_id", "subject", "message_class"), TEXT),
            **dict.fromkeys(("run_id", "task_id", "in_reply_to", "correlation_id", "risk", "priority"), TEXT),
            "to": TEXTS,
            "acceptance": TEXTS,
            "expires_at_ms": WHOLE,
            "hop": WHOLE,
        },
        _send,
        changes=True,
        keeps=True,
        elsewhere=_send_elsewhere,
    ),
    "fetch": AgentVerb({"statuses": TEXTS, "limit": WHOLE, "unread": FLAG}, _fetch),
    "show": AgentVerb(
        {"thread_id": TEXT, **_LISTED}, _show, ("thread_id",), public=True, elsewhere=_show_elsewhere
    ),
    "list": AgentVerb(
        {**dict.fromkeys(("created_by", "assigned_to", "run_id"), TEXT), "statuses": TEXTS, **_LISTED},
        _list,
        public=True,
        elsewhere=_reads_as_itself,
    ),
    "search": AgentVerb(
        {"words": TEXT, "before": WHOLE, **_LISTED},
        _search,
        ("words",),
        public=True,
        elsewhere=_reads_as_itself,
    ),
}
