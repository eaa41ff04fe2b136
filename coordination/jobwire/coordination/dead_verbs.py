"""The verbs of dead letters as data: an agent sees what it sent or was sent, and brings that back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobwire.coordination import reading, taking
from jobwire.coordination.dead_letters import Chosen, buried
from jobwire.coordination.stored import delivery_json
from jobwire.coordination.verb_form import MOST, TEXT, WHOLE, AgentVerb, limit_of
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.coordination.delivery import InboxDelivery
    from jobwire.coordination.store import CoordinationStore


def _concerns(agent: str, dead: taking.Taken) -> bool:
    return agent in {dead.delivery.agent_id, dead.message.from_agent}


def _dead(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """List what was given up of what the agent sent, or was sent."""
    chosen = Chosen(args.get("recipient"), args.get("run_id"), args.get("reason", ""), limit=MOST)
    found = [one for one in buried(store, chosen).messages if _concerns(agent, one)]
    bodies = [{**delivery_json(one.delivery), "message": one.message.to_json()} for one in found]
    return {"dead": bodies[: limit_of(args)]}


def _dead_of(store: CoordinationStore, agent: str, args: dict[str, Any]) -> list[taking.Taken]:
    """Return the dead deliveries of a message that concern the agent; raises InvalidInputError."""
    found = [
        one
        for one in taking.dead_deliveries_of(store, args["message"])
        if _concerns(agent, one) and args.get("recipient") in {None, one.delivery.agent_id}
    ]
    if not found:
        raise InvalidInputError(
            f"{agent} neither sent that message nor was it sent to {agent}",
            hint="its sender, its recipient and whoever has the home may",
            code="forbidden",
        )
    return found


def _show(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    found = _dead_of(store, agent, args)
    return {
        "message": reading.message_json(store, found[0].message),
        "deliveries": [delivery_json(one.delivery) for one in found],
    }


def _redrive(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return _each(_dead_of(store, agent, args), partial(taking.redrive, store, by=agent))


def _drop(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return _each(_dead_of(store, agent, args), partial(taking.drop, store, by=agent))


def _each(found: list[taking.Taken], move: Callable[[str, str], list[InboxDelivery]]) -> dict[str, object]:
    moved = [held for one in found for held in move(one.message.id, one.delivery.agent_id)]
    return {"deliveries": [delivery_json(one) for one in moved]}


_ONE = {"message": TEXT, "recipient": TEXT}
_NEEDED = ("message",)
DEAD_VERBS: Mapping[str, AgentVerb] = {
    "dead": AgentVerb({**dict.fromkeys(("recipient", "run_id", "reason"), TEXT), "limit": WHOLE}, _dead),
    "dead-show": AgentVerb({"message": TEXT}, _show, _NEEDED),
    "dead-redrive": AgentVerb(_ONE, _redrive, _NEEDED, changes=True, keeps=True),
    "dead-drop": AgentVerb(_ONE, _drop, _NEEDED, changes=True, keeps=True),
}
