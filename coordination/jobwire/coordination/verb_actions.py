"""Commands that are verbs of agents: the same arguments, answers and words at home and by a ticket."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobwire.coordination.agent_verbs import do_verb, verb_named
from jobwire.coordination.command import who_am_i
from jobwire.coordination.message import STORE_AGENT
from jobwire.coordination.places import open_store, open_to_read
from jobwire.coordination.remote_requests import LISTS, request_of
from jobwire.core.errors import ConflictError, NoWorkError
from jobwire.core.told import at_most, say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

# Where a list that is empty is no success: its name, what is said, and a remedy.
_NOTHING = {
    "fetch": ("threads", "nothing for you", "`inbox watch` waits for something"),
    "search": ("messages", "no message that you may read holds these words", "word* finds any ending"),
}
_MISSING = {"wait-reply": "no reply in the thread", "watch": "nothing for you"}


def at_home(args: Namespace) -> int:
    """Do what the verb says in the store on this disk."""
    verb = verb_of(args)
    found = verb_named(verb)
    agent = STORE_AGENT if found.public else who_am_i(args)
    store = open_store(args) if found.changes else open_to_read(args)

    def locate(paths: Iterable[str]) -> list[str]:
        from jobwire.coordination.locks.targets import targets_of  # noqa: PLC0415 - for locks alone

        return targets_of(store, paths, run_id=args.run_id, root=args.root)

    asked, do = request_of(verb, args, locate), partial(do_verb, store, agent, keeps_leases=True)
    answer: Any
    if verb == "task-claim" and "task_id" not in asked:
        from jobwire.coordination.agent_port import claim_next  # noqa: PLC0415 - for tasks alone
        from jobwire.coordination.marks import catch_up  # noqa: PLC0415 - as above

        catch_up(store)  # what is ready follows from how jobs ended
        answer = claim_next(do, agent, asked)
    else:
        answer = do(verb, asked)
    if getattr(args, "direct", False) and (job_id := answer["thread"]["job_id"]) is not None:
        from jobwire.coordination.direct import send_at_once  # noqa: PLC0415 - brings the broker's client

        answer["delivered"] = send_at_once(store, job_id)
    say_answer(args, verb, answer)
    return 0


def verb_of(args: Namespace) -> str:
    """Return the name of the verb that the command is."""
    verb: str = args.runs.partition(":")[2]
    return f"{verb}-{args.action}" if verb == "dead" and args.action != "list" else verb


def say_answer(args: Namespace, verb: str, found: dict[str, Any]) -> None:
    """Print what a verb answered; raises where that is no success: nothing found, or agents in a circle."""
    if verb == "lock-acquire":
        del found["woke"]
    if verb in _MISSING:
        woken(found, args.timeout_seconds, _MISSING[verb])
    for name in LISTS.get(verb, ()):
        if name in found:
            found[name] = at_most(args, found[name])
    if verb in _NOTHING:
        name, words, remedy = _NOTHING[verb]
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


def woken(found: dict[str, Any], seconds: float, missing: str = "nothing came") -> None:
    """Raise NoWorkError (timeout) where a wait found nothing."""
    if not found["woke"]:
        again = f" with --after-event {found['next_event_id']}" if "next_event_id" in found else ""
        raise NoWorkError(
            f"{missing} within {seconds:g} s", hint=f"wait again{again}", code="timeout", response=found
        )


def _words(verb: str, found: dict[str, Any]) -> str:
    from jobwire.coordination.remote_text import remote_text  # noqa: PLC0415 - programs need none of it

    return remote_text(verb, found)
