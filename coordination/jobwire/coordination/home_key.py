"""The key that a home signs with: its own word, such as a board's resolution. A 0600 file, made once."""

from __future__ import annotations

import contextlib
import os

from jobwire.core.signature import new_token
from jobwire.storage.durable import create_durably, make_directories
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import read_named_file

_LONGEST = 1024


def home_key(home: str) -> str:
    """Return the home's key, made where there is none. Raises ConfigError for a file open to others."""
    path = HomePaths(home).home_key_path
    files = SystemFiles()
    if not os.path.exists(path):
        try:
            make_directories(os.path.dirname(path), files=files)
            # Of two at once the first one's holds.
            with contextlib.suppress(FileExistsError):
                create_durably([(path, new_token().encode() + b"\n")], files=files)
        except OSError as error:
            raise storage_failure("create", path, error) from error
    return read_named_file(path, "home's key", limit=_LONGEST, private=True).decode().strip()
