"""The verbs of dead letters as data: who has the home sees all, and others what they sent or were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import reading, taking
from jobwire.coordination.dead_letters import Chosen, Raised, buried, failed_task, raise_all, raise_task
from jobwire.coordination.message import DEFAULT_RUN
from jobwire.coordination.stored import delivery_json
from jobwire.coordination.tasks.stored import view_of
from jobwire.coordination.verb_form import FLAG, MOST, NUMBER, TEXT, WHOLE, AgentVerb, limit_of
from jobwire.core.errors import InvalidInputError, NoWorkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.tasks.states import Task
    from jobwire.coordination.verb_form import VerbBody

_AT_HOME = ("task_id", "all", "older_than", "force")


def _dead(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """List what was given up; for a `reader` the messages that it sent, or was sent."""
    del agent
    limit, reader = limit_of(args), args.get("reader")
    if reader is None:
        found = buried(store, _chosen(args)._replace(limit=limit))
        return {"dead": _letters(found.messages), "tasks": _tasks_json(store, found.tasks)}
    found = buried(store, _chosen(args)._replace(limit=MOST))
    return {"dead": _letters([one for one in found.messages if _concerns(reader, one)][:limit])}


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    if "task_id" in args:
        task = failed_task(store, args["task_id"], args.get("run_id", DEFAULT_RUN))
        return {"task": _tasks_json(store, [task])[0]}
    found = [
        one
        for one in taking.dead_deliveries_of(store, _named(args, "show"))
        if args.get("recipient") in {None, one.delivery.agent_id}
    ]
    deliveries = [delivery_json(one.delivery) for one in found]
    return {"message": reading.message_json(store, found[0].message), "deliveries": deliveries}


def _raises(*, drop: bool) -> VerbBody:
    """Return what brings dead letters back, or drops them."""

    def do(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
        force = args.get("force", False)
        if args.get("all"):
            chosen = _chosen(args)._replace(limit=limit_of(args))
            return _raised(store, raise_all(store, chosen, by=agent, drop=drop, force=force))
        if "task_id" in args:
            run_id = args.get("run_id", DEFAULT_RUN)
            task = raise_task(store, args["task_id"], run_id, by=agent, drop=drop, force=force)
            return _raised(store, Raised([], [task], []))
        name, recipient = _named(args, "drop" if drop else "redrive"), args.get("recipient")
        if drop:
            return _raised(store, Raised(taking.drop(store, name, recipient, by=agent), [], []))
        moved = taking.redrive(store, name, recipient, by=agent, force=force)
        return _raised(store, Raised(moved, [], []))

    return do


def _raised(store: CoordinationStore, raised: Raised) -> dict[str, object]:
    bodies = [delivery_json(one) for one in raised.deliveries]
    told: dict[str, object] = {
        "deliveries": bodies,
        "tasks": _tasks_json(store, raised.tasks),
        "refused": [{"id": name, "why": why} for name, why in raised.refused],
    }
    if not any(told.values()):
        told["event_id"] = store.latest_event()
        raise NoWorkError("nothing of that is dead", hint="`inbox dead list` shows what is", response=told)
    return {**told, "delivery": bodies[0]} if len(bodies) == 1 else told


def _reads_as_itself(_: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    _refuse_what_is_at_home(args)
    args["reader"] = agent


def _of_its_own(store: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    """Refuse another's letters; of a message to several the recipients that are left are its own."""
    _refuse_what_is_at_home(args)
    found = taking.dead_deliveries_of(store, _named(args, "show"))
    mine = [one for one in found if args.get("recipient") in {None, one.delivery.agent_id}]
    if not any(_concerns(agent, one) for one in mine):
        raise InvalidInputError(
            f"{agent} neither sent that message nor was it sent to {agent}",
            hint="its sender, its recipient and whoever has the home may",
            code="forbidden",
        )
    if agent != found[0].message.from_agent:
        args["recipient"] = agent


def _refuse_what_is_at_home(args: dict[str, Any]) -> None:
    if any(args.get(name) for name in _AT_HOME):
        raise InvalidInputError(
            "that needs the store's own disk",
            hint="by a ticket: inbox dead list, or show, redrive or drop MESSAGE",
        )


def _concerns(agent: str, dead: taking.Taken) -> bool:
    return agent in {dead.delivery.agent_id, dead.message.from_agent}


def _letters(found: Sequence[taking.Taken]) -> list[dict[str, object]]:
    return [{**delivery_json(one.delivery), "message": one.message.to_json()} for one in found]


def _tasks_json(store: CoordinationStore, tasks: Sequence[Task]) -> list[dict[str, object]]:
    now_ms = store.now_ms
    return [view_of(store, one).to_json(now_ms) for one in tasks]


def _chosen(args: dict[str, Any]) -> Chosen:
    older = args.get("older_than", 0.0)
    return Chosen(args.get("recipient"), args.get("run_id"), args.get("reason", ""), older)


def _named(args: dict[str, Any], action: str) -> str:
    if "message" not in args:
        raise InvalidInputError(f"which message? inbox dead {action} MESSAGE, or --task ID, or --all")
    return str(args["message"])


_ONE = {**dict.fromkeys(("message", "task_id", "run_id", "recipient"), TEXT)}
_MANY = {"recipient": TEXT, "run_id": TEXT, "reason": TEXT, "older_than": NUMBER, "limit": WHOLE}
_RAISED = {**_ONE, **_MANY, "all": FLAG, "force": FLAG}
DEAD_VERBS: Mapping[str, AgentVerb] = {
    "dead": AgentVerb({**_MANY, "reader": TEXT}, _dead, public=True, elsewhere=_reads_as_itself),
    "dead-show": AgentVerb(_ONE, _show, public=True, elsewhere=_of_its_own),
    "dead-redrive": AgentVerb(_RAISED, _raises(drop=False), changes=True, keeps=True, elsewhere=_of_its_own),
    "dead-drop": AgentVerb(_RAISED, _raises(drop=True), changes=True, keeps=True, elsewhere=_of_its_own),
}
