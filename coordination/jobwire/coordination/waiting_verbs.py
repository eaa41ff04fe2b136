"""The verbs of waiting as data: asleep, or until one is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import notices, reading, waiting
from jobwire.coordination.inbox_verbs import check_part
from jobwire.coordination.stored import thread_json
from jobwire.coordination.verb_form import NUMBER, TEXT, TEXTS, WHOLE, AgentVerb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore


def _wait_reply(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    waited = waiting.wait_reply(
        store,
        agent=agent,
        thread_id=args["thread_id"],
        seconds=args.get("seconds", 0.0),
        after=args.get("after"),
        after_message=args.get("after_message"),
        kinds=args.get("kinds", ()),
    )
    return _waited(store, waited)


def _watch(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    waited = waiting.watch(
        store,
        agent=agent,
        seconds=args.get("seconds", 0.0),
        statuses=args.get("statuses", ()),
        after=args.get("after"),
    )
    return _waited(store, waited)


def _waited(store: CoordinationStore, waited: waiting.Waited) -> dict[str, object]:
    cursor = {"next_event_id": waited.next_event_id, "event_id": waited.next_event_id}
    said: dict[str, object] = {"woke": waited.found is not None, **cursor}
    if waited.found is not None and waited.found.thread_id:
        said["thread"] = thread_json(reading.thread_of(store, waited.found.thread_id))
    if waited.found is not None and waited.found.seq is not None:
        said["message"] = reading.message_json(store, reading.message_of(store, waited.found.seq))
    return said


def _looks_once(store: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    """Look once: whoever is elsewhere sleeps there."""
    args.pop("seconds", None)
    if "thread_id" in args:
        check_part(store, agent, args["thread_id"])


def _notify(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Ask to be told, and tell at once what holds already."""
    notice = notices.ask_for(store, agent, args["subject"], args["when"])
    if not store.joined:
        notices.tell_due(store)
    told = {"agent": agent, "subject": notice.subject, "when": list(notice.when)}
    return {"notice": notice.id, **told, "event_id": notice.since}


WAITING_VERBS: Mapping[str, AgentVerb] = {
    "wait-reply": AgentVerb(
        {"thread_id": TEXT, "after": WHOLE, "after_message": TEXT, "kinds": TEXTS, "seconds": NUMBER},
        _wait_reply,
        ("thread_id",),
        elsewhere=_looks_once,
    ),
    "watch": AgentVerb({"statuses": TEXTS, "after": WHOLE, "seconds": NUMBER}, _watch, elsewhere=_looks_once),
    "notify": AgentVerb(
        {"subject": TEXT, "when": TEXTS}, _notify, ("subject", "when"), changes=True, keeps=True
    ),
}
