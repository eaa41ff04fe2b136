"""The verbs of the inbox as data: messages, deliveries, threads, waits, and who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import agents, notices, reading, taking, waiting
from jobwire.coordination.agents import Joining
from jobwire.coordination.message import Artifact, NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.stored import InboxMessage, delivery_json, thread_json
from jobwire.coordination.taking import TakingRules
from jobwire.coordination.verb_form import (
    FLAG,
    MOST,
    NUMBER,
    OBJECTS,
    TEXT,
    TEXTS,
    WHOLE,
    AgentVerb,
    artifact_fields,
    limit_of,
)
from jobwire.coordination.work_verbs import WORK_VERBS
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore


def _own(store: CoordinationStore, agent: str, thread_id: str) -> str:
    """Return the thread's id if the agent takes part in it; raises InvalidInputError (forbidden)."""
    if not _takes_part(store, agent, thread_id):
        raise InvalidInputError(
            f"{agent} takes no part in thread {thread_id}", hint="ask who does", code="forbidden"
        )
    return thread_id


def _takes_part(store: CoordinationStore, agent: str, thread_id: str) -> bool:
    thread, part = reading.thread_of(store, thread_id), reading.part_in(store, thread_id, agent)
    return part.leads or part.takes_part or thread.assigned_to in {agent, ""}


def _send(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    if "in_reply_to" in args:
        _own(store, agent, reading.message_of(store, args["in_reply_to"]).thread_id)
    if "thread_id" in args:
        _own(store, agent, args["thread_id"])
    for name in ("to", "acceptance"):
        args[name] = tuple(args.get(name, ()))
    artifacts = tuple(Artifact(*artifact_fields(one)) for one in args.pop("artifacts", ()))
    new = NewMessage(agent, **args, artifacts=artifacts)
    sent = send(store, new)
    return {**sent._asdict(), "seq": sent.event_id}


def _take(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    rules = TakingRules(**({"seconds": args["lease_seconds"]} if "lease_seconds" in args else {}))
    taken = taking.take(store, agent, incarnation=args.get("incarnation", ""), rules=rules)
    said = reading.message_json(store, taken.message)
    return {"message": said, "delivery": delivery_json(taken.delivery), "token": taken.token}


def _renew(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return {"delivery": delivery_json(taking.renew(store, agent, args["message"], token=args.get("token")))}


def _ack(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return {"delivery": delivery_json(taking.ack(store, agent, args["message"], token=args.get("token")))}


def _nack(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    held = taking.nack(
        store,
        agent,
        args["message"],
        args.get("reason", ""),
        token=args.get("token"),
        permanent=args.get("permanent", False),
    )
    return {"delivery": delivery_json(held)}


def _fetch(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    found = reading.fetch(
        store,
        agent,
        statuses=args.get("statuses") or (() if args.get("unread") else reading.FETCHED),
        limit=limit_of(args),
        unread=args.get("unread", False),
    )
    return {"threads": [thread_json(one) for one in found]}


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    thread = reading.thread_of(store, _own(store, agent, args["thread_id"]))
    found = reading.last_messages_of(store, thread.thread_id, limit_of(args))
    if found:
        taking.mark_read(store, agent, thread.thread_id, found[-1].seq)
    ways = reading.ways_in(store, thread.thread_id)
    said = [reading.message_json(store, one) | {"deliveries": ways.get(one.id, [])} for one in found]
    return {"thread": thread_json(thread), "messages": said}


def _list(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """List the threads that the agent takes part in."""
    found = reading.threads(
        store,
        agent=agent,
        statuses=args.get("statuses", ()),
        created_by=args.get("created_by"),
        assigned_to=args.get("assigned_to"),
        run_id=args.get("run_id"),
        limit=limit_of(args),
    )
    return {"threads": [thread_json(one) for one in found]}


def _wait_reply(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Look once: whoever is elsewhere sleeps there."""
    waited = waiting.wait_reply(
        store,
        agent=agent,
        thread_id=_own(store, agent, args["thread_id"]),
        seconds=0.0,
        after=args.get("after"),
        after_message=args.get("after_message"),
        kinds=args.get("kinds", ()),
    )
    return _waited(store, waited)


def _watch(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    waited = waiting.watch(
        store, agent=agent, seconds=0.0, statuses=args.get("statuses", ()), after=args.get("after")
    )
    return _waited(store, waited)


def _waited(store: CoordinationStore, waited: waiting.Waited) -> dict[str, object]:
    said: dict[str, object] = {"woke": waited.found is not None, "next_event_id": waited.next_event_id}
    if waited.found is not None and waited.found.thread_id:
        said["thread"] = thread_json(reading.thread_of(store, waited.found.thread_id))
    if waited.found is not None and waited.found.seq is not None:
        said["message"] = reading.message_json(store, reading.message_of(store, waited.found.seq))
    return said


def _search(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Search what the agent may read: messages of threads that it takes part in."""
    limit, below = limit_of(args), args.get("before")
    found: list[InboxMessage] = []
    for _ in range(_SEARCHES):
        page = reading.search(store, args["words"], below=below, limit=MOST)
        found += [one for one in page if _takes_part(store, agent, one.thread_id)]
        if len(found) >= limit or len(page) < MOST:
            break
        below = page[-1].seq
    return {"messages": [one.to_json() for one in found[:limit]]}


def _agents(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    now = store.clock.now()
    return {"agents": [view.to_json(now) for view in agents.present(store, run_id=args.get("run_id"))]}


def _join(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    # Nobody becomes a lead or a person by saying so: that is for whoever owns the home.
    with store.changing() as change:
        view = agents.resume(change, agent, Joining(**args))
    return {"agent": view.to_json(store.clock.now())}


def _notify(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    notice = notices.ask_for(store, agent, args["subject"], args["when"])
    return {"notice": notice.id, "agent": agent, "subject": notice.subject, "when": list(notice.when)}


def _leave(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del args
    with store.changing() as change:
        agents.leave(change, agent)
    return {"agent_id": agent}


# Pages of a search that are looked through for an agent to whom little of them is open.
_SEARCHES = 5
_LEASED = {"message": TEXT, "token": WHOLE}
INBOX_VERBS: Mapping[str, AgentVerb] = {
    "send": AgentVerb(
        {
            **dict.fromkeys(
                ("kind", "type", "summary", "body", "payload", "id", "thread_id", "subject"), TEXT
            ),
            **dict.fromkeys(("run_id", "task_id", "in_reply_to", "correlation_id", "risk", "priority"), TEXT),
            "to": TEXTS,
            "acceptance": TEXTS,
            "artifacts": OBJECTS,
            "expires_at_ms": WHOLE,
            "message_class": TEXT,
            "hop": WHOLE,
        },
        _send,
        changes=True,
        keeps=True,
    ),
    "take": AgentVerb({"lease_seconds": NUMBER, "incarnation": TEXT}, _take, changes=True),
    "renew": AgentVerb(_LEASED, _renew, ("message",), changes=True),
    "ack": AgentVerb(_LEASED, _ack, ("message",), changes=True, keeps=True),
    "nack": AgentVerb(
        {**_LEASED, "reason": TEXT, "permanent": FLAG}, _nack, ("message",), changes=True, keeps=True
    ),
    "fetch": AgentVerb({"statuses": TEXTS, "limit": WHOLE, "unread": FLAG}, _fetch),
    "show": AgentVerb({"thread_id": TEXT, "limit": WHOLE}, _show, ("thread_id",)),
    "list": AgentVerb(
        {**dict.fromkeys(("created_by", "assigned_to", "run_id"), TEXT), "statuses": TEXTS, "limit": WHOLE},
        _list,
    ),
    "wait-reply": AgentVerb(
        {"thread_id": TEXT, "after": WHOLE, "after_message": TEXT, "kinds": TEXTS},
        _wait_reply,
        ("thread_id",),
    ),
    "watch": AgentVerb({"statuses": TEXTS, "after": WHOLE}, _watch),
    "search": AgentVerb({"words": TEXT, "limit": WHOLE, "before": WHOLE}, _search, ("words",)),
    "agents": AgentVerb({"run_id": TEXT}, _agents),
    "join": AgentVerb(
        {
            "run_id": TEXT,
            "incarnation": TEXT,
            "host": TEXT,
            "pid": WHOLE,
            "interval_seconds": NUMBER,
            "status": TEXT,
        },
        _join,
        changes=True,
    ),
    "notify": AgentVerb(
        {"subject": TEXT, "when": TEXTS}, _notify, ("subject", "when"), changes=True, keeps=True
    ),
    "leave": AgentVerb({}, _leave, changes=True, keeps=True),
    **WORK_VERBS,
}
