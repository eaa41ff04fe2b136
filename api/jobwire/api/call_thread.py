"""Where what blocks runs while a loop goes on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
