"""What a test needs from the machine: skip where it is missing, fail where it must not be."""

import os
import shutil
from typing import NoReturn

# Debian puts servers where a user's PATH does not look.
_SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin")


def find_program(name: str) -> str | None:
    """Return the path of `name`, or None."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *_SERVER_FOLDERS)))


def require(program: str) -> str:
    """Return the path of `program`; without it skip the test, or fail it where CI=true."""
    path = find_program(program)
    if path is None:
        skip_here(f"{program} is not installed (apt-get install {program})")
    return path


def skip_here(reason: str) -> NoReturn:
    """Skip the test because the machine lacks something, or fail it where CI=true."""
    import pytest  # noqa: PLC0415 - the rest of this package runs without pytest

    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
