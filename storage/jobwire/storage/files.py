"""The writing side of the file system as a port, so that a test can stop it at every call.

Reading goes straight to the operating system: it changes nothing, so it has no crash to inject.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from jobwire.core.override import override
from jobwire.storage.flush_pool import FlushPool

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_READ = 64 * 1024

StrPath = str | os.PathLike[str]


class FileSystem:
    """System calls that change something, one after the other; `SystemFiles` does many at once.

    Each raises OSError; none does more than it says. Thread-safe.
    """

    def make_directory(self, path: StrPath) -> None:
        """Create one directory, mode 0700; an existing one is fine."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, DIRECTORY_MODE)

    def create(self, path: StrPath, mode: int) -> int:
        """Create a file that must not exist; return its descriptor."""
        # O_EXCL and O_NOFOLLOW: a leftover or a planted link is an error, not a target.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        if mode != FILE_MODE:
            # Rights for others are meant, whatever the umask says.
            os.fchmod(descriptor, mode)
        return descriptor

    def open(self, path: StrPath) -> int:
        """Open an existing file for reading and writing; return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)

    def open_append(self, path: StrPath, mode: int) -> int:
        """Open a file, created where missing, whose writes go to its end; return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of `data` where the descriptor stands, or raise with an unknown part of it written."""
        # A nearly full disk gives a short write before ENOSPC.
        done = os.write(descriptor, data)
        while done < len(data):
            done += os.write(descriptor, memoryview(data)[done:])

    def write_at(self, descriptor: int, data: bytes, position: int) -> None:
        """Write all of `data` at `position`, or raise with an unknown part of it written."""
        done = os.pwrite(descriptor, data, position)
        while done < len(data):
            done += os.pwrite(descriptor, memoryview(data)[done:], position + done)

    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Return when all these files' bytes and lengths are on the disk, in whatever order."""
        for descriptor in descriptors:
            # It flushes lengths too and spares time stamps (fdatasync(2)).
            os.fdatasync(descriptor)

    def syncing(self, descriptors: Sequence[int]) -> contextlib.AbstractContextManager[None]:
        """Do `sync_all` by the end of the block."""
        self.sync_all(descriptors)
        return contextlib.nullcontext()

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length`."""
        os.ftruncate(descriptor, length)

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        os.close(descriptor)

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Put `source` in the place of `target` in one step."""
        os.rename(source, target)

    def rename_all(self, pairs: Sequence[tuple[str, str]], folders: Sequence[str]) -> None:
        """Rename each pair as `rename` does, in order, then `sync_directory` each of `folders`."""
        for source, target in pairs:
            self.rename(source, target)
        for folder in folders:
            self.sync_directory(folder)

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give the file a second name; raises FileExistsError where that is taken."""
        os.link(source, target)

    def unlink(self, path: StrPath) -> None:
        """Remove a file; a missing one is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_directory(self, path: StrPath) -> None:
        """Return when the directory's entries are on the disk: no rename is before (rename(2), fsync(2))."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class SystemFiles(FileSystem):
    """The operating system, with helpers that wait for the disk together."""

    def __init__(self) -> None:
        self._pool = FlushPool()

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Start all of them before the first is waited for."""
        if len(descriptors) == 1:
            os.fdatasync(descriptors[0])
            return
        # Linux starts write-back at once on this advice (mm/fadvise.c), so all are on their way before
        # the first is waited for.
        for descriptor in descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self._pool.each(os.fdatasync, descriptors)

    @override
    def syncing(self, descriptors: Sequence[int]) -> contextlib.AbstractContextManager[None]:
        """Let helpers do it. Without the advice: it would drop what a longer file has in memory."""
        return self._pool.meanwhile(self._sync, descriptors)

    def _sync(self, descriptor: int) -> None:
        self.sync_all([descriptor])

    @override
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
            self._pool.each(os.close, held)
            raise
        with self._pool.meanwhile(os.close, held):
            self._pool.each(self.sync_directory, folders)


def read_whole(path: StrPath) -> bytes:
    """Return a regular file's bytes in as few system calls as can be. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = more = os.read(descriptor, _READ)
        # Of a regular file less comes only at its end (read(2)).
        while len(more) == _READ:
            more = os.read(descriptor, _READ)
            content += more
        return content
    finally:
        os.close(descriptor)
