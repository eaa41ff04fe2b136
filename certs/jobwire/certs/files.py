"""Files of the authority: private, and changed by one process at a time (see jobwire.storage)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.core.errors import NotFoundError
from jobwire.storage.durable import make_directories
from jobwire.storage.failures import storage_failure
from jobwire.storage.file_lock import locked_folder
from jobwire.storage.files import SystemFiles
from jobwire.storage.named_files import read_named_file

FILES = SystemFiles()
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
        make_directories(path, files=FILES)


def read_file(path: Path, *, private: bool = False) -> bytes:
    """Return the bytes of `path`; NotFoundError if there is none, ConfigError if it is unreadable.

    ConfigError also for a `private` one, a key, that others may access.
    """
    try:
        return read_named_file(path, "key file" if private else "file", limit=_MAX_FILE, private=private)
    except FileNotFoundError as error:
        hint = "create the certificates with: jobwire certs init"
        raise NotFoundError(f"no file {path}", hint=hint, path=str(path)) from error


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
