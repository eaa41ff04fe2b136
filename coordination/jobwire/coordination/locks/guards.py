"""Which agents' edits are held back by a hook of ours: their locks are guarded, all others' advisory.

The hooks of an agent leave its job here; what it says holds until that job is over. A lock is kept from
whoever asks, and only a hook keeps an agent from a file for which it does not ask.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobwire.coordination.sessions.names import folder_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.coordination.locks.stored import FileLock

GUARDED, ADVISORY = "guarded", "advisory"
_MAX_JOB = 128


def note_guard(home: str, agent: str, job_id: str) -> None:
    """Note that the agent's edits are looked at while the job lives. Raises OSError."""
    if _job_of(home, agent) == job_id:
        return
    path = _path(home, agent)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.{os.getpid()}"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(job_id)
    os.replace(new, path)


def guard_of(home: str, agent: str) -> str:
    """Return `guarded` where the agent works with our hooks, else `advisory`."""
    from jobwire.coordination.locks.file_locks import job_ended_in  # noqa: PLC0415 - a hook only notes

    job_id = _job_of(home, agent)
    return GUARDED if job_id and not job_ended_in(home, job_id) else ADVISORY


def guarded_json(home: str, locks: Iterable[FileLock]) -> list[dict[str, object]]:
    """Return locks as `lock list` prints them: each with its holder's guard."""
    return [{**lock.to_json(), "guard": guard_of(home, lock.agent_id)} for lock in locks]


def _path(home: str, agent: str) -> str:
    return f"{home}/locks/guards/{folder_name(agent)}"


def _job_of(home: str, agent: str) -> str:
    try:
        with open(_path(home, agent), encoding="utf-8") as file:
            return file.read(_MAX_JOB)
    except (OSError, UnicodeDecodeError):
        return ""
