"""Locks that are ours while a block or a command runs: renewed by themselves, given back at its end."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Self

from jobwire.core.errors import ConflictError, JobwireError, NotFoundError
from jobwire.storage.signals import delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from jobwire.coordination.locks.changes import LockRequest
    from jobwire.coordination.locks.file_locks import Locks

# As shells tell of a command that a signal ended (POSIX.1-2017, 2.8.2).
_BY_SIGNAL = 128
_log = logging.getLogger("jobwire.locks")


class HeldLock:
    """Files that nobody else may touch until `release`, or the end of the `with` block.

    Taken at once, or after waiting so long, or until `stop` is set; raises as `Locks.acquire`. `token` fences
    what is written to somewhere else: it rises with each new holder. Once somebody took the lock, or it was
    broken, `lost` is true: stop writing.
    """

    def __init__(
        self,
        locks: Locks,
        asked: LockRequest,
        *,
        wait_seconds: float = 0.0,
        stop: threading.Event | None = None,
        warn: Callable[[str], object] = _log.warning,
    ) -> None:
        self._locks = locks
        self._asked = asked
        self._warn = warn
        try:
            granted = locks.acquire(asked, wait_seconds=wait_seconds, stop=stop)
        except BaseException:
            locks.close()
            raise
        self.paths = tuple(lock.target for lock in granted)
        self.token = granted[0].token
        self._over = threading.Event()
        self._lost = threading.Event()
        self._guard = threading.Lock()
        self._on_loss: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._renew, name="lock renewal", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Tell whether it is no longer ours. Noticed within a third of its time."""
        return self._lost.is_set()

    def when_lost(self, act: Callable[[], object]) -> None:
        """Do something, in a thread of ours, once it is no longer ours; at once where that is so already."""
        with self._guard:
            self._on_loss = act
            lost = self.lost
        if lost:
            act()

    def release(self) -> None:
        """Give it back; what was lost is somebody else's. Idempotent. Raises StorageError."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        try:
            with contextlib.suppress(ConflictError):  # the loser was told by message
                self._locks.release(self._asked.agent_id, self.paths, run_id=self._asked.run_id)
        finally:
            self._locks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _renew(self) -> None:
        while not self._over.wait(self._asked.seconds / 3):
            try:
                self._locks.renew(self._asked.agent_id, self.paths, run_id=self._asked.run_id)
            except ConflictError as error:
                self._warn(str(error))
                with self._guard:
                    self._lost.set()
                    act = self._on_loss
                act()
                break
            except JobwireError as error:
                # A full disk or a busy store: the lease still runs, and the next try comes before its end.
                self._warn(str(error))
        self._locks.close()


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
