"""The verbs of who is there as data: join, leave, and the list of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.verb_form import NUMBER, TEXT, TEXTS, WHOLE, AgentVerb
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore


def _agents(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del agent
    now = store.clock.now()
    return {"agents": [view.to_json(now) for view in agents.present(store, run_id=args.get("run_id"))]}


def _join(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    """Join as what is named, else as what the home has made of the agent."""
    begin = agents.join if "kind" in args else agents.resume
    joining = Joining(**{**args, "roles": tuple(args.get("roles", ()))})
    with store.changing() as change:
        view = begin(change, agent, joining)
    return {"agent": view.to_json(store.clock.now())}


def _join_elsewhere(_: CoordinationStore, agent: str, args: dict[str, Any]) -> None:
    # Nobody becomes a lead or a person by saying so: that is for whoever owns the home.
    if "kind" in args or "roles" in args:
        raise InvalidInputError(
            f"{agent} joins as what its home has made of it",
            hint="`jobwire agent join --kind` where the home is",
            code="forbidden",
        )


def _leave(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    del args
    with store.changing() as change:
        agents.leave(change, agent)
    return {"agent_id": agent}


JOINING_VERBS: Mapping[str, AgentVerb] = {
    "agents": AgentVerb({"run_id": TEXT}, _agents, public=True),
    "join": AgentVerb(
        {
            **dict.fromkeys(("kind", "run_id", "incarnation", "host", "status"), TEXT),
            "roles": TEXTS,
            "pid": WHOLE,
            "interval_seconds": NUMBER,
        },
        _join,
        changes=True,
        elsewhere=_join_elsewhere,
    ),
    "leave": AgentVerb({}, _leave, changes=True, keeps=True),
}
