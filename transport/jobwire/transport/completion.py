"""One caller's wait for one answer of the broker."""

from threading import Lock

from jobwire.core.errors import JobwireError


class Completion:
    """Settled once, from any thread; waited for once, by the caller."""

    __slots__ = ("_error", "_guard", "_open")

    def __init__(self) -> None:
        self._open = Lock()  # a bare lock: an Event costs a Condition, and this is made per message
        self._open.acquire()
        self._guard = Lock()
        self._error: JobwireError | None = None

    def settle(self, error: JobwireError | None = None) -> None:
        """Let the waiting caller go on, with `error` raised there; later calls do nothing."""
        with self._guard:
            if self._open.locked():
                self._error = error
                self._open.release()

    def wait(self, timeout_seconds: float) -> bool:
        """Return whether it was settled in time; raises the error it was settled with."""
        if not self._open.acquire(timeout=max(0.0, timeout_seconds)):
            return False
        if self._error is not None:
            raise self._error
        return True
