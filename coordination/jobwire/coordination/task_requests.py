"""Requests for tasks of agents on other hosts, made of the arguments of their commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobwire.coordination.message import split_words
from jobwire.coordination.remote_requests import Request, named, words
from jobwire.coordination.verb_form import MOST
from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from argparse import Namespace


def list_tasks(args: Namespace) -> Request:
    """Ask for the tasks of a run."""
    return {
        "run_id": args.run_id,
        "statuses": list(split_words(args.status)),
        "stuck": args.stuck,
        "limit": min(args.limit, MOST),
        **named(owner=args.owner),
    }


def show(args: Namespace) -> Request:
    """Ask for a task."""
    return {"task_id": args.task, "run_id": args.run_id}


def claim(args: Namespace) -> Request:
    """Ask for the work on a task; which one is asked for before, where none is named."""
    asked = {"run_id": args.run_id, "lease_seconds": args.lease_seconds}
    return {**asked, **named(task_id=args.task, expect_version=args.expect_version)}


def complete(args: Namespace) -> Request:
    """Ask for a task to be done."""
    asked = _said(args)
    if args.branch:
        if "payload" in asked:
            raise InvalidInputError("--branch beside --payload-json", hint='put "branch" into the payload')
        asked["payload"] = json.dumps({"branch": args.branch})
    return asked


def fail(args: Namespace) -> Request:
    """Ask for a run of a task to be taken for failed."""
    return {**_said(args), "permanent": args.permanent}


def review(args: Namespace) -> Request:
    """Ask for a verdict on another's work."""
    verdict = {"approve": args.verdict == "approve", "reason": args.reason}
    return {**show(args), **verdict, **named(expect_version=args.expect_version)}


def _said(args: Namespace) -> Request:
    return {**show(args), **words(args), **named(expect_version=args.expect_version)}
