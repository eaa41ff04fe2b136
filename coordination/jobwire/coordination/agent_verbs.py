"""The verbs of an agent as data: a name and arguments in, what `--json` prints out.

One table for whoever does not call Python functions with a store at hand: commands, tools, agents on other
hosts. Who speaks is not an argument: it is known from the key under which something was said.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from jobwire.coordination.command import incarnation
from jobwire.coordination.marks import catch_up
from jobwire.coordination.verb_form import MOST, limit_of
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.verb_form import AgentVerb

# By the first part of their names, or by their names, else the inbox's: a command brings the code of its own
# group alone.
_GROUPS = {
    "board": "board_verbs:BOARD_VERBS",
    "dead": "dead_verbs:DEAD_VERBS",
    "lock": "lock_verbs:LOCK_VERBS",
    "task": "task_verbs:TASK_VERBS",
}
_GROUPS |= dict.fromkeys(("take", "renew", "ack", "nack"), "delivery_verbs:DELIVERY_VERBS")
_GROUPS |= dict.fromkeys(("agents", "join", "leave"), "joining_verbs:JOINING_VERBS")
_GROUPS |= dict.fromkeys(("wait-reply", "watch", "notify"), "waiting_verbs:WAITING_VERBS")
_GROUPS |= dict.fromkeys(
    ("claim", "renew-claim", "update", "done", "fail", "cancel", "reply"), "work_verbs:WORK_VERBS"
)
_INBOX = "inbox_verbs:INBOX_VERBS"


def call(store: CoordinationStore, agent: str, verb: str, args: Mapping[str, object]) -> dict[str, object]:
    """Do what `agent` asks for, wherever it is; raises JobwireError as the functions behind it do."""
    found, asked = verb_named(verb), dict(args)
    if found.commands:
        raise needs_the_home(verb)
    found.check(verb, asked)
    if limit_of(asked) > MOST:
        raise InvalidInputError(f"limit is {asked['limit']}", hint=f"from 1 to {MOST}")
    if not found.changes:
        # What changes something may be within a transaction, in which no job is looked at.
        catch_up(store)
    if found.elsewhere is not None:
        found.elsewhere(store, agent, asked)
    return do_verb(store, agent, verb, asked)


def do_verb(
    store: CoordinationStore,
    agent: str,
    verb: str,
    args: Mapping[str, object],
    *,
    keeps_leases: bool = False,
) -> dict[str, object]:
    """Do it in a store that is as its jobs are; `keeps_leases`: what it is granted is kept in the home."""
    found = verb_named(verb)
    found.check(verb, args)
    asked = dict(args)
    if keeps_leases and found.crosses:
        asked |= {"keeps_leases": True, "incarnation": incarnation()}
    said = found.does(store, agent, asked)
    # What it says of itself counts: others may have changed something since.
    return {"event_id": store.latest_event(), **said}


def verb_named(verb: str) -> AgentVerb:
    """Return the verb; raises InvalidInputError for none."""
    group = _GROUPS.get(verb) or _GROUPS.get(verb.partition("-")[0], _INBOX)
    found = _verbs_in(group).get(verb)
    if found is None:
        names = ", ".join(verbs_of_agents())
        raise InvalidInputError(f"there is no verb {verb!r:.80}", hint=f"one of {names}")
    return found


def needs_the_home(verb: str) -> InvalidInputError:
    """Return the error for what no ticket is enough for."""
    return InvalidInputError(
        f"{verb} needs the store's own disk", hint="leave --ticket out, where the home is"
    )


def verbs_of_agents() -> dict[str, AgentVerb]:
    """Return all verbs by their names."""
    return {
        name: verb
        for group in dict.fromkeys((_INBOX, *_GROUPS.values()))
        for name, verb in _verbs_in(group).items()
    }


def following(asked: Mapping[str, object], found: Mapping[str, object]) -> dict[str, object]:
    """Return what to ask next, where a look of a wait found nothing: from where it ended."""
    kept = {name: value for name, value in asked.items() if name != "after_message"}
    if "next_event_id" in found:
        kept["after"] = found["next_event_id"]
    if "waiting" in found:
        kept["waiting"] = found["waiting"]
    return kept


def _verbs_in(group: str) -> Mapping[str, AgentVerb]:
    module, _, name = group.partition(":")
    found: Mapping[str, AgentVerb] = getattr(importlib.import_module(f"jobwire.coordination.{module}"), name)
    return found
