"""Claude Code's own word on what it does: a question that was denied at the keyboard fires no hook.

It keeps `sessions/PID.json` in its folder (undocumented; since 2.1.139 with `status`, since 2.1.197 seen with
`waitingFor`). What is not there, or in another form, says nothing.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 64 * 1024
_WAITING = "waiting"
# A change of state may be written late: it must be seen twice.
_TIMES = 2


class SettledAtPane:
    """Tells whether the conversation waited for a person and does so no more."""

    def __init__(self, conversation: str, pid: int, environ: Mapping[str, str]) -> None:
        folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME", ""), ".claude")  # noqa: PTH118 - one name
        self._path = os.path.join(folder, "sessions", f"{pid}.json")  # noqa: PTH118 - as above
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
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - as above
                body = json.loads(file.read(_MOST))
        except (OSError, ValueError, RecursionError):
            return ""
        if not isinstance(body, dict) or body.get("sessionId") != self._conversation:
            return ""
        status = body.get("status")
        return status if isinstance(status, str) else ""
