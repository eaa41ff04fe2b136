"""What all commands of the coordination share: who speaks, and how a lost lease is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError, InvalidInputError, StoppedError
from jobwire.core.told import told_failures
from jobwire.core.topics import check_agent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

AGENT = "JOBWIRE_AGENT"
INCARNATION = "JOBWIRE_INCARNATION"


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
        return told_failures(args.verb, run, args)

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


def split_command(words: Sequence[str], usage: str, *, most: int = 1000) -> tuple[list[str], list[str]]:
    """Return the words before `--`, and the command behind it; raises InvalidInputError with the usage."""
    place = words.index("--") if "--" in words else 0
    first, command = list(words[:place]), list(words[place + 1 :])
    option = next((word for word in first if word.startswith("-")), None)
    if option or not command or not 0 < len(first) <= most:
        raise InvalidInputError(
            f"{option} stands too late" if option else "what, and which command?",
            hint=usage,
            code="invalid_input",
        )
    return first, command


def incarnation() -> str:
    """Return which life of the agent's process this is; empty where nobody says."""
    return os.environ.get(INCARNATION, "")
