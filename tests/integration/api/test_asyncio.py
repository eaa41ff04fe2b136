"""`AsyncHome`: the loop is never blocked, and nothing goes on after its task was cancelled."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from jobwire import AsyncHome, ConflictError, Home, InvalidInputError, NotFoundError, Outcome, Status
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.store import CoordinationStore
from jobwire.testing import wait_for

# The loop turns at least so often whatever else happens: other tests share the machine.
BEAT_SECONDS = 0.01
LONGEST_GAP_SECONDS = 1.0


class Heartbeat:
    """Turns with the loop, and remembers the longest time between two turns."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self.longest = 0.0
        self.beats = 0
        self._beat()

    def _beat(self) -> None:
        now = self._loop.time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self.beats += 1
        self._loop.call_later(BEAT_SECONDS, self._beat)


def run(home: Home, program: Callable[[AsyncHome], Awaitable[None]]) -> None:
    """Run a program; afterwards no thread is left, and the loop was never blocked."""
    before = set(threading.enumerate())

    async def main() -> None:
        heartbeat = Heartbeat()
        await program(AsyncHome(home.path, environ={}))
        assert heartbeat.longest < LONGEST_GAP_SECONDS

    asyncio.run(main(), debug=False)
    wait_for(lambda: set(threading.enumerate()) <= before, what="the end of all threads")


async def until(fact: Callable[[], bool]) -> None:
    """Turn the loop until something is so; a minute at most."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while not fact():
        assert loop.time() < deadline
        await asyncio.to_thread(lambda: None)


def test_a_job_is_delegated_done_and_watched(home: Home) -> None:
    """Watcher and worker run side by side in one loop."""

    async def program(bus: AsyncHome) -> None:
        job = await bus.register("count", session="builder")

        async def work() -> None:
            async for claimed in bus.work("builder", wait_seconds=0):
                async with claimed:
                    await claimed.started()
                    await claimed.progress("half", percent=50)
                    await claimed.completed(files=3)

        async with bus.watch(job) as events:
            worker = asyncio.create_task(work())
            assert [event.event async for event in events] == ["started", "progress", "completed"]
            await worker
        assert events.verdict is not None
        assert events.verdict.data == {"files": 3}
        assert (await bus.job(job)).status is Status.COMPLETED
        assert [record.job_id for record in await bus.jobs()] == [job.job_id]

    run(home, program)


def test_a_task_is_stopped_by_its_cancellation_alone(home: Home) -> None:
    """What threads are stopped by is refused, and not left out without a word."""

    async def program(bus: AsyncHome) -> None:
        for begun in (bus.watch, bus.lock):
            with pytest.raises(TypeError, match="cancelled"):
                begun("x", stop=threading.Event())

    run(home, program)


def test_a_cancelled_watch_disconnects(home: Home) -> None:
    """A task that waits for events ends when it is cancelled, and its connection with it."""

    async def program(bus: AsyncHome) -> None:
        job = await bus.register()
        begun = asyncio.Event()

        async def watch() -> None:
            async with bus.watch(job) as events:
                begun.set()
                async for _ in events:
                    pass

        task = asyncio.create_task(watch())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(home, program)


def test_a_cancelled_worker_gives_its_job_back(home: Home) -> None:
    """Cancellation in the block ends the worker, not the job."""
    job = home.register()

    async def program(bus: AsyncHome) -> None:
        begun = asyncio.Event()

        async def work() -> None:
            async for claimed in bus.work():
                async with claimed:
                    await claimed.started()
                    begun.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(home, program)
    record = home.job(job)
    assert (record.status, record.attempt) == (Status.PENDING, 2)


def test_a_cancelled_wait_for_work_holds_nothing(home: Home) -> None:
    """A worker that is cancelled while it waits claims nothing any more."""

    async def program(bus: AsyncHome) -> None:
        async def work() -> None:
            async for _ in bus.work():
                pass

        before = set(threading.enumerate())
        task = asyncio.create_task(work())
        # An earlier test's thread, on its way to its end, is none of this worker's.
        await until(lambda: any("jobwire" in thread.name for thread in set(threading.enumerate()) - before))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(home, program)
    job = home.register()
    assert home.job(job).status is Status.PENDING


def test_a_failure_in_the_block_is_the_jobs_end(home: Home) -> None:
    """An exception becomes an error event, and goes on to the caller; so does a publisher's."""
    jobs = [home.register(), home.register()]

    async def program(bus: AsyncHome) -> None:
        async def work() -> None:
            async for claimed in bus.work(wait_seconds=0):
                async with claimed:
                    raise ZeroDivisionError

        async def say() -> None:
            async with bus.publisher(jobs[1]) as worker:
                await worker.started()
                raise ZeroDivisionError

        for task in (work, say):
            with pytest.raises(ZeroDivisionError):
                await task()

    run(home, program)
    assert [home.job(job).detail for job in jobs] == ["ended by ZeroDivisionError"] * 2


def test_a_cancelled_job_stops_its_worker_only(home: Home) -> None:
    """The loop goes on with the next job when one is taken away."""
    jobs = [home.register(), home.register()]
    done = []

    async def program(bus: AsyncHome) -> None:
        async for claimed in bus.work(wait_seconds=0):
            async with claimed:
                await claimed.started()
                if claimed.job_id == jobs[0].job_id:
                    await bus.cancel(claimed)
                    await until(lambda job=claimed: job.lost)  # type: ignore[misc]  # bound now
                await claimed.completed()
                done.append(claimed.job_id)

    run(home, program)
    assert done == [jobs[1].job_id]


def test_misuse_and_absence_are_told(home: Home) -> None:
    """What is not open cannot speak; an unknown job is not found; either leaves no thread."""

    async def program(bus: AsyncHome) -> None:
        with pytest.raises(NotFoundError):
            await bus.job("00000000")
        for opened in (bus.watch("00000000"), bus.publisher("00000000")):
            with pytest.raises(NotFoundError):
                await opened.__aenter__()
        closed = bus.publisher("00000000")
        with pytest.raises(InvalidInputError):
            await closed.started()
        with pytest.raises(InvalidInputError):
            _ = bus.watch("00000000").verdicts

    run(home, program)


def test_a_watch_ends_with_its_timeout(home: Home) -> None:
    """A job that nobody picks has its verdict in time, and the loop turns meanwhile."""

    async def program(bus: AsyncHome) -> None:
        job = await bus.register()
        async with bus.watch(job, timeouts={"pending_seconds": 0.5}) as events:
            assert [event async for event in events] == []
        assert events.verdict is not None
        assert events.verdict.outcome is Outcome.PENDING

    run(home, program)


def test_a_lock_waits_beside_the_loop(home: Home) -> None:
    """The loop turns while a task waits; a wait that is cancelled leaves the queue and holds nothing."""

    def state() -> tuple[list[str], list[str]]:
        now = Locks(CoordinationStore(str(home.path)), job_ended=lambda _: False).state()
        return [lock.agent_id for lock in now.locks], [wait.agent_id for wait in now.waits]

    async def program(bus: AsyncHome) -> None:
        async def locked(agent: str) -> int:
            async with bus.lock("name:deploy", agent=agent, wait=60) as lock:
                assert (lock.paths, lock.lost) == (("name:deploy",), False)
                return lock.token

        lost: list[str] = []
        async with bus.lock("name:deploy", agent="a") as first:
            with pytest.raises(ConflictError):
                await bus.lock("name:deploy", agent="d").__aenter__()
            waiting = [asyncio.create_task(locked(agent)) for agent in "bc"]
            await until(lambda: sorted(state()[1]) == ["b", "c"])
            waiting[1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[1]
            assert state() == (["a"], ["b"])
        assert await waiting[0] > first.token
        async with bus.lock("name:deploy", agent="a", ttl=6.0) as broken:
            broken.when_lost(lambda: lost.append(threading.current_thread().name))
            locks = Locks(CoordinationStore(str(home.path)), job_ended=lambda _: False)
            locks.ask_to_break("b", "name:deploy", run_id="default", reason="it hangs")
            locks.confirm_break("c", "name:deploy", run_id="default")
            await until(lambda: lost == [threading.current_thread().name])
            assert broken.lost
        assert state() == ([], [])
        with pytest.raises(InvalidInputError):
            _ = bus.lock("x", agent="a").token

    run(home, program)
