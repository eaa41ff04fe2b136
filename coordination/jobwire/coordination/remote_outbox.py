"""What an agent on another host wants done and nobody has answered: `<ticket>.outbox`, a request a line."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import UnreachableError
from jobwire.storage import file_lock
from jobwire.storage.durable import append_durably, replace_durably
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

    from jobwire.core.clock import Clock

_LOCK_SECONDS = 15.0
_MOST_KEPT = 10_000
_log = logging.getLogger("jobwire.agent")


class KeptRequest(NamedTuple):
    """A request in the outbox."""

    id: str
    verb: str
    args: dict[str, object]
    at: float


class RemoteOutbox:
    """The requests that are kept beside a ticket, in order. Safe for any number of processes."""

    def __init__(self, ticket: Path, clock: Clock) -> None:
        self.path = ticket.with_name(f"{ticket.name}.outbox")
        self._clock = clock

    def requests(self) -> list[KeptRequest]:
        """Return what is kept."""
        try:
            # What follows the last line break is torn, and was never promised.
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(KeptRequest(**json.loads(line)))
            except (ValueError, TypeError):
                _log.warning("a line of %s cannot be read and is left out", self.path)
        return found

    def keep(self, request: KeptRequest) -> None:
        """Add a request, durably; raises UnreachableError where too many wait."""
        with self._locked():
            if len(self.requests()) >= _MOST_KEPT:
                raise UnreachableError(
                    f"{_MOST_KEPT} requests wait in {self.path} already", hint="is the broker reachable?"
                )
            append_durably(self.path, _line(request), files=SystemFiles())

    def forget(self, request_id: str) -> None:
        """Take a request out, durably."""
        with self._locked():
            content = b"".join(_line(one) for one in self.requests() if one.id != request_id)
            replace_durably(self.path, content, files=SystemFiles())

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        path = self.path.with_name(f"{self.path.name}.lock")
        return file_lock.held(path, clock=self._clock, deadline_seconds=_LOCK_SECONDS, what="the outbox")


def _line(request: KeptRequest) -> bytes:
    return json.dumps(request._asdict(), ensure_ascii=False).encode() + b"\n"
