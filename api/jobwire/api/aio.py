"""The same for asyncio: nothing here blocks the loop, and nothing goes on after its task was cancelled.

What blocks runs in a thread of its own. A task that is cancelled leaves when that thread is done: a watch
within half a second, a claim within a second, an event that is being sent after its tries at most.
"""

import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jobwire.api.aio_inbox import AsyncAgentInbox
from jobwire.api.aio_lock import AsyncHeldLock
from jobwire.api.call_thread import CallThread
from jobwire.api.home import Home, Named
from jobwire.api.work import ClaimedJob
from jobwire.coordination.locks.changes import LOCK_SECONDS
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.clock import Clock
from jobwire.core.errors import InvalidInputError
from jobwire.delivery.publishing import Published
from jobwire.jobs.event import Event
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer
from jobwire.publisher.publisher import Publisher
from jobwire.subscriber.fleet import Mode
from jobwire.subscriber.outcome import Verdict, Verdicts
from jobwire.subscriber.subscriber import Subscriber
from jobwire.subscriber.watch_loop import TimeoutOverrides

_P = ParamSpec("_P")
_T = TypeVar("_T")


_Call = Callable[Concatenate["AsyncHome", _P], Coroutine[Any, Any, _T]]


def _called(method: Callable[Concatenate[Home, _P], _T]) -> _Call[_P, _T]:
    """Return the method of AsyncHome that calls Home's in a thread."""

    @wraps(method)
    async def call(self: "AsyncHome", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        thread = CallThread()
        try:
            return await thread.call(method, self.home, *args, **kwargs)
        finally:
            thread.close()

    return call


class AsyncPublisher:
    """`Publisher` with awaitable methods, for `async with`."""

    def __init__(self, make: Callable[[], Publisher], *, thread: CallThread | None = None) -> None:
        self._make = make
        self._given = thread
        self._thread = thread or CallThread()
        self._publisher: Publisher | None = None

    async def started(self, detail: str = "", **data: object) -> Published:
        """Say that work on this attempt begins; the first event of an attempt."""
        return await self.say("started", detail, data)

    async def progress(self, detail: str = "", **data: object) -> Published:
        """Say how far the work is."""
        return await self.say("progress", detail, data)

    async def permission_required(self, detail: str = "", **data: object) -> Published:
        """Say that somebody must decide before the work goes on; the next event takes it back."""
        return await self.say("permission_required", detail, data)

    async def completed(self, detail: str = "", **data: object) -> Published:
        """Say that the work is done. Terminal."""
        return await self.say("completed", detail, data)

    async def error(self, detail: str = "", **data: object) -> Published:
        """Say that the work failed. Terminal."""
        return await self.say("error", detail, data)

    async def say(self, event: str, detail: str = "", data: Mapping[str, object] | None = None) -> Published:
        """Publish any event, as `Publisher.say`."""
        return await self._thread.call(self._opened.say, event, detail, data)

    async def ask(self, text: str, **how: Any) -> Answer:
        """Ask a person and return the answer, as `Publisher.ask`; others may go on saying things meanwhile.

        A task that is cancelled leaves within a second, and the request stays open.
        """
        stop, thread = threading.Event(), CallThread()
        try:
            return await thread.interruptible(stop.set, self._opened.ask, text, **how, stop=stop)
        finally:
            thread.close()

    @property
    def _opened(self) -> Publisher:
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
            return bool(await self._thread.call(self._opened.__exit__, kind, error, trace))
        finally:
            self._end()

    def _end(self) -> None:
        if self._given is None:
            self._thread.close()


class AsyncClaimedJob(AsyncPublisher):
    """`ClaimedJob` with awaitable methods, for `async with`; a cancelled task gives the job back."""

    def __init__(self, job: ClaimedJob, *, thread: CallThread) -> None:
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

    def __init__(self, make: Callable[[threading.Event], Subscriber]) -> None:
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
            self._subscriber = await self._thread.call(lambda: self._make(self._stop).__enter__())
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


class AsyncHome:
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

    register = _called(Home.register)
    job = _called(Home.job)
    jobs = _called(Home.jobs)
    cancel = _called(Home.cancel)
    close = _called(Home.close)

    def inbox(self, agent: str) -> AsyncAgentInbox:
        """Return what the agent sends and receives; see `AgentInbox`."""
        return AsyncAgentInbox(self.home.inbox(agent))

    def lock(
        self,
        *paths: str | os.PathLike[str],
        agent: str = "",
        wait: float = 0.0,
        shared: bool = False,
        ttl: float = LOCK_SECONDS,
        run: str = "default",
    ) -> AsyncHeldLock:
        """Keep other agents from files during an `async with`; see `Home.lock`."""
        return AsyncHeldLock(
            lambda stop: self.home.lock(
                *paths, agent=agent, wait=wait, shared=shared, ttl=ttl, run=run, stop=stop
            )
        )

    def publisher(self, job: str | Named | None = None, *, strict: bool = False) -> AsyncPublisher:
        """Return what speaks for a job, for `async with`; see `Home.publisher`."""
        return AsyncPublisher(lambda: self.home.publisher(job, strict=strict))

    def watch(
        self,
        *jobs: str | Named,
        timeouts: TimeoutOverrides | None = None,
        mode: Mode = Mode(),  # noqa: B008 - immutable
        strict_idle: bool = False,
    ) -> AsyncSubscriber:
        """Return the events of jobs, for `async with` and `async for`; see `Home.watch`."""
        return AsyncSubscriber(
            lambda stop: self.home.watch(
                *jobs, timeouts=timeouts, mode=mode, strict_idle=strict_idle, stop=stop
            )
        )

    async def work(
        self,
        session: str | None = None,
        *,
        any_session: bool = False,
        owner: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        wait_seconds: float | None = None,
    ) -> AsyncGenerator[AsyncClaimedJob, None]:
        """Yield claimed jobs for `async for`, each for `async with`; see `Home.work`."""
        stop, thread = threading.Event(), CallThread()
        jobs = self.home.work(
            session,
            any_session=any_session,
            owner=owner,
            lease_seconds=lease_seconds,
            wait_seconds=wait_seconds,
            stop=stop,
        )
        try:
            while (job := await thread.interruptible(stop.set, next, jobs, None)) is not None:
                yield AsyncClaimedJob(job, thread=thread)
        finally:
            stop.set()
            try:
                await thread.call(jobs.close)
            finally:
                thread.close()
