"""Where files live in memory: for tests that write much and promise nothing about a disk."""

import os

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the directory, not a file in it


def memory_directory() -> str | None:
    """Return a directory in memory, or None where there is none: tempfile then takes its own default."""
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
