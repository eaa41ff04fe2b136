"""Whether this process runs inside a job: by its environment, or by that of a process it descends from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a worker's environment names (docs/settings.md).
_NAMES = (b"JOBWIRE_JOB=", b"JOBWIRE_TICKET=")
_MOST = 64
_MAX_ENVIRONMENT = 1 << 20


def enclosing_job(environ: Mapping[str, str]) -> str | None:
    """Return the job, or the ticket, of the process or of its nearest ancestor that has one; else None.

    What another user's process holds is not told, and is none of this user's jobs.
    """
    for name in _NAMES:
        if value := environ.get(name[:-1].decode()):
            return value
    parent = os.getppid()
    for _ in range(_MOST):
        if parent <= 1:
            return None
        if (found := _job_in(parent)) is not None:
            return found
        parent = _parent_of(parent)
    return None


def _job_in(pid: int) -> str | None:
    """Return what the environment that a process was started with names."""
    for entry in _read(f"/proc/{pid}/environ").split(b"\0"):
        for name in _NAMES:
            if entry.startswith(name) and len(entry) > len(name):
                return os.fsdecode(entry[len(name) :])
    return None


def _parent_of(pid: int) -> int:
    # proc(5): the name, in brackets, may hold anything; the state follows it, then the parent.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_ENVIRONMENT)
    except OSError:
        return b""
