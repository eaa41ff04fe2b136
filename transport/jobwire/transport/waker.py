"""Wakes a thread that sleeps in poll()."""

import os
from contextlib import suppress
from threading import Lock


class Waker:
    """A pipe whose read end is polled. `wake` may be called from any thread, often, and cheaply."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._raised = False
        self._closed = False
        self._guard = Lock()

    def fileno(self) -> int:
        """Return the descriptor to poll for reading."""
        return self._read_end

    def wake(self) -> None:
        """Make the next or current poll return; calls before it returns count once."""
        if self._raised:
            return
        with self._guard:  # else the descriptor could be closed, and be somebody else's, before the write
            if not self._closed:
                self._raised = True
                os.write(self._write_end, b"\0")

    def clear(self) -> None:
        """Re-arm. Look for work after this call, never before: then no wake-up is missed."""
        with suppress(BlockingIOError):  # a wake-up that has raised the flag and not written yet
            os.read(self._read_end, 4096)
        self._raised = False

    def close(self) -> None:
        """Close both ends; `wake` does nothing from now on."""
        with self._guard:
            self._closed = True
        os.close(self._read_end)
        os.close(self._write_end)
