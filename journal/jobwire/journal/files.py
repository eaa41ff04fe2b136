"""The writing side of the file system as a port, so that a test can stop it at every call.

Reading goes straight to the operating system: it changes nothing, so it has no crash to inject.
"""

import os
from pathlib import Path
from typing import Protocol

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700


class Files(Protocol):
    """System calls that change something. Each raises OSError; none does more than it says."""

    def make_directory(self, path: Path) -> None:
        """Create the directory and its parents, mode 0700; existing ones are fine."""
        ...

    def create(self, path: Path) -> int:
        """Create a file that must not exist, mode 0600; return its descriptor."""
        ...

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing; return its descriptor."""
        ...

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        """Write all of `data` at `position`, or raise with an unknown part of it written."""
        ...

    def sync(self, descriptor: int) -> None:
        """Return when the file's bytes and length are on the disk."""
        ...

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file to `length`."""
        ...

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target` in one step."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing one is fine."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return when the directory's entries are on the disk."""
        ...


class SystemFiles:
    """The operating system."""

    def make_directory(self, path: Path) -> None:
        """Create with mode 0700 whatever the umask adds to it."""
        path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)

    def create(self, path: Path) -> int:
        """Create with O_EXCL: a leftover of the same name is an error, not a file to append to."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)

    def open(self, path: Path) -> int:
        """Open without creating."""
        return os.open(path, os.O_RDWR)

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        """Repeat short writes (a nearly full disk gives one before ENOSPC)."""
        done = os.pwrite(descriptor, data, position)
        while done < len(data):
            done += os.pwrite(descriptor, memoryview(data)[done:], position + done)

    def sync(self, descriptor: int) -> None:
        """Call fdatasync: it flushes the length too (fdatasync(2)) and spares the time stamps."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        """Call ftruncate."""
        os.ftruncate(descriptor, length)

    def close(self, descriptor: int) -> None:
        """Call close."""
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Call rename."""
        source.rename(target)

    def unlink(self, path: Path) -> None:
        """Call unlink, forgiving a missing file."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Open the directory and fsync it; a rename is not durable before."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


TEMPORARY = ".tmp"


def replace_durably(files: Files, path: Path, data: bytes) -> None:
    """Put `data` at `path`: temporary file, fsync, rename over, fsync of the directory.

    The temporary file goes on any failure. Raises OSError. Callers hold the lock that makes them
    the only writer of `path`.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    files.unlink(temporary)
    try:
        descriptor = files.create(temporary)
        try:
            files.write(descriptor, data, 0)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        files.rename(temporary, path)
    except OSError:
        files.unlink(temporary)
        raise
    files.sync_directory(path.parent)


def remove_temporaries(files: Files, directory: Path) -> None:
    """Remove what a crash left between create and rename."""
    for path in directory.glob("*" + TEMPORARY):
        files.unlink(path)
