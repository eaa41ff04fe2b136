"""Advisory file locks that name their holder.

flock(2) rather than fcntl(F_SETLK): it belongs to the open file, so a second writer in the same
process is refused too, and closing an unrelated descriptor of the file does not drop it.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.journal.errors import JournalLocked
from jobwire.storage.failures import storage_failure

_RETRY_SECONDS = 0.01


def acquire(path: Path, *, clock: Clock, deadline_seconds: float, what: str) -> int:
    """Return the descriptor that holds the lock; closing it releases.

    Waits up to `deadline_seconds`, then raises JournalLocked naming the holder's pid.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise storage_failure("open the lock", path, error) from error
    give_up = clock.monotonic() + deadline_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() >= give_up:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise _locked(path, what, holder) from None
            clock.sleep(_RETRY_SECONDS)
        else:
            _sign(descriptor)
            return descriptor


@contextlib.contextmanager
def held(path: Path, *, clock: Clock, deadline_seconds: float, what: str) -> Iterator[None]:
    """Hold the lock for the block."""
    descriptor = acquire(path, clock=clock, deadline_seconds=deadline_seconds, what=what)
    try:
        yield
    finally:
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    # On a full disk the lock still holds; only the holder's name is missing from the message.
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, f"{os.getpid():<20}\n".encode(), 0)


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _locked(path: Path, what: str, pid: int | None) -> JournalLocked:
    who = f"process {pid}" if pid is not None else "another process"
    return JournalLocked(
        f"{who} already {what} in {path.parent}",
        hint="stop that process first, or use another --home",
        path=str(path),
        pid=pid,
    )
