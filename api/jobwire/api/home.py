"""One home directory as Python programs use it: delegate, watch, work."""

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Protocol, Self

from jobwire.api.inbox import AgentInbox
from jobwire.api.work import ClaimedJob, claimed_jobs
from jobwire.coordination.locks.changes import LOCK_SECONDS, LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.locks.held_lock import HeldLock
from jobwire.coordination.locks.queue import LockMode
from jobwire.coordination.locks.targets import targets_of
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.lease import LeaseGrant
from jobwire.core.topics import check_agent
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord, Priority, Timeouts
from jobwire.publisher.publisher import Publisher
from jobwire.registry.queue import JobQueue, Registered
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.home import find_home
from jobwire.storage.home_paths import HomePaths
from jobwire.subscriber.fleet import Mode
from jobwire.subscriber.outcome import Line
from jobwire.subscriber.subscriber import Subscriber
from jobwire.subscriber.watch_loop import TimeoutOverrides

_log = logging.getLogger("jobwire.home")


class Named(Protocol):
    """What has the id of a job: a record, a registration, a claimed job."""

    @property
    def job_id(self) -> str:
        """Return it."""
        ...


class Home:
    """A home directory and its jobs; any number of threads and processes may use it at a time.

        home = Home()
        job = home.register("write the release notes")
        with home.watch(job) as events:
            for event in events:
                print(event.event, event.detail)
        print(events.verdict.outcome, events.verdict.data)

    Without `path` it is found as commands find theirs: `$JOBWIRE_HOME`, else the nearest `.hermes` at or
    above the working directory. `broker` holds settings as command line options do; they go before
    jobwire.toml, the environment and the jobs' records. Raises NotFoundError where there is no home
    (`Home.make` makes one) and InvalidInputError where the one that was found is not safely ours. All methods
    may raise StorageError.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        broker: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._broker = dict(broker or {})
        self._clock = clock or SystemClock()
        self._home = find_home(None if path is None else os.fspath(path), self._environ)
        self._queue = JobQueue(RecordStore(self._home, clock=self._clock), warn=_log.warning)

    @classmethod
    def make(cls, path: Path | str) -> Self:
        """Make the home `path` if it is none yet, mode 0700, and return it."""
        RecordStore(path).make_layout()
        return cls(path)

    @property
    def path(self) -> Path:
        """Return the directory."""
        return Path(self._home)

    @property
    def paths(self) -> HomePaths:
        """Return where everything lies in it."""
        return self._queue.store

    def register(
        self,
        title: str = "",
        *,
        instructions: str = "",
        session: str | None = None,
        priority: Priority | str = Priority.NORMAL,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - immutable
        broker: Mapping[str, str | int] | None = None,
        max_attempts: int | None = None,
        key: str | None = None,
        unique_session: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> Registered:
        """Make a pending job, or return the one that its `key` or its unique `session` already has.

        Raises InvalidInputError naming the field that is not acceptable.
        """
        spec = JobSpec(
            title=title,
            instructions=instructions,
            agent_session=session,
            priority=Priority(priority),
            timeouts=timeouts,
            broker=dict(broker or {}),
            max_attempts=max_attempts,
            idempotency_key=key,
            unique_session=unique_session,
            labels=dict(labels or {}),
        )
        return self._queue.register(spec)

    def job(self, job: str | Named) -> JobRecord:
        """Return the job's record as it is now; raises NotFoundError."""
        return self._queue.store.get(_id(job))

    def jobs(
        self, *, statuses: Iterable[Status | str] = (), session: str | None = None, limit: int = 50
    ) -> list[JobRecord]:
        """Return up to `limit` matching records, newest first."""
        return self._queue.list(
            statuses=[Status(status) for status in statuses], agent_session=session, limit=limit
        )

    def cancel(self, job: str | Named, reason: str = "", *, by: str = "") -> JobRecord:
        """Cancel the job, durably; again is no error. Raises ConflictError where it ended otherwise.

        `by` is who does it; without it the user of this process.
        """
        return self._queue.cancel(_id(job), reason=reason, by=by)[0]

    def claim(
        self,
        job: str | Named | None = None,
        *,
        session: str | None = None,
        any_session: bool = False,
        owner: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        wait_seconds: float = 0.0,
    ) -> ClaimedJob:
        """Claim this job, or the oldest of the highest priority that matches, for nobody but us.

        A `session` matches jobs addressed to it or to nobody; None those addressed to nobody, or all with
        `any_session`. The lease is renewed until the job is closed. Blocks up to `wait_seconds`, then raises
        NoWorkError; ConflictError at once where `job` is named and not pending.
        """
        grant = LeaseGrant(owner or f"{os.uname().nodename}:{os.getpid()}", lease_seconds)
        if job is not None:
            record = self._queue.claim(_id(job), grant)
        else:
            record = self._queue.pick(
                grant, agent_session=session, any_session=any_session, wait_seconds=wait_seconds
            )
        try:
            return ClaimedJob(
                self._queue,
                record,
                grant,
                broker=self._broker,
                environ=self._environ,
                clock=self._clock,
            )
        except BaseException:
            self._queue.release(record.job_id, attempt=record.attempt, reason="its worker did not begin")
            raise

    def work(
        self,
        session: str | None = None,
        *,
        any_session: bool = False,
        owner: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        wait_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Generator[ClaimedJob, None, None]:
        """Yield claimed jobs, one after the other, until none came for `wait_seconds` or `stop` is set.

            for job in home.work("builder"):
                with job:
                    job.started()
                    job.completed(lines=build(job.record.instructions))

        None waits for ever; `stop` is seen within a second. See `ClaimedJob` for how a job is left; one
        that is still ours when the loop asks for the next, or is left, is given back.
        """
        return claimed_jobs(
            lambda seconds: self.claim(
                session=session,
                any_session=any_session,
                owner=owner,
                lease_seconds=lease_seconds,
                wait_seconds=seconds,
            ),
            wait_seconds=wait_seconds,
            stop=stop or threading.Event(),
            clock=self._clock,
        )

    def publisher(self, job: str | Named | None = None, *, strict: bool = False) -> Publisher:
        """Return what speaks for a job: the one that the environment names, without `job`.

        A record pins the attempt that it tells of: a later one stops this worker.
        """
        return Publisher(
            None if job is None else _id(job),
            home=self._home,
            attempt=job.attempt if isinstance(job, JobRecord) else None,
            broker=self._broker,
            strict=strict,
            environ=self._environ,
            clock=self._clock,
        )

    def watch(
        self,
        *jobs: str | Named,
        timeouts: TimeoutOverrides | None = None,
        mode: Mode = Mode(),  # noqa: B008 - immutable
        strict_idle: bool = False,
        stop: threading.Event | None = None,
        on_line: Callable[[Line], None] = lambda _: None,
    ) -> Subscriber:
        """Return the events of jobs, to iterate over; see `Subscriber`.

        `timeouts` goes before the records' limits: Timeouts replaces all of them, a mapping of field names
        some; seconds, None is no limit.
        """
        return Subscriber(
            [_id(job) for job in jobs],
            home=self._home,
            broker=self._broker,
            environ=self._environ,
            timeouts=timeouts,
            mode=mode,
            strict_idle=strict_idle,
            stop=stop,
            on_line=on_line,
        )

    def inbox(self, agent: str) -> AgentInbox:
        """Return what the agent sends and receives; see `AgentInbox`."""
        return AgentInbox(CoordinationStore(self._home, clock=self._clock), agent)

    def tasks(self, agent: str) -> Tasks:
        """Return the plans of this home as the agent sees and changes them; see `Tasks`."""
        return Tasks(CoordinationStore(self._home, clock=self._clock), check_agent(agent))

    def lock(
        self,
        *paths: str | os.PathLike[str],
        agent: str = "",
        wait: float = 0.0,
        shared: bool = False,
        ttl: float = LOCK_SECONDS,
        run: str = "default",
        stop: threading.Event | None = None,
    ) -> HeldLock:
        """Keep other agents from files and folders, or from `name:X`: all of them or none.

            with home.lock("src/app.py", wait=60) as lock:
                change(lock.token)

        `agent` is who asks, else `$JOBWIRE_AGENT`. Renewed by itself until the end of the block; ends with
        the job in `$JOBWIRE_JOB`, too. Waits no longer once `stop` is set, which is seen within two seconds.
        Raises ConflictError (locked, deadlock) and NoWorkError (timeout).
        """
        store = CoordinationStore(self._home, clock=self._clock)
        asked = LockRequest(
            check_agent(agent or self._environ.get("JOBWIRE_AGENT", "")),
            tuple(targets_of(store, [os.fspath(path) for path in paths], run_id=run)),
            run_id=run,
            mode=LockMode.SHARED if shared else LockMode.EXCLUSIVE,
            seconds=ttl,
            incarnation=self._environ.get("JOBWIRE_INCARNATION", ""),
            job_id=self._environ.get("JOBWIRE_JOB", ""),
        )
        return HeldLock(Locks(store), asked, wait_seconds=wait, stop=stop)

    def close(self) -> None:
        """Close the queue's index; the next call opens it again."""
        self._queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _id(job: str | Named) -> str:
    return job if isinstance(job, str) else job.job_id
