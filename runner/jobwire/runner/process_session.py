"""Who belongs to a session of processes: asked of /proc, because no system call tells.

A command may give its children groups of their own (an interactive shell does), so one killpg(2) does
not reach all that it started; its session does, but for what left it on purpose (a daemon).
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
# Fields of proc_pid_stat(5) after the name in parentheses, which may hold anything.
_STATE, _GROUP, _SESSION = 0, 2, 3
_DEAD = {"Z", "X"}


def living_groups(session: int) -> set[int]:
    """Return the process groups of `session` in which somebody lives.

    The caller keeps the number from being used again: it is the session's leader or the leader's parent
    that has not waited for it yet.
    """
    groups: set[int] = set()
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (_PROC / entry.name / "stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
            if int(fields[_SESSION]) == session and fields[_STATE] not in _DEAD:
                groups.add(int(fields[_GROUP]))
    return groups


def signal_groups(groups: Iterable[int], number: int) -> None:
    """Send a signal to process groups; not to who has ended by itself, or runs as somebody else (sudo)."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
