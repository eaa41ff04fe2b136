"""The same for asyncio: nothing here blocks the loop, and nothing goes on after its task was cancelled.

What blocks runs in a thread of its own. A task that is cancelled leaves when that thread is done: a watch
within half a second, a claim within a second, an event that is being sent after its tries at most.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jobwire.api.aio_inbox import AsyncAgentInbox
from jobwire.api.aio_lock import AsyncHeldLock
from jobwire.api.call_thread import Behind, CallThread, called, each, made
from jobwire.api.home import Home
from jobwire.api.work import ClaimedJob
from jobwire.core.clock import Clock
from jobwire.core.errors import InvalidInputError
from jobwire.core.override import override
from jobwire.jobs.event import Event
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer
from jobwire.publisher.publisher import Publisher
from jobwire.subscriber.outcome import Verdict, Verdicts
from jobwire.subscriber.subscriber import Subscriber

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncPublisher(Behind[Publisher]):
    """`Publisher` with awaitable methods, for `async with`."""

    def __init__(self, make: Callable[[], Publisher], *, thread: CallThread | None = None) -> None:
        self._make = make
        self._given = thread
        self._thread = thread or CallThread()
        self._publisher: Publisher | None = None

    started = called(Publisher.started)
    progress = called(Publisher.progress)
    permission_required = called(Publisher.permission_required)
    completed = called(Publisher.completed)
    error = called(Publisher.error)
    say = called(Publisher.say)

    async def ask(self, text: str, **how: Any) -> Answer:
        """Ask a person and return the answer, as `Publisher.ask`; others may go on saying things meanwhile.

        A task that is cancelled leaves within a second, and the request stays open.
        """
        stop, thread = threading.Event(), CallThread()
        try:
            return await thread.interruptible(stop.set, self.behind.ask, text, **how, stop=stop)
        finally:
            thread.close()

    @property
    @override
    def behind(self) -> Publisher:
        """See `Behind`."""
        if self._publisher is None:
            raise InvalidInputError("the publisher is not open", hint="use it in `async with`")
        return self._publisher

    async def __aenter__(self) -> Self:
        try:
            self._publisher = await self._thread.call(self._make)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            return bool(await self._thread.call(self.behind.__exit__, kind, error, trace))
        finally:
            self._end()

    @override
    async def _call(
        self, method: Callable[Concatenate[Publisher, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        return await self._thread.call(method, self.behind, *args, **kwargs)

    def _end(self) -> None:
        if self._given is None:
            self._thread.close()


class AsyncClaimedJob(AsyncPublisher):
    """`ClaimedJob` with awaitable methods, for `async with`; a cancelled task gives the job back."""

    def __init__(self, job: ClaimedJob, thread: CallThread) -> None:
        super().__init__(lambda: job, thread=thread)
        self._job = job

    @property
    def job_id(self) -> str:
        """Return the job's id."""
        return self._job.job_id

    @property
    def record(self) -> JobRecord:
        """Return the record as it was claimed."""
        return self._job.record

    @property
    def lost(self) -> bool:
        """Tell whether the job was cancelled or claimed again: stop working."""
        return self._job.lost


class AsyncSubscriber:
    """`Subscriber` as `async with` and `async for`."""

    def __init__(self, make: Callable[..., Subscriber]) -> None:
        self._make = make
        self._stop = threading.Event()
        self._thread = CallThread()
        self._subscriber: Subscriber | None = None
        self._events: Iterator[Event] = iter(())

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict of the one job; None before the end."""
        return None if self._subscriber is None else self._subscriber.verdict

    @property
    def verdicts(self) -> Verdicts:
        """Return the verdicts so far."""
        if self._subscriber is None:
            raise InvalidInputError("the watch has not begun", hint="use it in `async with`")
        return self._subscriber.verdicts

    async def __aenter__(self) -> Self:
        try:
            self._subscriber = await self._thread.call(lambda: self._make(stop=self._stop).__enter__())
        except BaseException:
            self._thread.close()
            raise
        self._events = iter(self._subscriber)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        try:
            if self._subscriber is not None:
                await self._thread.call(self._subscriber.close)
        finally:
            self._thread.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await self._thread.interruptible(self._stop.set, next, self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event


class AsyncHome(Behind[Home]):
    """`Home` for asyncio, made as that is; `home` is the one behind it.

    home = AsyncHome(".hermes")
    job = await home.register("write the release notes")
    async with home.watch(job) as events:
        async for event in events:
            print(event.event, event.detail)
    print(events.verdict.outcome)
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        broker: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.home = Home(path, broker=broker, environ=environ, clock=clock)

    register = called(Home.register)
    job = called(Home.job)
    jobs = called(Home.jobs)
    cancel = called(Home.cancel)
    close = called(Home.close)
    # For `async with`; what watches, waits or is worked off hears of a cancelled task by its `stop`.
    publisher = made(Home.publisher, AsyncPublisher)
    watch = made(Home.watch, AsyncSubscriber)
    lock = made(Home.lock, AsyncHeldLock)
    # For `async for`, each job for `async with`.
    work = each(Home.work, AsyncClaimedJob)

    @property
    @override
    def behind(self) -> Home:
        """See `Behind`."""
        return self.home

    def inbox(self, agent: str) -> AsyncAgentInbox:
        """Return what the agent sends and receives; see `AgentInbox`."""
        return AsyncAgentInbox(self.home.inbox(agent))
