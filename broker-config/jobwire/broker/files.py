"""Small files with secrets in them: written whole, private, and durable, or not at all."""

import os
import stat
import tempfile
from pathlib import Path

from jobwire.core.errors import ConfigError, StorageError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path) -> None:
    """Create `path` with mode 0700; an existing directory is left as it is."""
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create {path}: {error.strerror}", path=str(path)) from error


def write_private(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Replace `path` by `text` durably: a reader sees the old file or the new one, never a part.

    Raises StorageError; nothing half-written stays behind.
    """
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(descriptor, mode)
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
        temporary = ""
        _sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", path=str(path)) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def read_text(path: Path, what: str, *, hint: str = "") -> str:
    """Return the text of `path`, or raise ConfigError naming `what` could not be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{what} {path} does not exist", hint=hint, path=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}", hint=hint, path=str(path)) from error


def require_private(path: Path) -> None:
    """Raise ConfigError if anybody but the owner can read `path`."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be examined: {error.strerror}", path=str(path)) from error
    if mode & 0o077:
        raise ConfigError(
            f"{path} is readable by others (mode {mode:04o})",
            hint=f"chmod 600 {path}",
            path=str(path),
            mode=mode,
        )


def _sync_directory(path: Path) -> None:
    # rename(2) is durable only after the directory itself is synced (fsync(2), notes).
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
