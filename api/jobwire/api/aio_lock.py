"""File locks for asyncio: waiting for one's turn does not block the loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self

from jobwire.api.call_thread import CallThread
from jobwire.coordination.locks.held_lock import HeldLock
from jobwire.core.errors import InvalidInputError


class AsyncHeldLock:
    """`HeldLock` for `async with`: taken at the start of the block, given back at its end.

    A task that is cancelled while it waits leaves the queue within two seconds, and holds nothing.
    """

    def __init__(self, take: Callable[..., HeldLock]) -> None:
        self._take = take
        self._stop = threading.Event()
        self._thread = CallThread()
        self._held: HeldLock | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Return what is locked, relative to the run's folder."""
        return self._taken.paths

    @property
    def token(self) -> int:
        """Return what fences writes elsewhere: it rises with each new holder."""
        return self._taken.token

    @property
    def lost(self) -> bool:
        """Tell whether it is no longer ours: stop writing."""
        return self._taken.lost

    def when_lost(self, act: Callable[[], object]) -> None:
        """Do something in the loop once it is no longer ours; soon where that is so already."""
        loop = asyncio.get_running_loop()
        self._taken.when_lost(lambda: loop.call_soon_threadsafe(act))

    async def __aenter__(self) -> Self:
        try:
            await self._thread.interruptible(self._stop.set, self._begin)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    @property
    def _taken(self) -> HeldLock:
        if self._held is None:
            raise InvalidInputError("nothing is locked yet", hint="use it in `async with`")
        return self._held

    def _begin(self) -> None:
        self._held = self._take(stop=self._stop)

    async def _end(self) -> None:
        """Give it back: also what a task was granted at the moment of its cancellation."""
        try:
            if self._held is not None:
                await self._thread.call(self._held.release)
        finally:
            self._thread.close()
