"""What a program is told with --json: one JSON object on stdout on every path, and one table of error codes.

{"ok": true, "command": "claim", ...}
{"ok": false, "command": "claim", "error": {"code": "lease_conflict", "message": ..., "exit_code": 20, ...}}
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, TypeVar

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

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

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
    import json  # noqa: PLC0415 - a help tells nothing

    line = json.dumps(failure_json(command, error), ensure_ascii=False) + "\n"
    try:
        sys.stdout.write(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        # A disk that is full cannot take the word that says so.
        sys.stderr.write(line)


def say(args: Namespace, value: Mapping[str, object], text: str | Callable[[], str]) -> None:
    """Print a success: one object for programs, words for people."""
    if args.json:
        line = success_json(args.verb, value)
    elif isinstance(text, str):
        line = text
    else:
        line = text()
    if line:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def at_most(args: Namespace, found: list[_T]) -> list[_T]:
    """Return the first --limit of what was found, of which one more was asked for; tell people of it."""
    if len(found) > args.limit and not args.json:
        sys.stderr.write(f"these are the first {args.limit}; --limit N shows more\n")
    return found[: args.limit]


def told_failures(command: str, run: Callable[[Namespace], int], args: Namespace) -> int:
    """Run a command's body; with --json its failures are told here, without they go on as always."""
    if not args.json:
        return run(args)
    return run_command(run, args, prog=command, as_json=True, tell=partial(say_failure, command))


def success_json(command: str, value: Mapping[str, object]) -> str:
    """Return what a program is told of a success, as a line."""
    import json  # noqa: PLC0415 - as above

    return json.dumps({"ok": True, "command": command, **value}, ensure_ascii=False)
