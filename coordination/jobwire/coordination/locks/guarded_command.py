"""A command that runs while its locks are held: they are renewed meanwhile, and given back at its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from jobwire.coordination.locks.held_lock import HeldLock
from jobwire.core.errors import NotFoundError
from jobwire.storage.signals import delivered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobwire.coordination.locks.changes import LockRequest
    from jobwire.coordination.locks.file_locks import Locks

# As shells tell of a command that a signal ended (POSIX.1-2017, 2.8.2).
_BY_SIGNAL = 128


def run_while_held(locks: Locks, asked: LockRequest, command: Sequence[str], *, wait_seconds: float) -> int:
    """Run `command` once the locks are ours and return its exit code; it ends when we lose them.

    Raises as `Locks.acquire`, and NotFoundError for a command that is not there.
    """
    with HeldLock(locks, asked, wait_seconds=wait_seconds, warn=_complain) as held:
        try:
            process = subprocess.Popen(command)
        except OSError as error:
            raise NotFoundError(f"cannot run {command[0]}: {error.strerror}", code="invalid_input") from error
        held.when_lost(process.terminate)
        # Ctrl-C goes to the command as well, which decides.
        with delivered({signal.SIGINT: _nothing, signal.SIGTERM: process.terminate}):
            code = process.wait()
    return code if code >= 0 else _BY_SIGNAL - code


def _complain(text: str) -> None:
    sys.stderr.write(f"jobwire: {text}\n")


def _nothing() -> None:
    """Leave it to somebody else."""
