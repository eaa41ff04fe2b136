"""Advisory file locks with a deadline, which name their holder.

Open file description locks (F_OFD_SETLK, fcntl(2)): the classic fcntl locks belong to the process,
so two threads of it would both "hold" one, and closing any descriptor of the file drops them. These
belong to the open file: threads exclude each other and only the holder's own close ends them. They
are polled, because a blocking request could not keep a deadline without signals. The lock of a folder
is the folder itself; it needs flock(2), which is of the same kind and asks for no right to write.

Order: queue, then a job's send lock, then its record. Nobody who holds a record's lock asks for the
queue's, and nobody but the registry process holds several records' (it never waits for one while it
holds another).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError, NotFoundError, StorageError
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FILE_MODE, StrPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobwire.core.clock import Clock

DEFAULT_DEADLINE_SECONDS = 10.0
_PROC = "/proc"
_FIRST_WAIT_SECONDS = 0.001
_LONGEST_WAIT_SECONDS = 0.02
# struct flock on 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid (0 for this kind of lock).
_FLOCK = struct.Struct("hhqqi4x")


class LockTimeoutError(StorageError):
    """The lock was not free within the deadline. Facts: path, pid (None where it is not known)."""


class AlreadyRunningError(ConflictError):
    """Somebody else does what only one may do at a time. Facts: path, pid (None where it is not known)."""


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
    descriptor = _wait(lambda: try_acquire(path), clock, deadline_seconds)
    if descriptor is None:
        raise lock_timeout(f"{what} has been locked", path, holder_pid(path), deadline_seconds)
    return descriptor


def lock_timeout(what: str, path: StrPath, pid: int | None, seconds: float) -> LockTimeoutError:
    """Return the error for a lock that was not free within `seconds`; `what` says what `pid` does."""
    return LockTimeoutError(
        f"{what} by {_named(pid)} for more than {seconds:g} s",
        hint=f"see what it does with `ps {pid}`; the lock ends with the process" if pid else "try again",
        path=os.fspath(path),
        pid=pid,
    )


@contextlib.contextmanager
def sole(path: StrPath, *, clock: Clock, what: str, deadline_seconds: float = 0.0) -> Iterator[None]:
    """Be the only one who does `what` says for the block: "writes the journal in PLACE".

    Raises AlreadyRunningError, naming the other's pid, after `deadline_seconds`.
    """
    descriptor = acquire_sole(path, clock=clock, what=what, deadline_seconds=deadline_seconds)
    try:
        yield
    finally:
        release(descriptor)


def acquire_sole(path: StrPath, *, clock: Clock, what: str, deadline_seconds: float = 0.0) -> int:
    """Return the descriptor that holds the lock; give it to `release`. Raises as `sole` does."""
    descriptor = _wait(lambda: try_acquire(path), clock, deadline_seconds)
    if descriptor is None:
        pid = holder_pid(path)
        raise AlreadyRunningError(
            f"{_named(pid)} already {what}",
            hint="stop that process first, or use another --home",
            path=os.fspath(path),
            pid=pid,
        )
    return descriptor


@contextlib.contextmanager
def locked_folder(folder: StrPath, *, clock: Clock) -> Iterator[None]:
    """Be the only one who changes the folder's files for the block; no lock file is left in it.

    Blocks up to DEFAULT_DEADLINE_SECONDS, then raises AlreadyRunningError. Not re-entrant. Raises
    NotFoundError where there is no such folder, StorageError where it cannot be opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFoundError(f"no folder {os.fspath(folder)}", path=os.fspath(folder)) from error
    except OSError as error:
        raise storage_failure("open", folder, error) from error
    try:
        if _wait(lambda: _flock(descriptor), clock, DEFAULT_DEADLINE_SECONDS) is None:
            pid = holder_pid(folder)
            raise AlreadyRunningError(
                f"{_named(pid)} has been changing {os.fspath(folder)} for {DEFAULT_DEADLINE_SECONDS:g} s",
                hint=f"see what it does with `ps {pid}`" if pid else "try again",
                path=os.fspath(folder),
                pid=pid,
            )
        yield
    finally:
        os.close(descriptor)


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
    """Tell whether somebody holds the lock file, without taking it: that could refuse its owner."""
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
            locked = b"OFDLCK" in text or b"FLOCK" in text
            # The same number may exist on another file system.
            if locked and inode in text and _same(f"{_PROC}/{pid}/fd/{number}", status):
                return True
    return False


def _same(path: str, status: os.stat_result) -> bool:
    return os.path.samestat(os.stat(path), status)


def _set(descriptor: int, kind: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))


def _flock(descriptor: int) -> int | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return descriptor


def _wait(take: Callable[[], int | None], clock: Clock, deadline_seconds: float) -> int | None:
    """Return what `take` returns, or None where that is None until the deadline."""
    wait = _FIRST_WAIT_SECONDS
    give_up = clock.monotonic() + deadline_seconds
    while (descriptor := take()) is None:
        left = give_up - clock.monotonic()
        if left <= 0:
            return None
        clock.sleep(min(wait, left))
        wait = min(wait * 1.5, _LONGEST_WAIT_SECONDS)
    return descriptor


def _named(pid: int | None) -> str:
    return "another process" if pid is None else f"process {pid}"
