"""What a block leaves open in this process, whatever others close in it meanwhile."""

import contextlib
import os
from collections.abc import Iterator

_OWN = "/proc/self/fd"


@contextlib.contextmanager
def nothing_left_open() -> Iterator[None]:
    """Raise AssertionError where a descriptor that was opened in the block is open after it.

    By what they are open on, not by their number: the garbage of earlier tests may close at any time.
    """
    before = _open_now()
    yield
    if left := _open_now() - before:
        raise AssertionError(f"left open: {sorted(left)}")


def _open_now() -> set[tuple[str, str]]:
    found = set()
    for number in os.listdir(_OWN):  # noqa: PTH208 - names are enough
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found.add((number, os.readlink(f"{_OWN}/{number}")))  # noqa: PTH115 - a pipe is no path
    return found
