"""What `inbox ask` does: a question of a thread's work, and the answer on stdout, at home and by a ticket."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jobwire.coordination.agent_verbs import do_verb
from jobwire.coordination.command import incarnation, who_am_i
from jobwire.coordination.message import first_line
from jobwire.coordination.places import open_store
from jobwire.core.errors import InvalidInputError, NoWorkError
from jobwire.core.terminal_text import safe
from jobwire.core.told import say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from jobwire.coordination.remote_agent import RemoteAgent

    Call = Callable[[str, dict[str, Any]], dict[str, Any]]


def ask(args: Namespace) -> int:
    """Ask, and wait for the answer."""
    do = partial(do_verb, open_store(args), who_am_i(args), keeps_leases=True)
    return _ask(args, do, lambda verb, asked: do(verb, {**asked, "seconds": args.timeout_seconds}))


def ask_by(agent: RemoteAgent, args: Namespace) -> int:
    """See `ask`; by a ticket."""
    from jobwire.coordination.remote_leases import LeasedAgent  # noqa: PLC0415 - away from the home

    leased = LeasedAgent(agent, incarnation=incarnation())
    return _ask(args, leased.call, partial(agent.wait, seconds=args.timeout_seconds))


def _ask(args: Namespace, call: Call, wait: Call) -> int:
    summary = first_line(args.text)
    if not summary:
        raise InvalidInputError("ask what?", hint='inbox ask "Push to main?" --thread ID')
    body = "" if args.text == summary else args.text
    question = {"thread_id": args.thread, "status": "blocked", "summary": summary, "body": body}
    given = {"choices": args.choice, "id": args.id, "token": args.token}
    asked = call("update", {**question, **{name: value for name, value in given.items() if value}})
    after = asked["event_id"]
    found = wait("wait-reply", {"thread_id": args.thread, "kinds": ["answer"], "after": after})
    if not found["woke"]:
        raise NoWorkError(
            f"no answer within {args.timeout_seconds:g} s; the question stays open",
            hint=f"inbox wait-reply --thread {args.thread} --kinds answer --after-event {after}",
            code="timeout",
            response={"woke": False, "next_event_id": after, "event_id": after},
        )
    message = found["message"]
    answer = message["body"] or message["summary"]
    cursor = {"next_event_id": found["next_event_id"], "event_id": found["next_event_id"]}
    say(
        args,
        {"woke": True, "answer": answer, "by": message["from_agent"], "message": message, **cursor},
        safe(answer),
    )
    return 0
