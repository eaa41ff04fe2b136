"""The broker's small files, some of them secret: written whole, private, and durable, or not at all."""

import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.resources import files as resources
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError
from jobwire.storage.durable import replace_durably
from jobwire.storage.file_lock import locked_folder
from jobwire.storage.files import FILE_MODE, SystemFiles
from jobwire.storage.named_files import read_named_file

_FILES = SystemFiles()
# Access lists and password files of many thousand accounts.
_MAX_TEXT = 16 * 1024 * 1024
_PLACE = re.compile(r"@([A-Z_]+)@")


def require_writable(directory: Path, what: str) -> None:
    """Raise ConfigError unless files can be created in `directory`; tried: modes do not bind root."""
    probe = directory / f".writable.{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"the {what} {directory} is not writable: {error.strerror}",
            hint=f"make {directory} writable for its user: Mosquitto would keep nothing, silently"
            if what == "persistence folder"
            else "check its owner and the disk",
            path=str(directory),
        ) from error


def write_private(path: Path, text: str, *, mode: int = FILE_MODE) -> None:
    """Replace `path` by `text` durably: a reader sees the old file or the new one, never a part.

    Two commands that prepare one home take turns. Raises StorageError, ConflictError.
    """
    with sole_writer(path.parent):
        replace_private(path, text, mode=mode)


def sole_writer(folder: Path) -> AbstractContextManager[None]:
    """Return a context in which no other command changes `folder`; see `locked_folder`. Not reentrant."""
    return locked_folder(folder, clock=SystemClock())


def replace_private(path: Path, text: str, *, mode: int = FILE_MODE) -> None:
    """Replace `path` as `write_private` does; the caller is the folder's `sole_writer`."""
    replace_durably(path, text.encode(), mode=mode, files=_FILES)


def read_text(path: Path, what: str, *, hint: str = "", private: bool = False) -> str:
    """Return the text of `path`, or raise ConfigError naming what is wrong with it."""
    try:
        return read_named_file(path, what, limit=_MAX_TEXT, private=private, hint=hint).decode()
    except FileNotFoundError as error:
        raise ConfigError(f"{what} {path} does not exist", hint=hint, path=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}", hint=hint, path=str(path)) from error


def render_template(name: str, values: Mapping[str, str]) -> str:
    """Return the packaged template `name` with every place filled.

    Raises ConfigError for a value that would start a new line in a line-oriented file, KeyError for a place
    without a value.
    """
    for key, value in values.items():
        if any(ord(sign) < ord(" ") for sign in value):
            raise ConfigError(
                f"{key} holds a control character: {value!r}", hint="choose a plain path or name"
            )
    source = resources("jobwire.broker").joinpath("templates", name).read_text(encoding="utf-8")
    return _PLACE.sub(lambda match: values[match[1]], source)
