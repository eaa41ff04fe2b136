"""The commands of agents by a ticket: the same arguments and the same output, over MQTT.

A command is a verb of an agent; `remote_requests` makes requests of arguments.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.coordination.agent_actions import beat_by
from jobwire.coordination.agent_verbs import needs_the_home, verb_named, verbs_of_agents
from jobwire.coordination.asking_actions import ask_by
from jobwire.coordination.command import incarnation
from jobwire.coordination.remote_agent import RemoteAgent
from jobwire.coordination.remote_leases import LeasedAgent
from jobwire.coordination.remote_requests import request_of
from jobwire.coordination.verb_actions import say_answer, verb_of, woken
from jobwire.core.errors import InvalidInputError, UnreachableError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

_ACQUIRE = "lock-acquire"
# Commands that cross under another name than that of what runs them in the home.
_VERBS = {"locks.actions:lock_wait": "lock-free"}
# What is asked again until it is there.
_WAITED = frozenset({"watch", "wait-reply", _ACQUIRE, "lock-free", "board-wait"})
# These need neither store nor wire.
_LOCAL = frozenset({"locks.actions:lock_hook"})


def by_ticket(args: Namespace) -> int:
    """Do what the verb says for the agent of the ticket."""
    if args.runs in _LOCAL:
        from jobwire.coordination.locks.actions import lock_hook  # noqa: PLC0415 - once a repository

        return lock_hook(args)
    path = Path(args.ticket or os.environ["JOBWIRE_TICKET"])
    does = _doing(args)
    with RemoteAgent(path, present=does is beat_by) as agent:
        named = args.agent or os.environ.get("JOBWIRE_AGENT")
        if named and named != agent.agent:
            raise InvalidInputError(f"this is the ticket of {agent.agent}, not of {named}", code="forbidden")
        return does(agent, args)


def _doing(args: Namespace) -> Callable[[RemoteAgent, Namespace], int]:
    """Return what does it; raises InvalidInputError where a ticket is not enough."""
    if own := {"agent_actions:beat": beat_by, "asking_actions:ask": ask_by}.get(args.runs):
        return own
    verb = _VERBS.get(args.runs) or verb_of(args).replace("_", "-")
    if verb not in verbs_of_agents() or verb_named(verb).commands:
        raise needs_the_home(args.verb)
    return partial(_cross, verb)


def _cross(verb: str, agent: RemoteAgent, args: Namespace) -> int:
    if verb in _WAITED and not (verb == _ACQUIRE and not args.wait):
        return _waited(agent, args, verb)
    say_answer(args, verb, _asked(agent, args, verb))
    return 0


def _asked(agent: RemoteAgent, args: Namespace, verb: str) -> dict[str, object]:
    asked = request_of(verb, args)
    found = LeasedAgent(agent, incarnation=incarnation()).call(verb, asked)
    while isinstance(more := found.pop("more", None), dict):
        # What did not fit into one answer.
        page = agent.call(verb, {**asked, **more})
        lists = {name: value for name, value in found.items() if isinstance(value, list)}
        found = {**page, **{name: [*value, *page[name]] for name, value in lists.items()}}  # type: ignore[misc]
    return found


def _waited(agent: RemoteAgent, args: Namespace, verb: str) -> int:
    seconds = args.wait if verb == _ACQUIRE else args.timeout_seconds
    found = agent.wait(verb, request_of(verb, args), seconds)
    if waiting := found.pop("waiting", None):
        # Who cannot say so loses its place a minute later.
        with contextlib.suppress(UnreachableError):
            agent.call("lock-leave", {"waiting": waiting, "run_id": args.run_id})
    woken(found, seconds)
    say_answer(args, verb, found)
    return 0
