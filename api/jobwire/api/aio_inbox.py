"""An agent's inbox for asyncio: nothing here blocks the loop."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jobwire.api.call_thread import Behind, CallThread, called, each
from jobwire.api.inbox import NEVER, AgentInbox, TakenMessage
from jobwire.coordination.stored import InboxMessage
from jobwire.core.override import override

_SLICE_SECONDS = 1.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncTakenMessage(Behind[TakenMessage]):
    """`TakenMessage` for `async with`: acknowledged at the end of the block, given back on an exception."""

    def __init__(self, taken: TakenMessage, thread: CallThread) -> None:
        self.taken = taken
        self._thread = thread

    ack = called(TakenMessage.ack)
    nack = called(TakenMessage.nack)

    @property
    @override
    def behind(self) -> TakenMessage:
        """See `Behind`."""
        return self.taken

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread.call(self.taken.__exit__, kind, error, trace)

    @override
    async def _call(
        self, method: Callable[Concatenate[TakenMessage, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        return await self._thread.call(method, self.taken, *args, **kwargs)


class AsyncAgentInbox(Behind[AgentInbox]):
    """`AgentInbox` for asyncio; `inbox` is the one behind it."""

    def __init__(self, inbox: AgentInbox) -> None:
        self.inbox = inbox

    send = called(AgentInbox.send)
    reply = called(AgentInbox.reply)
    fetch = called(AgentInbox.fetch)
    messages = called(AgentInbox.messages)
    search = called(AgentInbox.search)
    claim = called(AgentInbox.claim)
    renew = called(AgentInbox.renew)
    update = called(AgentInbox.update)
    done = called(AgentInbox.done)
    fail = called(AgentInbox.fail)
    cancel = called(AgentInbox.cancel)
    take = each(AgentInbox.take, AsyncTakenMessage)

    @property
    @override
    def behind(self) -> AgentInbox:
        """See `Behind`."""
        return self.inbox

    @override
    def _done(self) -> None:
        # The connection that its thread would leave open.
        self.inbox.close()

    async def wait_reply(
        self, thread: str, *, seconds: float = NEVER, kinds: Sequence[str] = (), after: int | None = None
    ) -> InboxMessage | None:
        """Wait as `AgentInbox.wait_reply`; a task that is cancelled leaves within a second."""
        clock = self.inbox.store.clock
        give_up = clock.monotonic() + seconds
        while True:
            left = max(0.0, give_up - clock.monotonic())
            how: dict[str, Any] = {"seconds": min(left, _SLICE_SECONDS), "kinds": kinds, "after": after}
            found = await self._call(AgentInbox.wait_reply, thread, **how)
            if found is not None or left <= _SLICE_SECONDS:
                return found

    async def ask(
        self, to: str | Iterable[str], question: str, *, thread: str | None = None, seconds: float = NEVER
    ) -> InboxMessage | None:
        """Ask another agent and wait for its reply; None after `seconds`."""
        posted = await self.send(to, question, kind="question", thread=thread)
        return await self.wait_reply(posted.thread_id, seconds=seconds, after=posted.event_id)
