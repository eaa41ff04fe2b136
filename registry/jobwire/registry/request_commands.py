"""`jobwire answer` and `jobwire feed`: arguments in, what is open and who answered out."""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import NoReturn

from jobwire.core.errors import InvalidInputError
from jobwire.core.terminal_text import safe
from jobwire.core.told import success_json
from jobwire.jobs.request_form import MAX_ANSWER
from jobwire.jobs.requests import Answer
from jobwire.registry.actions import build
from jobwire.registry.present import age
from jobwire.registry.requests import (
    AskedJob,
    answerer,
    check_may_answer,
    command_for,
    find_request,
    give_answer,
    open_in,
)
from jobwire.storage.wake import wait_until

_COMMAND = "command"
_LONG_SECONDS = 3600.0


def answer(args: argparse.Namespace) -> int:
    """Answer a request."""
    queue = build(args)
    asked = find_request(queue, args.name, args.request)
    check_may_answer(asked.request, os.environ)
    given = Answer(_text(args, asked), answerer(os.environ, args.agent), _COMMAND, args.always)
    asked = give_answer(queue, asked.record.job_id, given, request_id=asked.request.id)
    if args.json:
        _write(success_json("answer", {"request": asked.to_json(queue.store.clock.now())}))
    else:
        _write(f"answered {safe(asked.request.id)}: {safe(asked.request.answer or '')}")
    return 0


def _text(args: argparse.Namespace, asked: AskedJob) -> str:
    given = [one for one in (args.text, args.choice) if one is not None]
    if len(given) != 1:
        takes = ", ".join(asked.request.choices) or "a text"
        raise InvalidInputError(
            "the answer is missing" if not given else "the answer is given twice",
            hint=f"it takes {safe(takes)}",
        )
    if args.choice is not None and args.choice not in asked.request.choices:
        raise InvalidInputError(
            f"{safe(args.choice)!r} is none of the choices",
            hint=f"one of: {', '.join(asked.request.choices)}",
        )
    if args.text != "-":
        return str(given[0])
    # One more than is taken, in bytes: enough to be refused with the right words.
    return sys.stdin.buffer.read(4 * MAX_ANSWER + 1).decode("utf-8", "replace").rstrip("\n")


def feed(args: argparse.Namespace) -> int:
    """Print what waits for a person."""
    if args.watch:
        _watch(args)
    queue = build(args)
    found, now = open_in(queue), queue.store.clock.now()
    if args.json:
        _write(success_json("feed", {"requests": [one.to_json(now) for one in found]}))
    else:
        _write(_blocks(found, now))
    return 0


def _watch(args: argparse.Namespace) -> NoReturn:
    """Print what is open whenever that changed: all of it for people, what is new or gone for programs."""
    queue = build(args)
    shown: dict[tuple[str, str], AskedJob] | None = None
    while True:

        def changed() -> dict[tuple[str, str], AskedJob] | None:
            found = {(one.record.job_id, one.request.id): one for one in open_in(queue)}
            return found if shown is None or found.keys() != shown.keys() else None  # noqa: B023 - asked at once

        found = wait_until(
            changed, home=queue.store.home, names=["requests"], seconds=_LONG_SECONDS, clock=queue.store.clock
        )
        if found is None:
            continue
        now = queue.store.clock.now()
        if args.json:
            before = shown or {}
            for key in found.keys() - before.keys():
                _write(json.dumps({"open": found[key].to_json(now)}))
            for job_id, request_id in before.keys() - found.keys():
                _write(json.dumps({"closed": {"job_id": job_id, "id": request_id}}))
        else:
            clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() else ""
            _write(f"{clear}{_blocks(found.values(), now)}\n")
        shown = found


def _blocks(found: Iterable[AskedJob], now: float) -> str:
    return "\n\n".join(block(one, now) for one in found) or "nothing waits for you"


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def block(asked: AskedJob, now: float) -> str:
    """Return one request as lines for a terminal, with the command that answers it."""
    record, request = asked
    title = safe(record.title or record.agent_session or "")
    head = f"{record.job_id}  {request.kind}, {age(request.asked_at, now)} ago  {title}".rstrip()
    lines = [head, *_indented(request.text)]
    if request.tool:
        lines += [f"  tool      {safe(request.tool)}"]
    if request.preview:
        lines += _indented(request.preview, "  | ")
    if request.choices:
        lines += [f"  choices   {' · '.join(map(safe, request.choices))}"]
    if request.scope:
        lines += [f"  --always  {safe(request.scope)}"]
    if request.default is not None:
        lines += [f"  else      {safe(request.default)}"]
    if request.expires_at:
        lines += [f"  until     {request.expires_at}"]
    command = command_for(asked)
    return "\n".join([*lines, f"  {safe(command)}" if command else "  answer where it runs: it gave no id"])


def _indented(text: str, indent: str = "  ") -> list[str]:
    return [indent + safe(line) for line in text.split("\n")]
