"""`agent-sessions.yaml`: the sessions that have ended, for people; written from the inventory, never read."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from jobwire.core.clock import SystemClock
from jobwire.storage import file_lock
from jobwire.storage.durable import make_directories, replace_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobwire.coordination.sessions.stored import SessionRow

_HEAD = "# Sessions that have ended, newest first. Written by jobwire, never read.\nsessions:"
_FIELDS = (
    "state", "agent", "agent_id", "title", "directory", "conversation", "created_at", "changed_at",
    "ended_by", "reason",
)  # fmt: skip


def write_archive(home: str, read: Callable[[], Iterable[SessionRow]]) -> None:
    """Write the ended ones of `read` durably; what stood there before is the backup. Raises StorageError."""
    paths, files = HomePaths(home), SystemFiles()
    path, lock = paths.sessions_archive_path, paths.lock_path("sessions.yaml")
    make_directories(os.path.dirname(lock), files=files)
    # Read under the lock: of two that end at once the later one knows both.
    with file_lock.held(
        lock,
        clock=SystemClock(),
        deadline_seconds=file_lock.DEFAULT_DEADLINE_SECONDS,
        what="the sessions' archive",
    ):
        text = archive_text(read()).encode()
        try:
            with open(path, "rb") as before:
                replace_durably(f"{path}.bak", before.read(), files=files)
        except FileNotFoundError:
            pass
        replace_durably(path, text, files=files)


def archive_text(rows: Iterable[SessionRow]) -> str:
    """Return the sessions that do not run as a YAML document."""
    ended = sorted((row for row in rows if row.state != "running"), key=lambda row: -row.changed_ms)
    if not ended:
        return f"{_HEAD} []\n"
    return "\n".join([_HEAD, *(_entry(row) for row in ended)]) + "\n"


def _entry(row: SessionRow) -> str:
    said = row.to_json()
    lines = [f"  - name: {_scalar(row.name)}"]
    lines += [f"    {field}: {_scalar(said[field])}" for field in _FIELDS if said[field] not in ("", None)]
    return "\n".join(lines)


def _scalar(value: object) -> str:
    """Return a text as JSON writes it, which YAML 1.2 reads; what YAML does not print is escaped."""
    text = json.dumps(str(value), ensure_ascii=False)
    return "".join(one if one.isprintable() and one != "\ufeff" else f"\\U{ord(one):08x}" for one in text)
