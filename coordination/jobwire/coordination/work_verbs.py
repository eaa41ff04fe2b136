"""The verbs of threads of work as data: claim, renew, update, done, fail, cancel, reply.

Each crosses the store and a job's record, under the record's lock; `id` is the message's, so that what is
asked for twice is said once. The lease of whoever speaks from elsewhere lies there: each request names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwire.coordination import replying
from jobwire.coordination.inbox_verbs import posted_json
from jobwire.coordination.reading import message_of
from jobwire.coordination.verb_form import NUMBER, TEXT, TEXTS, WORDS, AgentVerb, words_of
from jobwire.coordination.work import ThreadWork
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.coordination.store import CoordinationStore


def _work(store: CoordinationStore, agent: str, args: dict[str, Any]) -> ThreadWork:
    return ThreadWork(store, agent, **seat_of(args))


def seat_of(args: dict[str, Any]) -> dict[str, Any]:
    """Return in which life an agent works, and whether its leases lie in the home or with whoever speaks."""
    keeps = args.get("keeps_leases", False)
    return {
        "incarnation": str(args.get("incarnation", "")),
        "environ": None if keeps else {},
        "keeps_leases": keeps,
    }


def _claim(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    seconds = args.get("lease_seconds", DEFAULT_LEASE_SECONDS)
    return _work(store, agent, args).claim(args["thread_id"], seconds).to_json()


def _renew(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    work = _work(store, agent, args)
    return work.renew(args["thread_id"], args.get("lease_seconds"), token=args.get("token")).to_json()


def _update(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    said = _work(store, agent, args).update(
        words_of(agent, "progress", args),
        args.get("status", "in_progress"),
        token=args.get("token"),
        choices=args.get("choices", ()),
    )
    return said.to_json()


def _done(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return _work(store, agent, args).done(words_of(agent, "result", args), token=args.get("token")).to_json()


def _fail(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    return _work(store, agent, args).fail(words_of(agent, "result", args), token=args.get("token")).to_json()


def _cancel(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    work = _work(store, agent, args)
    return work.cancel(args["thread_id"], args.get("reason", ""), message_id=args.get("id", "")).to_json()


def _reply(store: CoordinationStore, agent: str, args: dict[str, Any]) -> dict[str, object]:
    if "thread_id" not in args and "in_reply_to" not in args:
        raise InvalidInputError("reply needs thread_id or in_reply_to")
    if "thread_id" not in args:
        args["thread_id"] = message_of(store, args["in_reply_to"]).thread_id
    new = words_of(agent, args.get("kind", replying.ANSWER), args)
    new = new._replace(to=tuple(args.get("to", ())), in_reply_to=args.get("in_reply_to"))
    posted, request = replying.reply(store, new, request=args.get("request"))
    return {**posted_json(store, posted), "request": request}


_WORK = {"thread_id": TEXT, "incarnation": TEXT}
_HELD = {**_WORK, "token": TEXT}
_THREAD = ("thread_id",)
# Claims are not kept: whoever wants to work now does not want it tomorrow.
WORK_VERBS: Mapping[str, AgentVerb] = {
    "claim": AgentVerb({**_WORK, "lease_seconds": NUMBER}, _claim, _THREAD, changes=True, crosses=True),
    "renew-claim": AgentVerb({**_HELD, "lease_seconds": NUMBER}, _renew, _THREAD, changes=True, crosses=True),
    "update": AgentVerb(
        {**_HELD, **WORDS, "status": TEXT, "choices": TEXTS},
        _update,
        _THREAD,
        changes=True,
        keeps=True,
        crosses=True,
    ),
    "done": AgentVerb({**_HELD, **WORDS}, _done, _THREAD, changes=True, keeps=True, crosses=True),
    "fail": AgentVerb({**_HELD, **WORDS}, _fail, _THREAD, changes=True, keeps=True, crosses=True),
    "cancel": AgentVerb(
        {**_WORK, "reason": TEXT, "id": TEXT}, _cancel, _THREAD, changes=True, keeps=True, crosses=True
    ),
    "reply": AgentVerb(
        {**_WORK, **WORDS, "to": TEXTS, "kind": TEXT, "type": TEXT, "in_reply_to": TEXT, "request": TEXT},
        _reply,
        changes=True,
        keeps=True,
        crosses=True,
    ),
}
