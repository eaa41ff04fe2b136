"""A lock that a worker goes on holding when whoever took it for him is gone: flock(2) on an open file.

The lock belongs to the open file, and a child inherits it with the descriptor: it is free once all who have
it open have closed it or are dead.
"""

import fcntl
import hashlib
import os
from pathlib import Path

from jobwire.storage.failures import storage_failure
from jobwire.storage.home_paths import HomePaths


class InheritedLock:
    """A lock by its name, ours until `close`; a child that has the descriptor keeps it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Let go of it here; idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def take_lock(home: str, name: str) -> InheritedLock | None:
    """Return the lock, None where somebody has it. Raises StorageError."""
    path = HomePaths(home).lock_path(f"autopilot-{hashlib.sha256(name.encode()).hexdigest()[:24]}")
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise storage_failure("open", path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        raise storage_failure("lock", path, error) from error
    return InheritedLock(descriptor)
