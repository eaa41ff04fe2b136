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
        self._calls = 0
        self._pid = 0
        self._forget()

    def _forget(self) -> None:
        # Each call of these is one step of the interpreter: no lock, which a fork could find taken. Who
        # was busy last is called first: its stack is warm, and the others end.
        self._alive: set[_Helper] = set()
        self._idle: deque[_Helper] = deque()
        self._waiting: deque[_Round[Any]] = deque()

    def each(self, function: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """Call `function` once for each; raise the first error when all calls have ended. Blocks."""
        if len(items) == 1:
            function(items[0])
            return
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
        self._calls += 1
        if most <= 0 or (self._calls <= _FEW_CALLS and files <= _FEW):
            return
        if self._pid != os.getpid():
            self._forget()  # a fork takes no threads along
            self._pid = os.getpid()
        work.wanted = min(most, self._most)
        self._call_next(work)

    def _call_next(self, work: _Round[Any]) -> None:
        """Call one helper, which calls the next: each call costs a wake-up, and the caller waits for it."""
        if work.wanted <= 0:
            return
        work.wanted -= 1
        try:
            self._idle.pop().begin(work)
        except IndexError:
            if not self._start(work) and len(self._waiting) < len(self._alive):
                self._waiting.append(work)

    def _start(self, work: _Round[Any]) -> bool:
        if len(self._alive) >= self._most:
            return False
        import threading  # noqa: PLC0415 - kept off the start of `publish_event`

        helper = _Helper(work)
        thread = threading.Thread(target=self._help, args=[helper], name="flush", daemon=True)
        self._alive.add(helper)
        try:
            thread.start()
        except RuntimeError:  # no more threads for this process, or it is ending
            self._alive.discard(helper)
        return helper in self._alive

    def _help(self, helper: _Helper) -> None:
        while helper in self._alive:
            if len(helper.work.waiting) > 1:
                self._call_next(helper.work)
            helper.work.work()
            try:
                helper.work = self._waiting.popleft()
            except IndexError:
                self._idle.append(helper)
                if not helper.begun.acquire(timeout=_IDLE_SECONDS):
                    self._end(helper)

    def _end(self, helper: _Helper) -> None:
        try:
            self._idle.remove(helper)
        except ValueError:
            helper.begun.acquire()  # it was given work at the last moment
        else:
            self._alive.discard(helper)


class _Helper:
    """One thread's work; `begun` is free when there is some. A lock, for a queue costs ten times as much."""

    def __init__(self, work: _Round[Any]) -> None:
        self.work = work
        self.begun = allocate_lock()
        self.begun.acquire()

    def begin(self, work: _Round[Any]) -> None:
        """Wake the thread, which waits, for this work."""
        self.work = work
        self.begun.release()


class _Round(Generic[_Item]):
    """The calls for some files; everybody takes the next one until none is left."""

    def __init__(self, function: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        self._function = function
        self.waiting = deque(items)
        self.wanted = 0
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
                item = self.waiting.popleft()
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
