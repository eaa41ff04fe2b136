"""What a failed system call means for a person."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from jobwire.core.errors import StorageError

if TYPE_CHECKING:
    from jobwire.storage.files import StrPath

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def storage_failure(action: str, path: StrPath, cause: OSError) -> StorageError:
    """Return the error for a failed system call, with the remedy for a full or read-only disk."""
    if cause.errno in _FULL:
        hint = "free disk space, then repeat the command: nothing was half-written"
    elif cause.errno in _FORBIDDEN:
        hint = "the directory must be writable by this user; check its owner, mode and mount, or use --home"
    else:
        hint = "check the disk and its mount"
    return StorageError(
        f"cannot {action} {os.fspath(path)}: {cause.strerror or cause}",
        hint=hint,
        path=os.fspath(path),
        errno=cause.errno,
        disk_full=cause.errno in _FULL,
    )
