"""Commands that are verbs of agents: the same arguments, answers and words at home and by a ticket."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobwire.coordination.actions import NO_SUCH_WORDS, NOTHING_TO_FETCH
from jobwire.coordination.agent_port import claim_next
from jobwire.coordination.agent_verbs import do_verb, verb_named
from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.places import open_store, open_to_read
from jobwire.coordination.remote_requests import request_of
from jobwire.coordination.taking import STORE_AGENT
from jobwire.core.errors import ConflictError, NoWorkError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

# Where a list that is empty is no success: its name, and what is said.
_NOTHING = {
    "actions:fetch": ("threads", "nothing for you", NOTHING_TO_FETCH),
    "actions:search": ("messages", "no message that concerns you holds these words", NO_SUCH_WORDS),
}


def at_home(args: Namespace) -> int:
    """Do what the verb says in the store on this disk."""
    verb = args.runs.partition(":")[2]
    found = verb_named(verb)
    agent = STORE_AGENT if found.public else who_am_i(args)
    store = open_store(args) if found.changes else open_to_read(args)

    def locate(paths: Iterable[str]) -> list[str]:
        from jobwire.coordination.locks.targets import targets_of  # noqa: PLC0415 - for locks alone

        return targets_of(store, paths, run_id=args.run_id, root=args.root)

    asked, do = request_of(verb, args, locate), partial(do_verb, store, agent, keeps_leases=True)
    next_task = verb == "task-claim" and "task_id" not in asked
    say_answer(args, verb, claim_next(do, agent, asked) if next_task else do(verb, asked))
    return 0


def say_answer(args: Namespace, verb: str, found: dict[str, Any]) -> None:
    """Print what a verb answered; raises where that is no success: nothing found, or agents in a circle."""
    if verb == "lock-acquire":
        del found["woke"]
    if hint := _NOTHING.get(args.runs):
        name, words, remedy = hint
        if not found[name]:
            raise NoWorkError(words, hint=remedy, response=found)
    if circles := found.get("deadlocks"):
        raise ConflictError(
            "; ".join(" -> ".join([*circle, circle[0]]) for circle in circles),
            hint="one of them must release what it holds, or be stopped",
            code="deadlock",
            response=found,
        )
    say(args, found, lambda: _words(verb, found))


def _words(verb: str, found: dict[str, Any]) -> str:
    from jobwire.coordination.remote_text import remote_text  # noqa: PLC0415 - programs need none of it

    return remote_text(verb, found)
