"""What a failed call of SQLite means for a person.

    StorageError                 50
    ├── DamagedDatabaseError        no database of ours, or malformed
    ├── DatabaseVersionError        written by another version of the program
    └── LockTimeoutError            somebody else writes (storage.file_lock)
    ConflictError                20
    └── ConstraintError             the change breaks a rule that the tables state

Errors of use (a closed connection, a wrong number of values) stay what `sqlite3` raises: they are ours.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import TYPE_CHECKING

from jobwire.core.errors import ConflictError, JobwireError, StorageError
from jobwire.storage.failures import storage_failure

if TYPE_CHECKING:
    from jobwire.storage.files import StrPath

# The low byte of an extended result code is its kind (sqlite.org/rescode.html).
_KIND = 0xFF
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# SQLITE_ERROR: no such table or column, where every statement was compiled against the schema in a test.
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_ERRNOS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
_HINTS = {
    sqlite3.SQLITE_CANTOPEN: "its folder must exist and be writable by this user, also for -wal and -shm",
    sqlite3.SQLITE_IOERR: "check the disk, its space and quota, and this process's limit of file sizes",
}
# The byte of <database>-shm whose lock is the right to write (sqlite.org/walformat.html, 2.3).
_WRITE_LOCK = "120"
_LOCKS = "/proc/locks"
# A <database>-shm begins with so much and grows by it (sqlite.org/walformat.html, 2).
_SHARED_BYTES = 32 << 10


class DamagedDatabaseError(StorageError):
    """The file is not one of our databases, or is malformed. Facts: path."""


class DatabaseVersionError(StorageError):
    """The tables are of another version than this program's. Facts: path, found, known."""


class ConstraintError(ConflictError):
    """The change breaks a rule that the tables state; nothing of it was done.

    Facts: path; code, the extended result code, which says what kind of rule it is.
    """


def sqlite_failure(
    action: str, path: StrPath, cause: sqlite3.Error, *, deadline_seconds: float = 0.0
) -> JobwireError:
    """Return the error for a failed call that could not `action` the database; it waited so long."""
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind, place = code & _KIND, os.fspath(path)
    if kind == sqlite3.SQLITE_IOERR and _is_full(place):
        kind = sqlite3.SQLITE_FULL
    if kind in _ERRNOS:
        number = _ERRNOS[kind]
        return storage_failure(action, path, OSError(number, os.strerror(number)))
    if kind in _LOCKED:
        from jobwire.storage.file_lock import lock_timeout  # noqa: PLC0415 - the status line has no time

        return lock_timeout(f"{place} is written", path, writer_pid(path), deadline_seconds)
    if kind == sqlite3.SQLITE_CONSTRAINT:
        return ConstraintError(f"cannot {action} {place}: {cause}", path=place, code=code)
    if kind in _DAMAGED:
        return DamagedDatabaseError(
            f"cannot {action} {place}: {cause}",
            hint="move the file away with its -wal and -shm, and put a copy in its place",
            path=place,
        )
    hint = _HINTS.get(kind, "try again; if it stays so, check the disk")
    return StorageError(f"cannot {action} {place}: {cause}", hint=hint, path=place)


def _is_full(path: str) -> bool:
    """Tell whether the disk has no room for what readers share: that is an I/O error to SQLite."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _SHARED_BYTES


def writer_pid(path: StrPath) -> int | None:
    """Return the pid of the process that writes the database (WAL); None where it cannot be seen.

    From /proc/locks (proc(5)): asking with fcntl(2) would open the file, and closing that would drop
    the locks of this process's own connections (sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        inode = os.stat(f"{os.fspath(path)}-shm").st_ino
        with open(_LOCKS, encoding="ascii") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        # 7: POSIX  ADVISORY  WRITE 4711 fe:00:131075 120 120
        *_, kind, pid, place, first, _last = line.split()
        if (kind, first, place.rpartition(":")[2]) == ("WRITE", _WRITE_LOCK, str(inode)):
            return int(pid) if pid.isdigit() else None
    return None
