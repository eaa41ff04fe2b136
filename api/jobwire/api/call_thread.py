"""Where what blocks runs while a loop goes on, and how a class for asyncio is made of one that blocks."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Sync = TypeVar("_Sync")
_Async = TypeVar("_Async")


class CallThread:
    """One thread for what blocks, one call after the other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jobwire")

    async def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return what the function returns; one that runs is awaited also when the task is cancelled."""
        return await self.interruptible(lambda: None, function, *args, **kwargs)

    async def interruptible(
        self,
        interrupt: Callable[[], object],
        function: Callable[_P, _T],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """As `call`; `interrupt` makes the function return soon when the task is cancelled."""
        future = asyncio.wrap_future(self._pool.submit(function, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            interrupt()
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:
                    continue
            if not future.cancelled():
                future.exception()  # looked at: the cancellation is the news
            raise

    def close(self) -> None:
        """End the thread, which is idle."""
        self._pool.shutdown()


class Behind(ABC, Generic[_Sync]):
    """A class for asyncio with one that blocks behind it; `called`, `made` and `each` make its methods."""

    @property
    @abstractmethod
    def behind(self) -> _Sync:
        """Return the object that is called."""

    def _done(self) -> None:
        """Let go of what a call leaves open in its thread, there."""

    async def _call(
        self, method: Callable[Concatenate[_Sync, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call a method of the object behind, in a thread."""

        def body() -> _T:
            try:
                return method(self.behind, *args, **kwargs)
            finally:
                self._done()

        thread = CallThread()
        try:
            return await thread.call(body)
        finally:
            thread.close()


def called(
    method: Callable[Concatenate[_Sync, _P], _T],
) -> Callable[Concatenate[Behind[_Sync], _P], Coroutine[Any, Any, _T]]:
    """Return the method as one to await."""

    @wraps(method)
    async def call(self: Behind[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._call(method, *args, **kwargs)

    return call


def made(
    method: Callable[Concatenate[_Sync, _P], object], kind: Callable[[Callable[..., Any]], _Async]
) -> Callable[Concatenate[Behind[_Sync], _P], _Async]:
    """Return the method that gives a `kind`, which calls `method` once it is entered."""

    @wraps(method)
    def make(self: Behind[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _Async:
        _refuse_stop(kwargs)
        return kind(partial(method, self.behind, *args, **kwargs))

    return make


def each(
    method: Callable[Concatenate[_Sync, _P], Generator[_T, None, None]],
    kind: Callable[[_T, CallThread], _Async],
) -> Callable[Concatenate[Behind[_Sync], _P], AsyncGenerator[_Async, None]]:
    """Return the method for `async for`; what `method` yields is a `kind`, which calls in the same thread.

    The generator's `stop` is set by a task that is cancelled.
    """

    @wraps(method)
    async def loop(
        self: Behind[_Sync], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> AsyncGenerator[_Async, None]:
        _refuse_stop(kwargs)
        stop, thread = threading.Event(), CallThread()
        begin: Any = partial(method, self.behind, *args, **kwargs)
        items = begin(stop=stop)
        try:
            while (item := await thread.interruptible(stop.set, next, items, None)) is not None:
                yield kind(item, thread)
        finally:
            stop.set()
            try:
                await thread.call(items.close)
            finally:
                await thread.call(self._done)
                thread.close()

    return loop


def _refuse_stop(given: Mapping[str, object]) -> None:
    if "stop" in given:
        raise TypeError("a task is cancelled to stop it: `stop` is for threads")
