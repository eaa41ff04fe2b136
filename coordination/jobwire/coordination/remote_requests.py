"""Requests of agents, at home and on other hosts, made of the arguments of their commands.

What a verb takes (`verb_form`) is asked for: each argument is the option of its name, or of the name in
`_OPTIONS`. Where that is not all, `_MORE` names what adds to it, or refuses.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwire.coordination.actions import body_of, said
from jobwire.coordination.agent_verbs import verb_named
from jobwire.coordination.boards.statements import MAX_PROPOSAL, MAX_RESOLUTION
from jobwire.coordination.locks.targets import canonical
from jobwire.coordination.message import NewMessage, split_words
from jobwire.coordination.verb_form import MOST, TEXTS
from jobwire.core.errors import InvalidInputError
from jobwire.storage.named_files import read_named_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping

    Locate = Callable[[Iterable[str]], list[str]]

Request = dict[str, Any]
# The message is checked where the store is: here it only carries what the options say.
_SOMEBODY = "agent"
# Arguments of verbs whose options are called otherwise.
_OPTIONS = {
    "acceptance": "accept",
    "after": "after_event",
    "concerns": "concern",
    "conditions": "condition",
    "correlation_id": "correlation",
    "deadline_seconds": "deadline",
    "interval_seconds": "interval",
    "job_id": "job",
    "members": "member",
    "needs": "depends_on",
    "recommendations": "recommendation",
    "statuses": "status",
    "task_id": "task",
    "thread_id": "thread",
}
# Lists of which as many are asked for as one answer holds; the others refuse more.
_LISTS = frozenset({"list", "dead", "task-list", "board-list"})


def request_of(verb: str, args: Namespace, locate: Locate | None = None) -> Request:
    """Return what `verb` is asked for by these arguments; raises InvalidInputError.

    `locate` tells what locks on paths are on: by default relative to the repository around us.
    """
    takes = verb_named(verb).takes
    asked: Request = {}
    for name, kind in takes.items():
        value = getattr(args, _OPTIONS.get(name, name), None)
        if value is not None:
            asked[name] = list(split_words(value)) if kind is TEXTS and isinstance(value, str) else value
    if verb in _LISTS:
        asked["limit"] = min(args.limit, MOST)
    if "summary" in takes:
        asked |= _words(args)
    if asked.get("id") == "":
        del asked["id"]
    for name in {"path", "paths"} & takes.keys():
        given = [args.path] if name == "path" else args.paths
        found = targets(given, args.root) if locate is None else locate(given)
        asked[name] = found[0] if name == "path" else found
    if more := _MORE.get(verb):
        more(args, asked)
    return asked


def _send(args: Namespace, asked: Request) -> None:
    if args.kind is None:
        asked["kind"] = "task" if args.thread is None and args.in_reply_to is None else "event"
    if args.expires is not None:
        asked["expires_at_ms"] = int((time.time() + args.expires) * 1000)


def _reply(args: Namespace, _: Request) -> None:
    if args.thread is None and args.in_reply_to is None:
        raise InvalidInputError("in which thread?", hint="--thread ID, or --in-reply-to MESSAGE")


def _search(args: Namespace, asked: Request) -> None:
    asked["words"] = " ".join(args.words)


def _dead(args: Namespace, asked: Request) -> None:
    """Refuse what only the home can do, and leave out the reason that was not given."""
    at_home = args.task or args.all or args.older_than or args.force
    if at_home or bool(args.message) == (args.action == "list"):
        raise InvalidInputError(
            "that needs the store's own disk",
            hint="by a ticket: inbox dead list, or show, redrive or drop MESSAGE",
        )
    if not args.reason:
        asked.pop("reason", None)


def _leased(args: Namespace, asked: Request) -> None:
    if not args.message:
        raise InvalidInputError("which message?", hint="by a ticket: --message ID")
    if args.token is None:
        return
    if not args.token.isdecimal():
        raise InvalidInputError(
            "the lease is not one of a delivery", hint="the token that `inbox take` printed"
        )
    asked["token"] = int(args.token)


def _join(_: Namespace, asked: Request) -> None:
    asked["host"] = os.uname().nodename
    # A process of another host says nothing where the store is.
    asked.pop("pid", None)


def _lock_acquire(args: Namespace, asked: Request) -> None:
    asked["job_id"] = args.job or os.environ.get("JOBWIRE_JOB", "")
    asked["incarnation"] = os.environ.get("JOBWIRE_INCARNATION", "")
    if asked.pop("wait"):
        asked["wait"] = True


def _lock_held(args: Namespace, _: Request) -> None:
    if bool(args.paths) == args.all:
        raise InvalidInputError("which locks?", hint="name paths, or --all", code="invalid_input")


def _lock_break(args: Namespace, _: Request) -> None:
    if bool(args.reason) == args.confirm:
        raise InvalidInputError("ask or confirm?", hint="--reason TEXT, or --confirm", code="invalid_input")


def _board_open(args: Namespace, asked: Request) -> None:
    asked["proposal"] = read_named_text(args.proposal, "proposal", limit=MAX_PROPOSAL)


def _board_read(args: Namespace, asked: Request) -> None:
    if not args.json:
        asked["page"] = True


def _board_verify(args: Namespace, asked: Request) -> None:
    asked["sealed"] = read_named_text(args.file, "resolution", limit=MAX_RESOLUTION).strip()


def _task_add(args: Namespace, asked: Request) -> None:
    asked["text"] = body_of(args)


def _task_complete(args: Namespace, asked: Request) -> None:
    if args.branch:
        if "payload" in asked:
            raise InvalidInputError("--branch beside --payload-json", hint='put "branch" into the payload')
        asked["payload"] = json.dumps({"branch": args.branch})


def _task_review(args: Namespace, asked: Request) -> None:
    asked["approve"] = args.verdict == "approve"


_MORE: Mapping[str, Callable[[Namespace, Request], None]] = {
    "send": _send,
    "reply": _reply,
    "search": _search,
    **dict.fromkeys(("dead", "dead-show", "dead-redrive", "dead-drop"), _dead),
    **dict.fromkeys(("ack", "nack"), _leased),
    "join": _join,
    "lock-acquire": _lock_acquire,
    **dict.fromkeys(("lock-renew", "lock-release"), _lock_held),
    "lock-break": _lock_break,
    "board-open": _board_open,
    **dict.fromkeys(("board-show", "board-resolve"), _board_read),
    "board-verify": _board_verify,
    "task-add": _task_add,
    "task-complete": _task_complete,
    "task-review": _task_review,
}


def targets(paths: Iterable[str], root: str | None) -> list[str]:
    """Return what locks on these paths are on, relative to `root`: by default the repository around us."""
    here = Path.cwd()
    top = root or next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), str(here))
    return list(dict.fromkeys(canonical(path, root=top, folder=str(here)) for path in paths))


def _words(args: Namespace) -> Request:
    """Return what a message says."""
    new = said(args, NewMessage(_SOMEBODY))
    told: Request = {
        "summary": new.summary,
        "body": new.body,
        "artifacts": [{"path": one.path, "kind": one.kind} for one in new.artifacts],
    }
    return told if new.payload is None else {**told, "payload": new.payload}
