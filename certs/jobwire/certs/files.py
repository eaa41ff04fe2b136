"""Files of the authority: private, durable, and none overwritten unasked (see jobwire.storage)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.storage.durable import (
    append_durably,
    change_durably,
    create_durably,
    make_directories,
    remove_durably,
    remove_temporaries,
)
from jobwire.storage.failures import storage_failure
from jobwire.storage.file_lock import locked_folder
from jobwire.storage.files import SystemFiles
from jobwire.storage.named_files import read_named_file

_FILES = SystemFiles()
# Two revocation lists with half a million certificates each.
_MAX_FILE = 64 * 1024 * 1024


@contextmanager
def storage_errors(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into StorageError with cause and remedy."""
    try:
        yield
    except OSError as error:
        raise storage_failure(action, path, error) from error


def make_directory(path: Path) -> None:
    """Create `path` and its missing parents with mode 0700; existing ones stay as they are."""
    with storage_errors("create the folder", path):
        make_directories(path, files=_FILES)


def sync_directory(path: Path) -> None:
    """Make renames in `path` durable."""
    _FILES.sync_directory(path)


def write_files(contents: Mapping[Path, bytes], *, overwrite: bool) -> None:
    """Write all files durably, in order, each whole or not at all; all are flushed before one is named.

    Raises ConflictError if one exists and `overwrite` is False (nothing is changed then), StorageError
    if the disk fails.
    """
    if overwrite:
        change_durably(replace=contents.items(), files=_FILES)
        return
    for path in contents:
        if path.is_symlink() or path.exists():
            raise _exists(path)
    try:
        create_durably(contents.items(), files=_FILES)
    except FileExistsError as error:
        # It came in between: the file system has the last word.
        raise _exists(Path(str(error.filename))) from None


def write_file(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write one file as `write_files` does."""
    write_files({path: data}, overwrite=overwrite)


def _exists(path: Path) -> ConflictError:
    return ConflictError(
        f"{path} exists already", hint="use --force (force=True) to replace it", path=str(path)
    )


def append_line(path: Path, line: bytes) -> None:
    """Append `line` durably; a torn last line of an earlier crash is cut off first."""
    append_durably(path, line + b"\n", files=_FILES)


def read_file(path: Path, *, private: bool = False) -> bytes:
    """Return the bytes of `path`; NotFoundError if there is none, ConfigError if it is unreadable.

    ConfigError also for a `private` one, a key, that others may access.
    """
    try:
        return read_named_file(path, "key file" if private else "file", limit=_MAX_FILE, private=private)
    except FileNotFoundError as error:
        hint = "create the certificates with: jobwire certs init"
        raise NotFoundError(f"no file {path}", hint=hint, path=str(path)) from error


def remove_files(*paths: Path) -> None:
    """Remove files that may be absent, durably."""
    remove_durably(paths, files=_FILES)


def sweep(directory: Path) -> None:
    """Remove temporary files that a crash left in `directory`. Only while holding its lock."""
    with suppress(OSError):
        remove_temporaries(directory, files=_FILES)


@contextmanager
def locked(directory: Path, *, clock: Clock) -> Iterator[None]:
    """Be the only one who changes the authority; see `locked_folder`. NotFoundError where there is none."""
    if not directory.exists():
        raise NotFoundError(
            f"no certificate authority in {directory}",
            hint="create one with: jobwire certs init",
            path=str(directory),
        )
    with locked_folder(directory, clock=clock):
        yield
