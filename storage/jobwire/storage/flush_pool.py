"""Threads that wait for the disk: one call for each of many files, several of them at a time.

A flush is waiting, not work: the kernel merges the flushes of the device that are asked for at the
same time, and one after the other each would be waited for alone.
"""

from __future__ import annotations

import contextlib
import os
from _thread import allocate_lock  # threading.Lock, without the rest of it
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from queue import Queue

_Item = TypeVar("_Item")

_MOST = 12
_IDLE_SECONDS = 2.0
# Files for which the first calls of a process start no thread: most commands make one change and end.
_FEW = 3
_FEW_CALLS = 4


class FlushPool:
    """A pool of helping threads, started when there is enough to do and ended when idle. Thread-safe.

    Help is never needed: whoever asks works too, and waits only for what a helper has begun. So
    nothing is lost where helpers are busy for others, where none could be started, or after a fork.
    """

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._guard = allocate_lock()
        self._queue: Queue[_Round[Any]] | None = None
        self._alive = 0
        self._pid = 0
        self._calls = 0

    def each(self, function: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """Call `function` once for each; raise the first error when all calls have ended. Blocks."""
        work = _Round(function, items)
        # One of the calls is the caller's own.
        self._call_for_help(work, len(items), most=len(items) - 1)
        work.finish()
        work.check()

    @contextlib.contextmanager
    def meanwhile(self, function: Callable[[_Item], None], items: Sequence[_Item]) -> Iterator[None]:
        """Let helpers begin, do the block, then do what is left and wait; raises as `each` does."""
        work = _Round(function, items)
        self._call_for_help(work, len(items), most=len(items))
        try:
            yield
        finally:
            work.finish()
        work.check()

    def _call_for_help(self, work: _Round[Any], files: int, *, most: int) -> None:
        with self._guard:
            self._calls += 1
            if most <= 0 or (self._calls <= _FEW_CALLS and files <= _FEW):
                return
            queue = self._open_queue()
            wanted = min(most, self._most)
            while self._alive < wanted and self._start(queue):
                self._alive += 1
            for _ in range(min(wanted, self._alive)):
                queue.put(work)

    def _open_queue(self) -> Queue[_Round[Any]]:
        if self._queue is None or self._pid != os.getpid():
            # Not SimpleQueue: of several that wait on one with a timeout, CPython's can leave one waiting for
            # ever. A helper that is never back counts as alive, and is not replaced.
            from queue import Queue  # noqa: PLC0415 - kept off the start of `publish_event`

            # A fork takes no threads along.
            self._queue, self._pid, self._alive = Queue(), os.getpid(), 0
        return self._queue

    def _start(self, queue: Queue[_Round[Any]]) -> bool:
        import threading  # noqa: PLC0415 - as above

        try:
            threading.Thread(target=self._help, args=[queue], name="flush", daemon=True).start()
        except RuntimeError:
            return False  # no more threads for this process, or it is ending
        return True

    def _help(self, queue: Queue[_Round[Any]]) -> None:
        from queue import Empty  # noqa: PLC0415 - as above

        while True:
            try:
                queue.get(timeout=_IDLE_SECONDS).work()
            except Empty:
                with self._guard:
                    if queue is self._queue:
                        self._alive -= 1
                return


class _Round(Generic[_Item]):
    """The calls for some files; everybody takes the next one until none is left."""

    def __init__(self, function: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        self._function = function
        self._waiting = deque(items)
        self._left = len(items)
        self._guard = allocate_lock()
        self._ended = allocate_lock()
        if items:
            self._ended.acquire()
        self._errors: list[BaseException] = []

    def work(self) -> None:
        """Make calls while there are any; errors are kept."""
        while True:
            try:
                item = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._function(item)
            except BaseException as error:  # noqa: BLE001 - raised again by whoever asked
                self._errors.append(error)
            finally:
                self._count()

    def finish(self) -> None:
        """Work, and wait until every call has ended."""
        self.work()
        with self._ended:
            pass

    def check(self) -> None:
        """Raise the first error."""
        if self._errors:
            raise self._errors[0]

    def _count(self) -> None:
        with self._guard:
            self._left -= 1
            if not self._left:
                self._ended.release()
