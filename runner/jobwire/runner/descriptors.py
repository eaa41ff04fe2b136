"""Writing to descriptors of others: all of it, whatever mode they are in."""

import os
import select


def write_all(descriptor: int, chunk: bytes) -> bool:
    """Write `chunk`, waiting for a slow reader; False when the reader is gone for good.

    Standard output may be non-blocking: the mode belongs to the open file, which others share.
    """
    rest = memoryview(chunk)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:  # a pipe without a reader, a terminal that hung up
            return False
    return True
