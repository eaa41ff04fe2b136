"""Claude Code's own word on what it does: a question that was denied at the keyboard fires no hook.

It keeps `sessions/PID.json` in its folder (undocumented; since 2.1.139 with `status`, since 2.1.197 seen with
`waitingFor`). What is not there, or in another form, says nothing.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from jobwire.hooks.signs import word

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 1024 * 1024
_WAITING = "waiting"
# A change of state may be written late: it must be seen twice.
_TIMES = 2


def own_file(environ: Mapping[str, str], *names: str) -> dict[str, object]:
    """Return the object in a file of its folder; {} where there is none, or none that can be read."""
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME", ""), ".claude")  # noqa: PTH118 - start-up
    try:
        with open(os.path.join(folder, *names), "rb") as file:  # noqa: PTH118,PTH123 - as above
            body = json.loads(file.read(_MOST))
    except (OSError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


class SettledAtPane:
    """Tells whether the conversation waited for a person and does so no more."""

    def __init__(self, conversation: str, pid: int, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._name = f"{pid}.json"
        self._conversation = conversation
        self._waited = False
        self._not_waiting = 0

    def __call__(self) -> bool:
        """Look once."""
        status = self._status()
        if status == _WAITING:
            self._waited, self._not_waiting = True, 0
        elif status and self._waited:
            self._not_waiting += 1
        return self._not_waiting >= _TIMES

    def _status(self) -> str:
        body = own_file(self._environ, "sessions", self._name)
        return word(body, "status") if body.get("sessionId") == self._conversation else ""
