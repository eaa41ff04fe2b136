"""Secrets in files: only their owner may have any right to them."""

import os
import stat

from jobwire.core.errors import ConfigError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_private(path: str, what: str) -> None:
    """Raise ConfigError unless `path` is a file that only its owner may use."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib would be one more import at start-up
    except OSError as error:
        raise ConfigError(
            f"cannot read the {what} {path}: {error.strerror}",
            hint="check the path in jobwire.toml or the environment",
            path=path,
        ) from error
    if mode & _OTHERS:
        raise ConfigError(
            f"the {what} {path} is open to other users (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}",
            path=path,
            mode=stat.S_IMODE(mode),
        )
