"""The one durable write, and the file system as a port so that a test can stop it at every call.

Nothing else in the registry opens a record for writing. Reading goes straight to the operating
system: it changes nothing, so it has no crash to inject.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jobwire.core.errors import StorageError
from jobwire.registry.helpers import Helpers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
TEMPORARY = ".tmp"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

_CLOSED = -1

StrPath = str | os.PathLike[str]


class FileSystem(Protocol):
    """System calls that change something. Each raises OSError; none does more than it says."""

    def make_directory(self, path: str) -> None:
        """Create one directory, mode 0700; an existing one is fine."""
        ...

    def create(self, path: str, mode: int) -> int:
        """Create a file that must not exist; return its descriptor."""
        ...

    def open_append(self, path: str, mode: int) -> int:
        """Open a file, created where missing, whose writes go to its end; return its descriptor."""
        ...

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of `data`, or raise with an unknown part of it written."""
        ...

    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Return when all these files' bytes and lengths are on the disk, in whatever order."""
        ...

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length`."""
        ...

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Put `source` in the place of `target` in one step."""
        ...

    def rename_all(self, pairs: Sequence[tuple[str, str]], folders: Sequence[str]) -> None:
        """Rename each pair as `rename` does, in order, then `sync_directory` each of `folders`."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the directory's entries are on the disk."""
        ...


class SystemFiles:
    """The operating system. Thread-safe."""

    def __init__(self) -> None:
        self._helpers = Helpers()

    def make_directory(self, path: str) -> None:
        """Call mkdir, forgiving an existing directory."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, DIRECTORY_MODE)

    def create(self, path: str, mode: int) -> int:
        """Open with O_EXCL and O_NOFOLLOW: a leftover or a planted link is an error, not a target."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

    def open_append(self, path: str, mode: int) -> int:
        """Open with O_APPEND."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

    def write(self, descriptor: int, data: bytes) -> None:
        """Repeat short writes (a nearly full disk gives one before ENOSPC)."""
        done = os.write(descriptor, data)
        while done < len(data):
            done += os.write(descriptor, memoryview(data)[done:])

    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Call fdatasync on each: it flushes lengths too and spares time stamps (fdatasync(2))."""
        if len(descriptors) == 1:
            os.fdatasync(descriptors[0])
            return
        # Linux starts write-back at once on this advice (mm/fadvise.c), so all are on their way before
        # the first is waited for.
        for descriptor in descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self._helpers.each(os.fdatasync, descriptors)

    def truncate(self, descriptor: int, length: int) -> None:
        """Call ftruncate."""
        os.ftruncate(descriptor, length)

    def close(self, descriptor: int) -> None:
        """Call close."""
        os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Call rename."""
        os.rename(source, target)

    def rename_all(self, pairs: Sequence[tuple[str, str]], folders: Sequence[str]) -> None:
        """Rename, and free the old files while the directories are flushed.

        Where the last reference to a file goes, its blocks are freed before the call returns; with
        `discard` (ext4(5)) that asks the device, and rename(2) would do so under the directory's lock.
        """
        held: list[int] = []
        try:
            for source, target in pairs:
                with contextlib.suppress(OSError):  # there was none
                    held.append(os.open(target, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
                self.rename(source, target)
        except BaseException:
            self._helpers.each(os.close, held)
            raise
        with self._helpers.meanwhile(os.close, held):
            self._helpers.each(self.sync_directory, folders)

    def unlink(self, path: str) -> None:
        """Call unlink, forgiving a missing file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Open the directory and fsync it: a rename is not durable before (rename(2), fsync(2))."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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


def replace_durably(path: StrPath, payload: bytes, *, mode: int = FILE_MODE, files: FileSystem) -> None:
    """Put `payload` at `path` so that a crash leaves either the old or the new bytes, and returns flushed.

    Temporary file in the same directory, write, flush, rename over, flush of the directory; the
    temporary file goes on any failure. Callers hold the lock that makes them the only writer of
    `path`. Raises StorageError.
    """
    change_durably(replace=[(path, payload)], mode=mode, files=files)


def append_durably(path: StrPath, payload: bytes, *, mode: int = FILE_MODE, files: FileSystem) -> None:
    r"""Append whole lines (`payload` ends in \n) to an NDJSON file and return when they are on the disk.

    A torn last line, left by a crash, is cut first; a missing folder is created. A failed write is
    taken back as far as the disk allows. Callers hold the lock that makes them the only writer.
    Raises StorageError.
    """
    change_durably(append=[(path, payload)], mode=mode, files=files)


def change_durably(
    *,
    append: Iterable[tuple[StrPath, bytes]] = (),
    before: Iterable[tuple[StrPath, bytes]] = (),
    replace: Iterable[tuple[StrPath, bytes]] = (),
    mode: int = FILE_MODE,
    files: FileSystem,
) -> None:
    """Append lines to files and replace others, as `append_durably` and `replace_durably` do each.

    What is appended, and the files of `before`, are on the disk before the first file of `replace` is
    replaced. The disk writes all of it at once, and each directory is flushed once. On failure the
    appended lines are taken back unless a file of `replace` was replaced already; every file is replaced
    whole or untouched. Raises StorageError.
    """
    logs: list[_Opened] = []
    first: list[_Staged] = []
    staged: list[_Staged] = []
    current: StrPath = ""
    try:
        for current, payload in append:
            logs.append(_open_log(os.fspath(current), mode, files))
            files.write(logs[-1].descriptor, payload)
        for current, payload in before:
            first.append(_stage(os.fspath(current), payload, mode, files))
        for current, payload in replace:
            staged.append(_stage(os.fspath(current), payload, mode, files))
        descriptors = [item.descriptor for item in logs] + [item.descriptor for item in first + staged]
        if not descriptors:
            return
        files.sync_all(descriptors)
        _close_staged(first, files)
        _close_staged(staged, files)
        _put_in_place(first, files, _folders(_new_names(logs) + [item.path for item in first]))
        _put_in_place(staged, files, _folders([item.path for item in staged]))
    except OSError as error:
        if all(item.temporary for item in staged):
            _take_back(logs, files)
        raise storage_failure("write", current, error) from error
    finally:
        _close_logs(logs, files)
        _discard(first + staged, files)


def _folders(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(os.path.dirname(path) or "." for path in paths))


def replace_atomically(
    replace: Iterable[tuple[StrPath, bytes]], *, mode: int = FILE_MODE, files: FileSystem
) -> None:
    """Put each payload at its path in one step but without a flush: for what can be derived again.

    Raises StorageError: then some may be replaced.
    """
    staged: list[_Staged] = []
    current: StrPath = ""
    try:
        for current, payload in replace:
            staged.append(_stage(os.fspath(current), payload, mode, files))
        _close_staged(staged, files)
        _put_in_place(staged, files, folders=())
    except OSError as error:
        raise storage_failure("write", current, error) from error
    finally:
        _discard(staged, files)


class _Staged(NamedTuple):
    path: str
    temporary: str
    descriptor: int


def temporary_name(path: str) -> str:
    """Return the one name of the temporary file for `path`: the next writer removes a stale one."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{TEMPORARY}")


def _stage(path: str, payload: bytes, mode: int, files: FileSystem) -> _Staged:
    temporary = temporary_name(path)
    try:
        descriptor = files.create(temporary, mode)
    except FileExistsError:
        files.unlink(temporary)
        descriptor = files.create(temporary, mode)
    try:
        files.write(descriptor, payload)
    except OSError:
        _discard([_Staged(path, temporary, descriptor)], files)
        raise
    return _Staged(path, temporary, descriptor)


def _put_in_place(staged: list[_Staged], files: FileSystem, folders: Sequence[str]) -> None:
    if not staged and not folders:
        return
    whole = False
    try:
        files.rename_all([(item.temporary, item.path) for item in staged], folders)
        whole = True
    finally:
        for index, item in enumerate(staged):
            if whole or not os.path.lexists(item.temporary):
                staged[index] = item._replace(temporary="")


def _close_staged(staged: list[_Staged], files: FileSystem) -> None:
    """Close early: of hundreds of files that are changed at once, each would hold a descriptor."""
    for index, item in enumerate(staged):
        files.close(item.descriptor)
        staged[index] = item._replace(descriptor=_CLOSED)


def _discard(staged: Sequence[_Staged], files: FileSystem) -> None:
    for item in staged:
        # Already failing, or done: a second error would hide the first.
        with contextlib.suppress(OSError):
            if item.descriptor != _CLOSED:
                files.close(item.descriptor)
        if item.temporary:
            with contextlib.suppress(OSError):
                files.unlink(item.temporary)


class _Opened(NamedTuple):
    path: str
    descriptor: int
    length: int
    new_folder: bool


def _open_log(path: str, mode: int, files: FileSystem) -> _Opened:
    new_folder = False
    try:
        descriptor = files.open_append(path, mode)
    except FileNotFoundError:
        new_folder = True
        files.make_directory(os.path.dirname(path))
        descriptor = files.open_append(path, mode)
    try:
        return _Opened(path, descriptor, cut_torn_line(descriptor, files=files), new_folder)
    except BaseException:
        files.close(descriptor)
        raise


def _new_names(logs: Sequence[_Opened]) -> list[str]:
    """Return the paths that may be new, whose names must be on the disk as well."""
    # An empty one may be what a crash left before that.
    new = [item for item in logs if not item.length]
    return [item.path for item in new] + [os.path.dirname(item.path) for item in new if item.new_folder]


def _take_back(logs: Sequence[_Opened], files: FileSystem) -> None:
    for item in logs:
        with contextlib.suppress(OSError):
            files.truncate(item.descriptor, item.length)


def _close_logs(logs: Sequence[_Opened], files: FileSystem) -> None:
    for item in logs:
        with contextlib.suppress(OSError):
            files.close(item.descriptor)


def read_whole(path: StrPath) -> bytes:
    """Return a regular file's bytes in as few system calls as can be. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while more := os.read(descriptor, _READ):
            content += more
        return content
    finally:
        os.close(descriptor)


_READ = 64 * 1024
_CHUNK = 4096


def cut_torn_line(descriptor: int, *, files: FileSystem) -> int:
    """Cut what follows the last line break and return the file's length."""
    size = os.fstat(descriptor).st_size
    whole = whole_length(descriptor, size)
    if whole != size:
        files.truncate(descriptor, whole)
    return whole


def whole_length(descriptor: int, size: int) -> int:
    """Return the length up to and with the last line break of a file of `size` bytes."""
    end = size
    while end:
        start = max(0, end - _CHUNK) if end != size else end - 1
        position = os.pread(descriptor, end - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0
