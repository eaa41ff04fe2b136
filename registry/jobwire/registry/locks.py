"""Advisory file locks with a deadline, which name their holder.

Open file description locks (F_OFD_SETLK, fcntl(2)): the classic fcntl locks belong to the process,
so two threads of it would both "hold" one, and closing any descriptor of the file drops them. These
belong to the open file: threads exclude each other and only the holder's own close ends them. They
are polled, because a blocking request could not keep a deadline without signals.

Order: queue before record. Nobody who holds a record's lock asks for the queue's, and nobody but the
registry process holds several records' (it never waits for one while it holds another).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import TYPE_CHECKING

from jobwire.core.errors import StorageError
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FILE_MODE, StrPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobwire.core.clock import Clock

DEFAULT_DEADLINE_SECONDS = 10.0
_PROC = "/proc"
_FIRST_WAIT_SECONDS = 0.001
_LONGEST_WAIT_SECONDS = 0.02
# struct flock on 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid (0 for this kind of lock).
_FLOCK = struct.Struct("hhqqi4x")


class LockTimeoutError(StorageError):
    """The lock was not free within the deadline. Facts: path, pid (None where it is not known)."""


@contextlib.contextmanager
def held(path: StrPath, *, clock: Clock, deadline_seconds: float, what: str) -> Iterator[None]:
    """Hold the lock file `path` for the block; `what` names it in the error.

    Blocks up to `deadline_seconds`, then raises LockTimeoutError naming the holder's pid. Not
    re-entrant: a thread that asks twice waits for itself.
    """
    descriptor = acquire(path, clock=clock, deadline_seconds=deadline_seconds, what=what)
    try:
        yield
    finally:
        release(descriptor)


def acquire(path: StrPath, *, clock: Clock, deadline_seconds: float, what: str) -> int:
    """Return the descriptor that holds the lock; give it to `release`. Raises as `held` does."""
    wait = _FIRST_WAIT_SECONDS
    give_up = clock.monotonic() + deadline_seconds
    while (descriptor := try_acquire(path)) is None:
        left = give_up - clock.monotonic()
        if left <= 0:
            raise _timeout(path, what, deadline_seconds)
        clock.sleep(min(wait, left))
        wait = min(wait * 1.5, _LONGEST_WAIT_SECONDS)
    return descriptor


def try_acquire(path: StrPath) -> int | None:
    """Return the descriptor that holds the lock, or None where somebody else holds it."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        except OSError as error:
            raise storage_failure("open the lock", path, error) from error
        try:
            _set(descriptor, fcntl.F_WRLCK)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise storage_failure("lock", path, error) from error
        if os.fstat(descriptor).st_nlink:
            break
        # A purge removed the file between open and lock: that name is another file by now.
        os.close(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Free the lock and close its descriptor."""
    # Explicitly, because a child that was forked meanwhile shares the open file and the lock with it.
    with contextlib.suppress(OSError):
        _set(descriptor, fcntl.F_UNLCK)
    os.close(descriptor)


def is_held(path: StrPath) -> bool:
    """Tell whether somebody holds the lock, without taking it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def holder_pid(path: StrPath) -> int | None:
    """Return the pid of a process that holds the lock; None where none does or it cannot be seen.

    Such a lock belongs to no process, so no call names one; the kernel lists it with the open files
    that carry it (proc_pid_fdinfo(5)). Asked only for a message: it reads what all processes have
    open. Nothing is written into the file, because that would be two more changes of the file system
    for every change of a record.
    """
    try:
        status = os.stat(path)
        pids = sorted(int(name) for name in os.listdir(_PROC) if name.isdigit())
    except OSError:
        return None
    for pid in pids:
        # A process of somebody else's, or one that is gone.
        with contextlib.suppress(OSError):
            if _carries(pid, status):
                return pid
    return None


def _carries(pid: int, status: os.stat_result) -> bool:
    inode = b":%d " % status.st_ino
    for number in os.listdir(f"{_PROC}/{pid}/fd"):
        with contextlib.suppress(OSError):
            with open(f"{_PROC}/{pid}/fdinfo/{number}", "rb") as file:
                text = file.read()
            # The same number may exist on another file system.
            if b"OFDLCK" in text and inode in text and _same(f"{_PROC}/{pid}/fd/{number}", status):
                return True
    return False


def _same(path: str, status: os.stat_result) -> bool:
    return os.path.samestat(os.stat(path), status)


def _set(descriptor: int, kind: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))


def _timeout(path: StrPath, what: str, deadline_seconds: float) -> LockTimeoutError:
    pid = holder_pid(path)
    who = f"process {pid}" if pid is not None else "another process"
    return LockTimeoutError(
        f"{what} is locked by {who} for more than {deadline_seconds:g} s",
        hint=f"see what it does with `ps {pid}`; the lock goes with the process" if pid else "try again",
        path=os.fspath(path),
        pid=pid,
    )
