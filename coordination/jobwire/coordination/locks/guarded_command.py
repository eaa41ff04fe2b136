"""A command that runs while file locks are held: they are renewed beside it, and given back after it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError, JobwireError, NotFoundError
from jobwire.storage.signals import delivered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobwire.coordination.locks.file_locks import LockRequest, Locks

# As shells tell of a command that a signal ended (POSIX.1-2017, 2.8.2).
_BY_SIGNAL = 128


def run_while_held(locks: Locks, asked: LockRequest, command: Sequence[str], *, wait_seconds: float) -> int:
    """Run `command` once the locks are ours and return its exit code; it ends when we lose them.

    Raises as `Locks.acquire`, and NotFoundError for a command that is not there.
    """
    granted = locks.acquire(asked, wait_seconds=wait_seconds)
    try:
        try:
            process = subprocess.Popen(command)
        except OSError as error:
            raise NotFoundError(f"cannot run {command[0]}: {error.strerror}", code="invalid_input") from error
        # Ctrl-C goes to the command as well, which decides.
        passed_on = {signal.SIGINT: _nothing, signal.SIGTERM: process.terminate}
        with _renewing(locks, asked, process), delivered(passed_on):
            code = process.wait()
    finally:
        with contextlib.suppress(ConflictError):  # somebody took it: the loser was told by message
            locks.release(asked.agent_id, [lock.target for lock in granted], run_id=asked.run_id)
    return code if code >= 0 else _BY_SIGNAL - code


@contextlib.contextmanager
def _renewing(locks: Locks, asked: LockRequest, process: subprocess.Popen[bytes]) -> Iterator[None]:
    over = threading.Event()

    def renew() -> None:
        while not over.wait(asked.seconds / 3):
            try:
                locks.renew(asked.agent_id, asked.targets, run_id=asked.run_id)
            except ConflictError as error:
                sys.stderr.write(f"jobwire: {error}\n")
                process.terminate()
                return
            except JobwireError as error:
                # A full disk or a busy store: the lease still runs, and the next try comes before its end.
                sys.stderr.write(f"jobwire: {error}\n")

    thread = threading.Thread(target=renew, name="lock renewal")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _nothing() -> None:
    """Leave it to somebody else."""
