"""Requests of agents, at home and on other hosts, made of the arguments of their commands.

What a verb takes (`verb_form`) is asked for: each argument is the option of its name, or of the name in
`_OPTIONS`. Where that is not all, `_MORE` names what adds to it, or refuses.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from jobwire.coordination.agent_verbs import verb_named
from jobwire.coordination.command import incarnation, who_am_i
from jobwire.coordination.message import MAX_BULK, split_words
from jobwire.coordination.verb_form import MOST, TEXTS
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Mapping

    Locate = Callable[[Iterable[str]], list[str]]

Request = dict[str, Any]
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
    "roles": "role",
    "seconds": "timeout_seconds",
    "statuses": "status",
    "task_id": "task",
    "thread_id": "thread",
}
# The lists of an answer that --limit cuts: one more is asked for, to tell whether there are more.
LISTS = {
    "fetch": ("threads",),
    "list": ("threads",),
    "search": ("messages",),
    "dead": ("dead", "tasks"),
    "task-list": ("tasks",),
    "board-list": ("boards",),
}
# Whoever is elsewhere sleeps there, and joins as what its home has made of it.
_AT_HOME = {"join": ("kind", "roles", "pid"), "wait-reply": ("seconds",), "watch": ("seconds",)}
# Options that say nothing where they are empty.
_MEANT = ("id", "task_id", "reason", "all", "older_than", "force")


def request_of(verb: str, args: Namespace, locate: Locate | None = None) -> Request:
    """Return what `verb` is asked for by these arguments; raises InvalidInputError.

    `locate` tells what locks on paths are on: by default relative to the repository around us.
    """
    takes = verb_named(verb).takes
    asked = _given(takes, args)
    if verb in LISTS:
        asked["limit"] = args.limit + 1 if locate is not None else min(args.limit + 1, MOST)
    for name in {"path", "paths"} & takes.keys():
        given = [args.path] if name == "path" else args.paths
        found = targets(given, args.root) if locate is None else locate(given)
        asked[name] = found[0] if name == "path" else found
    if more := _MORE.get(verb):
        more(args, asked)
    if locate is None:
        for name in _AT_HOME.get(verb, ()):
            asked.pop(name, None)
    return asked


def _given(takes: Mapping[str, str], args: Namespace) -> Request:
    """Return what the options say of the arguments that a verb takes."""
    asked: Request = {}
    for name, kind in takes.items():
        value = getattr(args, _OPTIONS.get(name, name), None)
        if value is not None:
            asked[name] = list(split_words(value)) if kind is TEXTS and isinstance(value, str) else value
    if "summary" in takes:
        asked |= _words(args)
    if "incarnation" in takes and (life := incarnation()):
        asked["incarnation"] = life
    for name in _MEANT:
        if not asked.get(name, True):
            del asked[name]
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


def _read(args: Namespace, asked: Request) -> None:
    """Say who reads, where somebody says it: at home nobody need."""
    if args.agent or (args.runs == "verb:show" and os.environ.get("JOBWIRE_AGENT")):
        asked["reader"] = who_am_i(args) if args.runs == "verb:show" else args.agent


def _dead(args: Namespace, _: Request) -> None:
    if sum(map(bool, (args.message, args.task, args.all))) > 1:
        raise InvalidInputError("MESSAGE, --task and --all: one of them says what is meant")


def _leased(args: Namespace, asked: Request) -> None:
    if args.token is None:
        return
    if not args.token.isdecimal() or len(args.token) > 18:  # noqa: PLR2004 - a 64 bit integer
        raise InvalidInputError(f"{args.token!r} is no lease of a message", hint="`inbox take` prints it")
    asked["token"] = int(args.token)


def _join(args: Namespace, asked: Request) -> None:
    if args.kind == "person" and os.environ.get("JOBWIRE_JOB"):
        raise InvalidInputError(
            "a job's process is no person", hint="join from a shell of your own", code="forbidden"
        )
    asked["host"] = os.uname().nodename
    asked.setdefault("pid", os.getppid())


def _lock_acquire(args: Namespace, asked: Request) -> None:
    asked["job_id"] = args.job or os.environ.get("JOBWIRE_JOB", "")
    if asked.pop("wait"):
        asked["wait"] = True


def _lock_held(args: Namespace, _: Request) -> None:
    if bool(args.paths) == args.all:
        raise InvalidInputError("which locks?", hint="name paths, or --all", code="invalid_input")


def _lock_break(args: Namespace, _: Request) -> None:
    if bool(args.reason) == args.confirm:
        raise InvalidInputError("ask or confirm?", hint="--reason TEXT, or --confirm", code="invalid_input")


def _board_open(args: Namespace, asked: Request) -> None:
    from jobwire.coordination.boards.statements import MAX_PROPOSAL  # noqa: PLC0415 - for boards alone

    asked["proposal"] = _text_in(args.proposal, "proposal", MAX_PROPOSAL)


def _board_read(args: Namespace, asked: Request) -> None:
    if not args.json:
        asked["page"] = True


def _board_verify(args: Namespace, asked: Request) -> None:
    from jobwire.coordination.boards.statements import MAX_RESOLUTION  # noqa: PLC0415 - for boards alone

    asked["sealed"] = _text_in(args.file, "resolution", MAX_RESOLUTION).strip()


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
    **dict.fromkeys(("list", "show"), _read),
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
    from pathlib import Path  # noqa: PLC0415 - for locks alone

    from jobwire.coordination.locks.targets import canonical  # noqa: PLC0415 - as above

    here = Path.cwd()
    top = root or next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), str(here))
    return list(dict.fromkeys(canonical(path, root=top, folder=str(here)) for path in paths))


def body_of(args: Namespace) -> str:
    """Return the text that --body says, or that --body-file holds."""
    if args.body_file is None:
        return args.body or ""
    if args.body is not None:
        raise InvalidInputError("the body is given twice", hint="as text or as file, not both")
    return _text_in(args.body_file, "body", MAX_BULK)


def _text_in(path: str, what: str, limit: int) -> str:
    from jobwire.storage.named_files import read_named_text  # noqa: PLC0415 - few name a file

    return read_named_text(path, what, limit=limit)


def _words(args: Namespace) -> Request:
    """Return what a message says; it is checked where the store is."""
    told: Request = {
        "summary": args.summary,
        "body": body_of(args),
        "artifacts": list(map(_artifact, args.artifact)),
    }
    return told if args.payload_json is None else {**told, "payload": args.payload_json}


def _artifact(text: str) -> dict[str, str]:
    path, colon, kind = text.rpartition(":")
    return {"path": path, "kind": kind or "file"} if colon and "/" not in kind and path else {"path": text}
