"""The verbs of an agent as data: a name and arguments in, what `--json` prints out.

One table for whoever does not call Python functions with a store at hand: agents on other hosts first. Who
speaks is not an argument: it is known from the key under which something was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jobwire.coordination import agents, reading, taking, waiting
from jobwire.coordination.agents import Joining
from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.message import Artifact, NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.stored import delivery_json, thread_json
from jobwire.coordination.taking import TakingRules
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.coordination.store import CoordinationStore

_MOST = 1000
_TEXT, _WHOLE, _NUMBER, _FLAG, _TEXTS = (
    "a text",
    "a whole number",
    "a number",
    "true or false",
    "a list of texts",
)
_OBJECTS = "a list of objects"
_FITS: Mapping[str, Callable[[object], bool]] = {
    _TEXT: lambda value: isinstance(value, str),
    _WHOLE: lambda value: type(value) is int and abs(value) < 2**62,
    _NUMBER: lambda value: type(value) in (int, float),
    _FLAG: lambda value: isinstance(value, bool),
    _TEXTS: lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    _OBJECTS: lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
}


class AgentVerb(NamedTuple):
    """What one verb takes, as names and kinds, and what it does.

    `changes`: it must be done once, however often it is asked for; `keeps`: it is worth sending later.
    """

    takes: Mapping[str, str]
    does: Callable[[CoordinationStore, str, dict[str, Any]], dict[str, object]]
    needs: tuple[str, ...] = ()
    changes: bool = False
    keeps: bool = False


def call(store: CoordinationStore, agent: str, verb: str, args: Mapping[str, object]) -> dict[str, object]:
    """Do what `agent` asks for; raises JobwireError as the functions behind it do."""
    found = verb_named(verb)
    for name, value in args.items():
        kind = found.takes.get(name)
        if kind is None:
            raise InvalidInputError(
                f"{verb} takes no {name!r:.80}", hint=f"it takes {', '.join(found.takes)}"
            )
        if not _FITS[kind](value):
            raise InvalidInputError(f"{name} of {verb} is not {kind}")
    for name in found.needs:
        if name not in args:
            raise InvalidInputError(f"{verb} needs {name}")
    return {**found.does(store, agent, dict(args)), "event_id": store.latest_event()}


def verb_named(verb: str) -> AgentVerb:
    """Return the verb; raises InvalidInputError for none."""
    if verb not in VERBS_OF_AGENTS:
        raise InvalidInputError(f"there is no verb {verb!r:.80}", hint=f"one of {', '.join(VERBS_OF_AGENTS)}")
    return VERBS_OF_AGENTS[verb]


def _own(store: CoordinationStore, agent: str, thread_id: str) -> str:
    """Return the thread's id if the agent takes part in it; raises InvalidInputError (forbidden)."""
    thread, part = reading.thread_of(store, thread_id), reading.part_in(store, thread_id, agent)
    if not (part.leads or part.takes_part or thread.assigned_to in {agent, ""}):
        raise InvalidInputError(
            f"{agent} takes no part in thread {thread_id}", hint="ask who does", code="forbidden"
        )
    return thread_id


def _send(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    if "in_reply_to" in args:
        _own(store, agent, reading.message_of(store, args["in_reply_to"]).thread_id)
    if "thread_id" in args:
        _own(store, agent, args["thread_id"])
    for name in ("to", "acceptance"):
        args[name] = tuple(args.get(name, ()))
    artifacts = tuple(_artifact(one) for one in args.pop("artifacts", ()))
    new = NewMessage(agent, **args, artifacts=artifacts)
    sent = send(store, new)
    return {**sent._asdict(), "seq": sent.event_id}


def _artifact(value: dict[str, Any]) -> Artifact:
    path, kind = value.get("path"), value.get("kind", "file")
    if not isinstance(path, str) or not isinstance(kind, str) or value.keys() - {"path", "kind"}:
        raise InvalidInputError("an artifact is an object with path and kind")
    return Artifact(path, kind)


def _take(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    rules = TakingRules(**({"seconds": args["lease_seconds"]} if "lease_seconds" in args else {}))
    taken = taking.take(store, agent, incarnation=args.get("incarnation", ""), rules=rules)
    said = taken.message.to_json(BlobFolder(store.home), reading.artifacts_of(store, taken.message.id))
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
        limit=_limit(args),
        unread=args.get("unread", False),
    )
    return {"threads": [thread_json(one) for one in found]}


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    thread = reading.thread_of(store, _own(store, agent, args["thread_id"]))
    found = reading.last_messages_of(store, thread.thread_id, _limit(args))
    blobs = BlobFolder(store.home)
    if found:
        taking.mark_read(store, agent, thread.thread_id, found[-1].seq)
    said = [one.to_json(blobs, reading.artifacts_of(store, one.id)) for one in found]
    return {"thread": thread_json(thread), "messages": said}


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
        found = reading.message_of(store, waited.found.seq)
        said["message"] = found.to_json(BlobFolder(store.home), reading.artifacts_of(store, found.id))
    return said


def _agents(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    now = store.clock.now()
    return {"agents": [view.to_json(now) for view in agents.present(store, run_id=args.get("run_id"))]}


def _join(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    # Nobody becomes a lead or a person by saying so: that is for whoever owns the home.
    with store.changing() as change:
        view = agents.resume(change, agent, Joining(**args))
    return {"agent": view.to_json(store.clock.now())}


def _leave(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del args
    with store.changing() as change:
        agents.leave(change, agent)
    return {"agent_id": agent}


def _limit(args: dict[str, Any]) -> int:
    limit: int = args.get("limit", 20)
    if not 1 <= limit <= _MOST:
        raise InvalidInputError(f"limit is {limit}", hint=f"from 1 to {_MOST}")
    return limit


_LEASED = {"message": _TEXT, "token": _WHOLE}
VERBS_OF_AGENTS: Mapping[str, AgentVerb] = {
    "send": AgentVerb(
        {
            **dict.fromkeys(
                ("kind", "type", "summary", "body", "payload", "id", "thread_id", "subject"), _TEXT
            ),
            **dict.fromkeys(
                ("run_id", "task_id", "in_reply_to", "correlation_id", "risk", "priority"), _TEXT
            ),
            "to": _TEXTS,
            "acceptance": _TEXTS,
            "artifacts": _OBJECTS,
            "expires_at_ms": _WHOLE,
            "message_class": _TEXT,
            "hop": _WHOLE,
        },
        _send,
        changes=True,
        keeps=True,
    ),
    "take": AgentVerb({"lease_seconds": _NUMBER, "incarnation": _TEXT}, _take, changes=True),
    "renew": AgentVerb(_LEASED, _renew, ("message",), changes=True),
    "ack": AgentVerb(_LEASED, _ack, ("message",), changes=True, keeps=True),
    "nack": AgentVerb(
        {**_LEASED, "reason": _TEXT, "permanent": _FLAG}, _nack, ("message",), changes=True, keeps=True
    ),
    "fetch": AgentVerb({"statuses": _TEXTS, "limit": _WHOLE, "unread": _FLAG}, _fetch),
    "show": AgentVerb({"thread_id": _TEXT, "limit": _WHOLE}, _show, ("thread_id",)),
    "wait-reply": AgentVerb(
        {"thread_id": _TEXT, "after": _WHOLE, "after_message": _TEXT, "kinds": _TEXTS},
        _wait_reply,
        ("thread_id",),
    ),
    "watch": AgentVerb({"statuses": _TEXTS, "after": _WHOLE}, _watch),
    "agents": AgentVerb({"run_id": _TEXT}, _agents),
    "join": AgentVerb(
        {
            "run_id": _TEXT,
            "incarnation": _TEXT,
            "host": _TEXT,
            "pid": _WHOLE,
            "interval_seconds": _NUMBER,
            "status": _TEXT,
        },
        _join,
        changes=True,
    ),
    "leave": AgentVerb({}, _leave, changes=True, keeps=True),
}
