"""Who belongs to a session of processes, or to a job: asked of /proc, because no system call tells.

A command may give its children groups of their own (an interactive shell does), so one killpg(2) does
not reach all that it started; its session does, but for what left it on purpose (a daemon).
"""

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

from jobwire.storage.process_life import stat_of

# Where `stat_of` has them.
_STATE, _GROUP, _SESSION = 0, 2, 3
_DEAD = {b"Z", b"X"}
_MAX_ENVIRONMENT = 1 << 20


def living_groups(session: int) -> set[int]:
    """Return the process groups of `session` in which somebody lives.

    The caller keeps the number from being used again: it is the session's leader or the leader's parent
    that has not waited for it yet.
    """
    groups: set[int] = set()
    for pid in _numbers():
        fields = stat_of(pid)
        if fields and int(fields[_SESSION]) == session and fields[_STATE] not in _DEAD:
            groups.add(int(fields[_GROUP]))
    return groups


def signal_groups(groups: Iterable[int], number: int) -> None:
    """Send a signal to process groups; not to who has ended by itself, or runs as somebody else (sudo)."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def kill_marked(mark: str) -> None:
    """Kill the processes with a variable in their environment that begins with `mark`: NAME=VALUE.

    A process that left its session on purpose is found as well, another user's is not. Each is held by a
    descriptor while it is looked at (pidfd_open(2)), so that no stranger with its number is hit.
    """
    wanted = b"\0" + mark.encode()
    for pid in _numbers() - {os.getpid()}:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                with Path(f"/proc/{pid}/environ").open("rb") as file:
                    found = wanted in b"\0" + file.read(_MAX_ENVIRONMENT)
                if found:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _numbers() -> set[int]:
    return {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()}
