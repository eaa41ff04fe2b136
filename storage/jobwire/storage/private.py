"""Files with secrets: nobody but their owner may read them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from jobwire.core.errors import ConfigError

if TYPE_CHECKING:
    from jobwire.storage.files import StrPath

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def exposure(path: StrPath) -> ConfigError | None:
    """Return the error for a file that group or others may access, None for a private one.

    Also None when the file is absent or cannot be examined: that is for the reader to say.
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
    if not mode & _OTHERS:
        return None
    return ConfigError(
        f"the secret file {os.fspath(path)} is readable by others (mode {mode:04o})",
        hint=f"chmod 600 {os.fspath(path)}; if somebody may have read it, replace what it holds",
        path=os.fspath(path),
        mode=mode,
    )


def require_private(path: StrPath) -> None:
    """Raise ConfigError if anybody but the owner can access `path`."""
    if exposed := exposure(path):
        raise exposed
