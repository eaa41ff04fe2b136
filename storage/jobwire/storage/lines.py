"""Files of lines: what a crash may have torn is what follows the last line break."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobwire.storage.files import FileSystem

_CHUNK = 4096


def cut_torn_line(descriptor: int, *, files: FileSystem) -> int:
    """Cut what follows the last line break and return the file's length."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    whole = whole_length(descriptor, size)
    if whole != size:
        files.truncate(descriptor, whole)
    return whole


def whole_length(descriptor: int, size: int) -> int:
    """Return the length up to and with the last line break of a file of `size` bytes."""
    end = size
    while end:
        start = max(0, end - _CHUNK) if end != size else end - 1
        position = os.pread(descriptor, end - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0
