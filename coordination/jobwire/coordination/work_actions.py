"""What the verbs of threads of work do: claim, renew, update, done, fail, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination.actions import said
from jobwire.coordination.command import incarnation, say, who_am_i
from jobwire.coordination.message import NewMessage
from jobwire.coordination.places import open_store
from jobwire.coordination.work import ThreadWork

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.work import Claimed
    from jobwire.coordination.work_words import Worded


def claim(args: Namespace) -> int:
    """Claim a thread."""
    return _say_claimed(args, _work(args).claim(args.thread, args.lease_seconds))


def renew(args: Namespace) -> int:
    """Extend the lease of a thread."""
    return _say_claimed(args, _work(args).renew(args.thread, args.lease_seconds, token=args.token))


def update(args: Namespace) -> int:
    """Say how the work goes."""
    return _say_worded(args, _work(args).update(_words(args, "progress"), args.status, token=args.token))


def done(args: Namespace) -> int:
    """Say that the work is done."""
    return _say_worded(args, _work(args).done(_words(args, "result"), token=args.token))


def fail(args: Namespace) -> int:
    """Say that the work failed."""
    return _say_worded(args, _work(args).fail(_words(args, "result"), token=args.token))


def cancel(args: Namespace) -> int:
    """Cancel a thread."""
    return _say_worded(args, _work(args).cancel(args.thread, args.reason, message_id=args.id))


def _work(args: Namespace) -> ThreadWork:
    return ThreadWork(open_store(args), who_am_i(args), incarnation=incarnation())


def _words(args: Namespace, kind: str) -> NewMessage:
    return said(args, NewMessage(who_am_i(args), kind=kind, thread_id=args.thread))


def _say_claimed(args: Namespace, claimed: Claimed) -> int:
    words = f"thread {claimed.thread.thread_id} is yours until {claimed.expires_at}"
    say(args, claimed.to_json(), words)
    return 0


def _say_worded(args: Namespace, worded: Worded) -> int:
    body = worded.to_json()
    if getattr(args, "direct", False) and worded.thread.job_id is not None:
        from jobwire.coordination.direct import send_at_once  # noqa: PLC0415 - brings the broker's client

        body["delivered"] = send_at_once(open_store(args), worded.thread.job_id)
    say(args, body, f"thread {worded.posted.thread_id} is {worded.thread.status}")
    return 0
