"""One writer a folder: a lock that is the folder itself."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.storage.failures import storage_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobwire.core.clock import Clock
    from jobwire.storage.files import StrPath

DEADLINE_SECONDS = 10.0
_POLL_SECONDS = 0.02


@contextmanager
def locked_folder(folder: StrPath, *, clock: Clock) -> Iterator[None]:
    """Hold the folder's exclusive flock(2); ConflictError after DEADLINE_SECONDS.

    The lock belongs to the open folder: no lock file can be left behind, and a killed holder frees it.
    Not reentrant. Raises NotFoundError where there is no such folder, StorageError where it cannot be
    opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotFoundError(f"no folder {os.fspath(folder)}", path=os.fspath(folder)) from error
    except OSError as error:
        raise storage_failure("open", folder, error) from error
    try:
        _lock(descriptor, folder, clock)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: StrPath, clock: Clock) -> None:
    deadline = clock.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() >= deadline:
                raise ConflictError(
                    f"another process has been changing {os.fspath(folder)} for {DEADLINE_SECONDS:g} s",
                    hint=f"see who: fuser -v {os.fspath(folder)}",
                    path=os.fspath(folder),
                ) from None
            clock.sleep(_POLL_SECONDS)
        else:
            return
