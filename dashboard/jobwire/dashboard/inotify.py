"""Which files of a directory changed: inotify(7) through ctypes, because the standard library lacks it.

A record is replaced by renaming over it, so IN_MOVED_TO names each changed record once, at a cost that
does not depend on how many finished jobs lie in the directory. A poll would have to stat them all.
"""

import contextlib
import ctypes
import errno
import os
import struct
from pathlib import Path

_IN_MOVED_TO = 0x80
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x01000000
_GONE = _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_IGNORED
_HEADER = struct.Struct("iIII")
_BUFFER = 256 * 1024


class WatchLostError(Exception):
    """Changes were lost, or the directory went away: look at everything again and watch anew."""


class DirectoryWatch:
    """Names of files that were renamed into, or removed from, one directory since the last look.

    Raises OSError where the directory is missing or the system has no watches left (ENOSPC). It sees
    changes by processes of this host only: not those of others on a network file system.
    """

    def __init__(self, directory: Path) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _failure(directory)
        mask = _IN_MOVED_TO | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
        if library.inotify_add_watch(self._descriptor, os.fsencode(directory), mask) < 0:
            error = _failure(directory)
            self.close()
            raise error

    def changed(self) -> set[str]:
        """Return the names; never blocks. Raises WatchLostError."""
        names: set[str] = set()
        while True:
            try:
                data = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return names
            _collect(data, names)

    def close(self) -> None:
        """Close the watch; idempotent."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def _collect(data: bytes, names: set[str]) -> None:
    position = 0
    while position < len(data):
        _, mask, _, length = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        if mask & (_IN_Q_OVERFLOW | _GONE):
            raise WatchLostError
        names.add(os.fsdecode(data[position : position + length].rstrip(b"\0")))
        position += length


def _failure(directory: Path) -> OSError:
    code = ctypes.get_errno() or errno.EIO
    return OSError(code, os.strerror(code), str(directory))
