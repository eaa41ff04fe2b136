"""Requests of agents on other hosts, made of the arguments of their commands."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobwire.coordination.actions import said
from jobwire.coordination.agents import Joining
from jobwire.coordination.boards.actions import MAX_RESOLUTION
from jobwire.coordination.boards.statements import DEFAULT_MEMBERS
from jobwire.coordination.locks.targets import canonical
from jobwire.coordination.message import NewMessage, split_words
from jobwire.coordination.verb_form import MOST
from jobwire.core.bounds import MAX_INSTRUCTIONS
from jobwire.core.errors import InvalidInputError
from jobwire.storage.named_files import read_named_file

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

Request = dict[str, Any]
_BYTES_A_CHARACTER = 4
# The message is checked where the store is: here it only carries what the options say.
_SOMEBODY = "agent"


def nothing(_: Namespace) -> Request:
    """Ask without arguments."""
    return {}


def run(args: Namespace) -> Request:
    """Ask about a run, or all of them."""
    return named(run_id=args.run_id)


def send(args: Namespace) -> Request:
    """Ask for a message to be sent."""
    expires = None if args.expires is None else int((time.time() + args.expires) * 1000)
    return {
        **words(args),
        "to": list(split_words(args.to)),
        "kind": args.kind or ("task" if args.thread is None and args.in_reply_to is None else "event"),
        "type": args.type,
        "subject": args.subject,
        "run_id": args.run_id,
        "acceptance": list(args.accept),
        "risk": args.risk,
        "priority": args.priority,
        "message_class": args.message_class,
        **named(
            thread_id=args.thread,
            task_id=args.task,
            in_reply_to=args.in_reply_to,
            correlation_id=args.correlation,
            expires_at_ms=expires,
        ),
    }


def reply(args: Namespace) -> Request:
    """Ask for a message in a thread."""
    if args.thread is None and args.in_reply_to is None:
        raise InvalidInputError("in which thread?", hint="--thread ID, or --in-reply-to MESSAGE")
    return {
        **words(args),
        "to": list(split_words(args.to)),
        "kind": args.kind,
        "type": args.type,
        **named(thread_id=args.thread, in_reply_to=args.in_reply_to, request=args.request),
    }


def fetch(args: Namespace) -> Request:
    """Ask for threads."""
    return {"statuses": list(split_words(args.status)), "limit": args.limit, "unread": args.unread}


def show(args: Namespace) -> Request:
    """Ask for a thread."""
    return {"thread_id": args.thread, **named(limit=args.limit)}


def search(args: Namespace) -> Request:
    """Ask for messages by their words."""
    return {"words": " ".join(args.words), "limit": args.limit, **named(before=args.before)}


def list_threads(args: Namespace) -> Request:
    """Ask for my threads."""
    return {
        "statuses": list(split_words(args.status)),
        "limit": min(args.limit, MOST),
        **named(created_by=args.created_by, assigned_to=args.assigned_to, run_id=args.run_id),
    }


def dead(args: Namespace) -> Request:
    """Ask for what was given up of what I sent, or was sent; or for one of it to be shown or moved."""
    if (
        args.task
        or args.all
        or args.older_than
        or args.force
        or bool(args.message) == (args.action == "list")
    ):
        raise InvalidInputError(
            "that needs the store's own disk",
            hint="by a ticket: inbox dead list, or show, redrive or drop MESSAGE",
        )
    if args.action == "show":
        return {"message": args.message}
    if args.action != "list":
        return {"message": args.message, **named(recipient=args.recipient)}
    return {
        "limit": min(args.limit, MOST),
        **named(recipient=args.recipient, run_id=args.run_id, reason=args.reason or None),
    }


def claim(args: Namespace) -> Request:
    """Ask for a thread's work, or to hold it for longer."""
    return {"thread_id": args.thread, **named(lease_seconds=args.lease_seconds)}


def words_of_thread(args: Namespace) -> Request:
    """Ask for something to be said in a thread of work."""
    return {"thread_id": args.thread, **words(args)}


def update(args: Namespace) -> Request:
    """Ask for an update."""
    return {**words_of_thread(args), "status": args.status}


def cancel(args: Namespace) -> Request:
    """Ask for a thread's end."""
    return {"thread_id": args.thread, "reason": args.reason, **named(id=args.id or None)}


def watch(args: Namespace) -> Request:
    """Ask what there is that concerns me."""
    return {"statuses": list(split_words(args.status)), **named(after=args.after_event)}


def wait_reply(args: Namespace) -> Request:
    """Ask what others said in a thread."""
    return {
        "thread_id": args.thread,
        "kinds": list(split_words(args.kinds)),
        **named(after=args.after_event, after_message=args.after_message),
    }


def take(args: Namespace) -> Request:
    """Ask for my next message."""
    return named(lease_seconds=args.lease_seconds)


def ack(args: Namespace) -> Request:
    """Ask for a message to be done."""
    if not args.message:
        raise InvalidInputError("which message?", hint="by a ticket: --message ID")
    if args.token is not None and not args.token.isdecimal():
        raise InvalidInputError(
            "the lease is not one of a delivery", hint="the token that `inbox take` printed"
        )
    return {"message": args.message, **named(token=None if args.token is None else int(args.token))}


def nack(args: Namespace) -> Request:
    """Ask for a message to be given back."""
    return {**ack(args), "reason": args.reason, "permanent": args.permanent}


def notify(args: Namespace) -> Request:
    """Ask to be told."""
    return {"subject": args.subject, "when": list(split_words(args.when))}


def join(args: Namespace) -> Request:
    """Ask to be known."""
    joining = Joining(run_id=args.run_id, interval_seconds=args.interval, status=args.status)
    return {
        "run_id": joining.run_id,
        "interval_seconds": joining.interval_seconds,
        "status": joining.status,
        "host": os.uname().nodename,
    }


def lock_paths(args: Namespace) -> Request:
    """Ask about paths: what they are below the run's root is found here, where they are."""
    return {"paths": targets(args.paths, args.root), "run_id": args.run_id}


def lock_check(args: Namespace) -> Request:
    """Ask whether somebody holds them."""
    return {**lock_paths(args), "shared": args.shared}


def lock_acquire(args: Namespace) -> Request:
    """Ask for locks."""
    job_id = args.job or os.environ.get("JOBWIRE_JOB", "")
    incarnation = os.environ.get("JOBWIRE_INCARNATION", "")
    waits = {"wait": True} if args.wait else {}
    return {**lock_check(args), "ttl": args.ttl, "job_id": job_id, "incarnation": incarnation, **waits}


def lock_held(args: Namespace) -> Request:
    """Ask for locks that I hold to be extended or given back."""
    if bool(args.paths) == args.all:
        raise InvalidInputError("which locks?", hint="name paths, or --all", code="invalid_input")
    return {**lock_paths(args), **named(token=args.token)}


def lock_break(args: Namespace) -> Request:
    """Ask for the end of somebody's lock, or confirm it."""
    if bool(args.reason) == args.confirm:
        raise InvalidInputError("ask or confirm?", hint="--reason TEXT, or --confirm", code="invalid_input")
    path = targets([args.path], args.root)[0]
    return {"path": path, "run_id": args.run_id, "reason": args.reason, "confirm": args.confirm}


def board(args: Namespace) -> Request:
    """Ask about a board."""
    return {"board": args.board}


def board_open(args: Namespace) -> Request:
    """Ask for a board."""
    proposal = read_named_file(args.proposal, "proposal", limit=MAX_INSTRUCTIONS * _BYTES_A_CHARACTER)
    try:
        text = proposal.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError("the proposal is not UTF-8") from error
    return {
        "checkpoint": args.checkpoint,
        "proposal": text,
        "members": list(args.member or DEFAULT_MEMBERS),
        "quick": args.quick,
        "rounds": args.rounds,
        "quorum": args.quorum,
        "deadline_seconds": args.deadline,
        "run_id": args.run_id,
    }


def board_assess(args: Namespace) -> Request:
    """Assess."""
    points = {"concerns": list(args.concern), "recommendations": list(args.recommendation)}
    return {**board(args), "verdict": args.verdict, "score": args.score, **points}


def board_discuss(args: Namespace) -> Request:
    """Discuss."""
    changed = {"changes_my_verdict": args.changes_my_verdict}
    return {**board(args), "to": args.to, "type": args.type, "message": args.message, **changed}


def board_vote(args: Namespace) -> Request:
    """Vote."""
    conditions = {"conditions": list(args.condition)}
    return {**board(args), "verdict": args.verdict, "confidence": args.confidence, **conditions}


def board_verify(args: Namespace) -> Request:
    """Ask whether a resolution is genuine."""
    try:
        return {"sealed": read_named_file(args.file, "resolution", limit=MAX_RESOLUTION).decode().strip()}
    except UnicodeDecodeError as error:
        raise InvalidInputError("the resolution is not UTF-8") from error


def board_wait(args: Namespace) -> Request:
    """Ask how far a board is."""
    return {**board(args), "phase": args.phase}


def board_list(args: Namespace) -> Request:
    """Ask for boards."""
    return {"open": args.open, "limit": min(args.limit, MOST)}


def targets(paths: Iterable[str], root: str | None) -> list[str]:
    """Return what locks on these paths are on, relative to `root`: by default the repository around us."""
    here = Path.cwd()
    top = root or next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), str(here))
    return list(dict.fromkeys(canonical(path, root=top, folder=str(here)) for path in paths))


def words(args: Namespace) -> Request:
    """Return what a message says."""
    new = said(args, NewMessage(_SOMEBODY))
    return {
        "summary": new.summary,
        "body": new.body,
        "artifacts": [{"path": one.path, "kind": one.kind} for one in new.artifacts],
        **named(payload=new.payload, id=new.id or None),
    }


def named(**values: object) -> Request:
    """Return the arguments that were given."""
    return {name: value for name, value in values.items() if value is not None}
