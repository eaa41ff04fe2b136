"""Jobs that are ours: their leases are kept while we work, and no job stays with a worker that left."""

import logging
import threading
from collections.abc import Callable, Generator, Mapping
from types import TracebackType

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError, NoWorkError, StoppedError
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.jobs.record import JobRecord
from jobwire.publisher.publisher import Publisher, left_well
from jobwire.registry.queue import JobQueue
from jobwire.runner.lease_keeper import CHECK_SECONDS, LeaseKeeper

_log = logging.getLogger("jobwire.work")


class ClaimedJob(Publisher):
    """A job that we hold: its `record`, and everything that `Publisher` says. Its lease is renewed by itself.

    How the `with` block is left decides: after `completed` or `error` there is nothing to do. An exception
    becomes an `error` event, as with Publisher. What stops the worker (Ctrl-C, a cancelled task,
    `sys.exit(0)`) gives the job back to the queue, as does a block without a terminal event, which is warned
    about. StoppedError goes no further: the job was cancelled or claimed again, and the worker goes on with
    the next.
    """

    def __init__(
        self,
        queue: JobQueue,
        record: JobRecord,
        grant: LeaseGrant,
        *,
        broker: Mapping[str, object],
        environ: Mapping[str, str],
        clock: Clock,
    ) -> None:
        super().__init__(
            record.job_id,
            home=queue.store.home,
            attempt=record.attempt,
            broker=broker,
            environ=environ,
            clock=clock,
        )
        self.record = record
        self._queue = queue
        self._left = False
        self._done = threading.Event()
        self._lost = threading.Event()
        keeper = LeaseKeeper(
            queue.store, job_id=record.job_id, attempt=record.attempt, grant=grant, clock=clock
        )
        self._thread = threading.Thread(
            target=self._keep, args=(keeper,), name=f"lease-{record.job_id}", daemon=True
        )
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Tell whether the job was cancelled or claimed again: stop working. Noticed within a second."""
        return self._lost.is_set()

    def release(self, reason: str = "") -> None:
        """Give the job back: pending as the next attempt, or error after the last one allowed."""
        self._left = True
        try:
            self._queue.release(self.job_id, attempt=self.record.attempt, reason=reason)
        except JobwireError as error:
            # It ended, or is somebody else's by now; or the disk is away, and the lease will run out.
            _log.warning("job %s is not given back: %s", self.job_id, error)
        self.close()

    @override
    def close(self) -> None:
        """End the renewals, and disconnect; a job that goes on is ours until its lease ends. Idempotent."""
        self._done.set()
        self._thread.join()
        super().close()

    def leave(self, reason: str = "its worker left it") -> None:
        """Give back what is still ours; does nothing to a job that ended or was left before."""
        if not (self.ended or self._left) and self._is_ours():
            _log.warning("job %s is given back: %s", self.job_id, reason)
            self.release(reason)
        self._left = True
        self.close()

    @override
    def __exit__(  # type: ignore[override]  # StoppedError goes no further
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        stopped = isinstance(error, StoppedError)
        how = f"was stopped ({type(error).__name__})" if error else "left without completed() or error()"
        try:
            if self.ended or (_is_failure(error) and not stopped):
                super().__exit__(kind, error, trace)
        finally:
            self.leave(f"its worker {how}")
        return stopped

    def _is_ours(self) -> bool:
        try:
            record = self._queue.store.get(self.job_id)
        except JobwireError:
            return True  # whoever gives it back is told why that fails
        return record.attempt == self.record.attempt and not record.terminal

    def _keep(self, keeper: LeaseKeeper) -> None:
        while not self._done.wait(CHECK_SECONDS):
            if not keeper.holds():
                self._lost.set()
                return


def _is_failure(error: BaseException | None) -> bool:
    """Tell whether the work failed; anything else that leaves a block ends the worker, not the job."""
    return isinstance(error, Exception) or (isinstance(error, SystemExit) and not left_well(error))


def claimed_jobs(
    claim: Callable[[float], ClaimedJob], *, wait_seconds: float | None, stop: threading.Event, clock: Clock
) -> Generator[ClaimedJob, None, None]:
    """Yield what `claim` brings; it waits for the seconds that it is given. See `Home.work`."""
    give_up = None if wait_seconds is None else clock.monotonic() + wait_seconds
    while not stop.is_set():
        left = CHECK_SECONDS if give_up is None else give_up - clock.monotonic()
        try:
            job = claim(max(0.0, min(left, CHECK_SECONDS)))
        except NoWorkError:
            if left <= CHECK_SECONDS and give_up is not None:
                return
            continue
        try:
            yield job
        finally:
            job.leave()
        give_up = None if wait_seconds is None else clock.monotonic() + wait_seconds
