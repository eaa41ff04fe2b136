"""What the registry process does for hooks: all but those that wait for a person, or behind a turn."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jobwire.core.errors import JobwireError
from jobwire.hooks.handling import respond
from jobwire.hooks.kinds import kind_of
from jobwire.hooks.main import ANSWER, ERROR
from jobwire.hooks.raw_input import NoHookInputError, parse
from jobwire.hooks.signs import Said, Sign

if TYPE_CHECKING:
    from pathlib import Path

    from jobwire.hooks.kinds import HookKind
    from jobwire.registry.call_service import Work

_log = logging.getLogger("jobwire.hooks")


class ServedHooks:
    """Does the work of hooks in a home: the `Callee` of each kind of agent."""

    def __init__(self, home: Path) -> None:
        self._home = str(home.resolve())

    def take(self, name: str, environ: dict[str, str], given: bytes) -> Work | None:
        """See `Callee.take`."""
        try:
            kind = kind_of(name)
            said = kind.read(parse(given))
        except (JobwireError, NoHookInputError):
            return None
        if said is None or not _can_be_served(said):
            return None
        return lambda _: self._done(kind, said, environ)

    def _done(self, kind: HookKind, said: Said, environ: dict[str, str]) -> bytes:
        try:
            printed = respond(kind, said, environ, home=self._home)
        except JobwireError as error:
            return ERROR + f"{error.message}; {error.hint}".encode()
        except Exception as error:  # noqa: BLE001 - an agent is never stopped by a defect of ours
            _log.exception("a hook of %s", kind.name)
            return ERROR + f"unexpected {type(error).__name__}: {error}".encode()
        return ANSWER + printed.encode()


def _can_be_served(said: Said) -> bool:
    """Tell whether the work needs nothing of the hook's own process: no person, no working directory."""
    return said.sign is not Sign.PERMISSION and (said.sign is not Sign.TOOL_BEFORE or bool(said.directory))
