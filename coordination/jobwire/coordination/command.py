"""What all commands of the coordination share: one JSON object on stdout on every path, and error codes."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from jobwire.core.boundary import run_command
from jobwire.core.errors import (
    ConflictError,
    InvalidInputError,
    JobwireError,
    NotFoundError,
    NoWorkError,
    StoppedError,
    TransitionError,
)
from jobwire.core.topics import check_agent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

AGENT = "JOBWIRE_AGENT"
INCARNATION = "JOBWIRE_INCARNATION"
# The first class that fits names an error that has no code of its own.
_CODES: tuple[tuple[type[JobwireError], str], ...] = (
    (NoWorkError, "no_match"),
    (StoppedError, "lease_lost"),
    (ConflictError, "lease_conflict"),
    (TransitionError, "illegal_transition"),
    (InvalidInputError, "invalid_input"),
    (NotFoundError, "not_found"),
)
_VERSION_ERROR = "DatabaseVersionError"


def code_of(error: JobwireError) -> str:
    """Return the error's word of the table of codes."""
    code = error.facts.get("code")
    if isinstance(code, str):
        return code
    if type(error).__name__ == _VERSION_ERROR:
        return "schema_version"
    return next((word for kind, word in _CODES if isinstance(error, kind)), "storage")


def failure_json(command: str, error: JobwireError) -> dict[str, object]:
    """Return what a program is told of a failure; facts that are plain are told as well."""
    facts = {
        name: value
        for name, value in error.facts.items()
        if isinstance(value, (str, int, float, bool, list)) and name not in {"code", "response"}
    }
    body = {
        **facts,
        "code": code_of(error),
        "message": error.message,
        "hint": error.hint,
        "exit_code": int(error.exit_code),
    }
    response = error.facts.get("response")
    return {
        "ok": False,
        "command": command,
        **(response if isinstance(response, dict) else {}),
        "error": body,
    }


def say_failure(command: str, error: JobwireError) -> None:
    """Print a failure as one object on stdout."""
    sys.stdout.write(json.dumps(failure_json(command, error), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say(args: argparse.Namespace, value: Mapping[str, object], text: str | Callable[[], str]) -> None:
    """Print a success: one object for programs, words for people."""
    if not args.json:
        line = text if isinstance(text, str) else text()
    else:
        line = json.dumps({"ok": True, "command": args.verb, **value}, ensure_ascii=False)
    if line:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def coordination_command(
    body: Callable[[argparse.Namespace], int],
) -> Callable[[argparse.Namespace], int]:
    """Return `body` with its failures told as the contract says; without --json they go on as always."""

    def run(args: argparse.Namespace) -> int:
        try:
            return body(args)
        except StoppedError as error:
            # Who lost its job stops with 3 in publish_event; here it is one conflict among others.
            facts = {"code": "lease_lost", **error.facts}
            raise ConflictError(error.message, hint=error.hint, **facts) from error

    def told(args: argparse.Namespace) -> int:
        if not args.json:
            return run(args)
        return run_command(run, args, prog=args.verb, as_json=True, tell=partial(say_failure, args.verb))

    return told


def who_am_i(args: argparse.Namespace) -> str:
    """Return the agent that speaks: --agent or its alias, else the environment; raises InvalidInputError."""
    inherited = os.environ.get(AGENT) or None
    name = args.agent or inherited
    if name is None:
        raise InvalidInputError(
            "who are you?", hint=f"--agent NAME, or {AGENT} in the environment", code="invalid_input"
        )
    if args.agent and inherited and os.environ.get("JOBWIRE_JOB") and args.agent != inherited:
        raise InvalidInputError(
            f"this is a job of {inherited}: it cannot speak as {args.agent}",
            hint="leave --agent out",
            code="forbidden",
        )
    return check_agent(name)


def incarnation() -> str:
    """Return which life of the agent's process this is; empty where nobody says."""
    return os.environ.get(INCARNATION, "")
