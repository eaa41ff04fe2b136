"""What `inbox ask` does: a question of a thread's work, and the answer on stdout, at home and by a ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination.command import incarnation, say, who_am_i
from jobwire.coordination.message import NewMessage, first_line
from jobwire.core.errors import InvalidInputError, NoWorkError
from jobwire.core.terminal_text import safe

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.remote_agent import RemoteAgent

_ANSWERS = ("answer",)


def ask(args: Namespace) -> int:
    """Ask, and wait for the answer."""
    from jobwire.coordination.places import open_store  # noqa: PLC0415 - where the home is
    from jobwire.coordination.reading import message_of  # noqa: PLC0415 - as above
    from jobwire.coordination.waiting import wait_reply  # noqa: PLC0415 - as above
    from jobwire.coordination.work import ThreadWork  # noqa: PLC0415 - as above

    agent, store = who_am_i(args), open_store(args)
    summary, body = _words(args)
    new = NewMessage(agent, id=args.id, thread_id=args.thread, summary=summary, body=body)
    work = ThreadWork(store, agent, incarnation=incarnation())
    after = work.update(new, "blocked", token=args.token, choices=args.choice).posted.event_id
    waited = wait_reply(
        store,
        agent=agent,
        thread_id=args.thread,
        seconds=args.timeout_seconds,
        after=after,
        kinds=_ANSWERS,
    )
    if waited.found is None or waited.found.seq is None:
        raise _unanswered(args, after)
    message = message_of(store, waited.found.seq).to_json()
    return _say(args, {"message": message, "next_event_id": waited.next_event_id})


def ask_by(agent: RemoteAgent, args: Namespace) -> int:
    """See `ask`; by a ticket."""
    from jobwire.coordination.remote_leases import LeasedAgent  # noqa: PLC0415 - away from the home

    summary, body = _words(args)
    question = {"thread_id": args.thread, "status": "blocked", "summary": summary, "body": body}
    question["choices"] = args.choice
    if args.id:
        question["id"] = args.id
    leased = LeasedAgent(agent, incarnation=incarnation())
    asked: dict[str, Any] = leased.call("update", question, token=args.token)
    wanted = {"thread_id": args.thread, "kinds": list(_ANSWERS), "after": asked["event_id"]}
    found = agent.wait("wait-reply", wanted, args.timeout_seconds)
    if not found["woke"]:
        raise _unanswered(args, asked["event_id"])
    return _say(args, {name: found[name] for name in ("message", "next_event_id")})


def _words(args: Namespace) -> tuple[str, str]:
    summary = first_line(args.text)
    if not summary:
        raise InvalidInputError("ask what?", hint='inbox ask "Push to main?" --thread ID')
    return summary, "" if args.text == summary else args.text


def _unanswered(args: Namespace, after: int) -> NoWorkError:
    return NoWorkError(
        f"no answer within {args.timeout_seconds:g} s; the question stays open",
        hint=f"inbox wait-reply --thread {args.thread} --kinds answer --after-event {after}",
        code="timeout",
        response={"woke": False, "next_event_id": after, "event_id": after},
    )


def _say(args: Namespace, found: dict[str, Any]) -> int:
    message = found["message"]
    answer = message["body"] or message["summary"]
    said = {"woke": True, "answer": answer, "by": message["from_agent"], **found}
    say(args, {**said, "event_id": found["next_event_id"]}, safe(answer))
    return 0
