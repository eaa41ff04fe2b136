"""An agent's inbox for asyncio: nothing here blocks the loop."""

import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jobwire.api.call_thread import CallThread
from jobwire.api.inbox import NEVER, AgentInbox, TakenMessage
from jobwire.coordination.delivery import LEASE_SECONDS, MAX_TRIES
from jobwire.coordination.stored import InboxMessage

_SLICE_SECONDS = 1.0
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Call = Callable[Concatenate["AsyncAgentInbox", _P], Coroutine[Any, Any, _T]]


def _called(method: Callable[Concatenate[AgentInbox, _P], _T]) -> _Call[_P, _T]:
    """Return the method that calls AgentInbox's in a thread."""

    @wraps(method)
    async def call(self: "AsyncAgentInbox", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        thread = CallThread()
        try:
            return await thread.call(_closing(method), self.inbox, *args, **kwargs)
        finally:
            thread.close()

    return call


def _closing(method: Callable[Concatenate[AgentInbox, _P], _T]) -> Callable[Concatenate[AgentInbox, _P], _T]:
    """Return the method without the connection that its thread would leave open."""

    def body(inbox: AgentInbox, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(inbox, *args, **kwargs)
        finally:
            inbox.close()

    return body


class AsyncTakenMessage:
    """`TakenMessage` for `async with`: acknowledged at the end of the block, given back on an exception."""

    def __init__(self, taken: TakenMessage, thread: CallThread) -> None:
        self.taken = taken
        self._thread = thread

    async def ack(self, summary: str = "", *, body: str = "", payload: object = None) -> None:
        """Say that it is done, as `TakenMessage.ack`."""
        await self._thread.call(self.taken.ack, summary, body=body, payload=payload)

    async def nack(self, reason: str = "", *, permanent: bool = False) -> None:
        """Give it back, as `TakenMessage.nack`."""
        await self._thread.call(self.taken.nack, reason, permanent=permanent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread.call(self.taken.__exit__, kind, error, trace)


class AsyncAgentInbox:
    """`AgentInbox` for asyncio; `inbox` is the one behind it."""

    def __init__(self, inbox: AgentInbox) -> None:
        self.inbox = inbox

    send = _called(AgentInbox.send)
    reply = _called(AgentInbox.reply)
    fetch = _called(AgentInbox.fetch)
    messages = _called(AgentInbox.messages)
    search = _called(AgentInbox.search)
    claim = _called(AgentInbox.claim)
    renew = _called(AgentInbox.renew)
    update = _called(AgentInbox.update)
    done = _called(AgentInbox.done)
    fail = _called(AgentInbox.fail)
    cancel = _called(AgentInbox.cancel)
    _waited = _called(AgentInbox.wait_reply)

    async def wait_reply(
        self, thread: str, *, seconds: float = NEVER, kinds: Sequence[str] = (), after: int | None = None
    ) -> InboxMessage | None:
        """Wait as `AgentInbox.wait_reply`; a task that is cancelled leaves within a second."""
        clock = self.inbox.store.clock
        give_up = clock.monotonic() + seconds
        while True:
            left = max(0.0, give_up - clock.monotonic())
            found = await self._waited(thread, seconds=min(left, _SLICE_SECONDS), kinds=kinds, after=after)
            if found is not None or left <= _SLICE_SECONDS:
                return found

    async def ask(
        self, to: str | Iterable[str], question: str, *, thread: str | None = None, seconds: float = NEVER
    ) -> InboxMessage | None:
        """Ask another agent and wait for its reply; None after `seconds`."""
        posted = await self.send(to, question, kind="question", thread=thread)
        return await self.wait_reply(posted.thread_id, seconds=seconds, after=posted.event_id)

    async def take(
        self,
        *,
        wait_seconds: float | None = None,
        lease_seconds: float = LEASE_SECONDS,
        max_tries: int = MAX_TRIES,
    ) -> AsyncGenerator[AsyncTakenMessage, None]:
        """Yield our messages for `async for`, each for `async with`; see `AgentInbox.take`."""
        stop, thread = threading.Event(), CallThread()
        messages = self.inbox.take(
            wait_seconds=wait_seconds, lease_seconds=lease_seconds, max_tries=max_tries, stop=stop
        )
        try:
            while (taken := await thread.interruptible(stop.set, next, messages, None)) is not None:
                yield AsyncTakenMessage(taken, thread)
        finally:
            try:
                await thread.call(messages.close)
            finally:
                await thread.call(self.inbox.close)
                thread.close()
