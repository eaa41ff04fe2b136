"""Files of the authority: durable, private from the first byte, never half-written, never clobbered.

Every write goes temporary file (O_EXCL, 0600), write, fsync, publish, fsync of the folder. Publishing
is link(2) where nothing may be overwritten (it fails if the name exists) and rename(2) where it may.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.core.errors import ConfigError, ConflictError, JobwireError, NotFoundError, StorageError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
LOCK_DEADLINE_SECONDS = 10.0
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_POLL_SECONDS = 0.02
_HINTS = {
    errno.ENOSPC: "the disk is full: free some space and repeat",
    errno.EDQUOT: "the disk quota is used up: free some space and repeat",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "run as the owner of the folder, or choose another --home",
    errno.EPERM: "run as the owner of the folder, or choose another --home",
    errno.EBUSY: "the folder is a mount point: use a folder inside it",
}


@contextmanager
def storage_errors(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into StorageError with cause and remedy."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot {action} {path}: {error.strerror or error}",
            hint=_HINTS.get(error.errno or 0, "nothing was left half-written; repeat after repair"),
            path=str(path),
            errno=error.errno,
        ) from error


def make_directory(path: Path) -> None:
    """Create `path` and its missing parents with mode 0700; existing ones stay as they are."""
    with storage_errors("create the folder", path):
        for folder in [*reversed(path.parents), path]:
            with suppress(FileExistsError):
                folder.mkdir(mode=PRIVATE_DIRECTORY)


def sync_directory(path: Path) -> None:
    """Make renames in `path` durable (fsync(2): a file's own fsync does not cover its name)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_files(contents: Mapping[Path, bytes], *, overwrite: bool) -> None:
    """Write all files durably, in order, each whole or not at all; all are staged before one is named.

    Raises ConflictError if one exists and `overwrite` is False (nothing is changed then), StorageError
    if the disk fails.
    """
    if not overwrite:
        for path in contents:
            if os.path.lexists(path):
                raise _exists(path)
    staged: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            with storage_errors("write", path):
                temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
                staged[path] = temporary
                _write_new(temporary, data)
        for path, temporary in staged.items():
            _publish(temporary, path, overwrite=overwrite)
        for folder in {path.parent for path in contents}:
            with storage_errors("sync the folder", folder):
                sync_directory(folder)
    finally:
        for temporary in staged.values():
            with suppress(OSError):
                temporary.unlink()


def write_file(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write one file as `write_files` does."""
    write_files({path: data}, overwrite=overwrite)


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _publish(temporary: Path, path: Path, *, overwrite: bool) -> None:
    with storage_errors("write", path):
        if overwrite:
            temporary.replace(path)
            return
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            raise _exists(path) from None


def _exists(path: Path) -> ConflictError:
    return ConflictError(
        f"{path} exists already", hint="use --force (force=True) to replace it", path=str(path)
    )


def append_line(path: Path, line: bytes) -> None:
    """Append `line` durably; a torn last line of an earlier crash is cut off first."""
    with storage_errors("write", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        try:
            end = _end_of_last_line(descriptor)
            os.ftruncate(descriptor, end)
            _write_all(descriptor, line + b"\n", end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)


def _end_of_last_line(descriptor: int) -> int:
    size = os.fstat(descriptor).st_size
    while size and os.pread(descriptor, 1, size - 1) != b"\n":
        size -= 1
    return size


def read_file(path: Path) -> bytes:
    """Return the bytes of `path`; NotFoundError if there is none, StorageError if it is unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"no file {path}", hint="create the certificates with: jobwire certs init", path=str(path)
        ) from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", hint="", path=str(path)) from error


def exposure(path: Path) -> JobwireError | None:
    """Return the error for a key file that group or others may access, None for a private one.

    Also None when the file is absent: that is for the reader to say.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    if not mode & _OTHERS:
        return None
    return ConfigError(
        f"the private key {path} is accessible to others (mode {mode:04o})",
        hint=f"chmod 600 {path}; if somebody may have read it, replace it and revoke its certificate",
        path=str(path),
        mode=mode,
    )


def read_private(path: Path) -> bytes:
    """Return the bytes of a key file; ConfigError if group or others may access it."""
    if exposed := exposure(path):
        raise exposed
    return read_file(path)


def remove_files(*paths: Path) -> None:
    """Remove files that may be absent, durably."""
    for path in paths:
        with storage_errors("remove", path):
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        with storage_errors("sync the folder", folder):
            sync_directory(folder)


def sweep(directory: Path) -> None:
    """Remove temporary files that a crash left in `directory`. Only while holding its lock."""
    for stale in directory.glob(".*.tmp"):
        with suppress(OSError):
            stale.unlink()


@contextmanager
def locked(directory: Path, *, clock: Clock) -> Iterator[None]:
    """Hold the folder's exclusive flock(2); ConflictError after LOCK_DEADLINE_SECONDS.

    The lock belongs to the open folder itself: no lock file can be left behind, and a killed holder
    frees it. Not reentrant.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"no certificate authority in {directory}",
            hint="create one with: jobwire certs init",
            path=str(directory),
        ) from error
    except OSError as error:
        raise StorageError(f"cannot open {directory}: {error.strerror}", path=str(directory)) from error
    try:
        _lock(descriptor, directory, clock)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path, clock: Clock) -> None:
    deadline = clock.monotonic() + LOCK_DEADLINE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() >= deadline:
                raise ConflictError(
                    f"another process has been changing {directory} for {LOCK_DEADLINE_SECONDS:g} s",
                    hint=f"see who: fuser -v {directory}",
                    path=str(directory),
                ) from None
            clock.sleep(_POLL_SECONDS)
        else:
            return
