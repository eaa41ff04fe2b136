"""What the registry process does by the clock, each duty in a thread of its own.

So none waits for another: a purge of many jobs, a broker that is slow to answer or a lock that nobody
frees delays neither the reaper nor the word of a cancellation.
"""

import logging
import threading
from collections.abc import Callable, Container
from pathlib import Path

from jobwire.core.bounds import DEFAULT_LEASE_SECONDS
from jobwire.core.clock import Clock, utc_timestamp
from jobwire.core.errors import JobwireError, StorageError, TransportError
from jobwire.registry.duties import Duty
from jobwire.registry.layout import ANNOUNCE
from jobwire.registry.queue import JobQueue
from jobwire.registry.states import StateQueue, Urgency
from jobwire.storage.failures import storage_failure

# The same trouble of a duty is logged so often.
_TELL_SECONDS = 60.0
_LATELY_SECONDS = 600.0
# Rare duties wait so long at first: a process that is started again and again would do nothing else.
_SETTLED_SECONDS = 60.0
_TAKEN = ".taken"
# More than this between the two clocks within one second is no drift but a jump.
_JUMP_SECONDS = 5.0
# The reaper looks every second, unless it waits for the queue.
_STANDSTILL_SECONDS = 5.0
_log = logging.getLogger("jobwire.registry")


class Announcements:
    """The marks that every changer of a record leaves for us, turned into states to be sent.

    A mark is renamed when it is taken and removed when the state is queued: the queue holds the job
    until it is sent, and a start after a crash announces every unfinished job anyway.
    """

    def __init__(
        self, *, queue: JobQueue, states: StateQueue, on_change: Callable[[str], None] = lambda _: None
    ) -> None:
        self._folder = Path(queue.store.queue_path(ANNOUNCE))
        self._queue = queue
        self._states = states
        self._on_change = on_change
        # Set, from any thread, where every unfinished job is to be announced.
        self.wanted = threading.Event()

    def open(self) -> None:
        """Create the folder: from now on changes are announced. Raises StorageError."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot create {self._folder}: {error.strerror}") from error

    def run(self) -> int:
        """Queue the states of all jobs that were marked; return their number. Raises StorageError."""
        try:
            return self._take_marks()
        except OSError as error:
            raise storage_failure("take the marks in", self._folder, error) from error

    def _take_marks(self) -> int:
        count = 0
        for mark in self._folder.iterdir():
            taken = mark.with_suffix(_TAKEN)
            try:
                mark.rename(taken)
            except FileNotFoundError:
                continue
            self._states.offer(mark.stem, None, Urgency.STATUS)
            self._on_change(mark.stem)
            taken.unlink(missing_ok=True)
            count += 1
        return count

    def repeat(self) -> None:
        """Queue every state where that is wanted. Waits for the queue's lock; raises StorageError."""
        if not self.wanted.is_set():
            return
        self.wanted.clear()
        try:
            self._announce_all()
        except BaseException:
            self.wanted.set()
            raise

    def _announce_all(self) -> None:
        """Queue what somebody may still wait for: unfinished jobs, and those that finished lately."""
        since = utc_timestamp(self._queue.store.clock.now() - _LATELY_SECONDS)
        self._states.forget_sent()
        with self._queue.index() as index:
            job_ids = index.unfinished() + index.finished_since(since)
        for job_id in job_ids:
            self._states.offer(job_id, None, Urgency.REPEAT)


class Reaper:
    """Reaps, but only on what is known to be complete.

    A lease says that no sign of life came. So it has run out only when all that was received by its end is
    in the records (`complete_until`, epoch seconds; None while nothing can be journaled), and nothing
    is reaped while the broker is away, nor after what may have kept signs of life from us: for one
    lease's length after the wall clock jumped ahead (a set clock, a suspended machine), for
    `grace_seconds` after the connection or the disk came back or this process stood still (SIGSTOP). Jobs
    that are `put_off` have signs of life that are not in their records, and are left alone. Used from two
    threads: `run` from one, the other tells of the broker.
    """

    def __init__(
        self,
        *,
        queue: JobQueue,
        complete_until: Callable[[], float | None],
        put_off: Callable[[], Container[str]] = frozenset,
        grace_seconds: float,
    ) -> None:
        self._queue = queue
        self._complete_until = complete_until
        self._put_off = put_off
        self._clock = clock = queue.store.clock
        self._grace_seconds = grace_seconds
        self._offset = clock.now() - clock.monotonic()
        self._ran_at = clock.monotonic()
        self._not_before = 0.0
        self._heard = False
        self._stood_still = False
        self.reaped = 0

    def broker_lost(self) -> None:
        """Reap nothing until the broker is back: what workers elsewhere say cannot arrive."""
        self._heard = False

    def broker_found(self) -> None:
        """Reap again, after what stands in line at the broker."""
        self._hold(self._grace_seconds)
        self._heard = True

    def run(self) -> int:
        """Reap what is due now; return the number of jobs moved on."""
        offset = self._clock.now() - self._clock.monotonic()
        jump, self._offset = offset - self._offset, offset
        if jump > _JUMP_SECONDS:
            _log.warning(
                "the clock jumped ahead by %.0f s: leases are left alone for %.0f s",
                jump,
                DEFAULT_LEASE_SECONDS,
            )
            self._hold(DEFAULT_LEASE_SECONDS)
        self._note_standstill()
        until = self._complete_until()
        if until is None:
            self._hold(self._grace_seconds)
            return 0
        if not self._heard or self._clock.monotonic() < self._not_before:
            return 0
        self._stood_still = False
        reaped = self._queue.reap(until=until, skip=self._put_off())
        for item in reaped:
            _log.info("job %s: %s -> %s: %s", item.record.job_id, item.before, item.record.status, item.cause)
        self.reaped += len(reaped)
        return len(reaped)

    def _hold(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._clock.monotonic() + seconds)

    def _note_standstill(self) -> None:
        """Hold where the last look was long ago: what came meanwhile is not journaled yet.

        Once until the next reaping: where the other duties take long every time, it goes on all the same.
        """
        now = self._clock.monotonic()
        if now - self._ran_at > _STANDSTILL_SECONDS and not self._stood_still:
            self._hold(self._grace_seconds)
            self._stood_still = True
        self._ran_at = now


class Periodic:
    """Does one duty again and again, each time `seconds` after the last.

    First after `first_seconds`; where they are not given, after a minute at most. `work` gets a question that
    it may ask at each step: whether to stop. Trouble with broker or disk is logged, and the duty tried again;
    any other error ends `run`.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Callable[[], bool]], object],
        *,
        doing: str,
        seconds: float,
        first_seconds: float | None = None,
        clock: Clock,
    ) -> None:
        self.name = name
        self._work = work
        self._doing = doing
        self._seconds = seconds
        self._first_seconds = min(seconds, _SETTLED_SECONDS) if first_seconds is None else first_seconds
        self._clock = clock
        self._told = ("", 0.0)

    def run(self, duty: Duty, stop: threading.Event) -> None:
        """Work until `stop` is set, and tell `duty`; from one thread."""
        wait = self._first_seconds
        while not stop.wait(wait):
            self.step(duty, stop.is_set)
            wait = self._seconds

    def step(self, duty: Duty, stop: Callable[[], bool]) -> None:
        """Do it once."""
        duty.work(self._doing)
        try:
            self._work(duty.asking(stop, self._doing))
        except TransportError as error:
            self._tell(logging.INFO, error.message)
        except (JobwireError, OSError) as error:
            duty.failed(str(error))
            self._tell(logging.ERROR, str(error))
        else:
            duty.done()
        duty.rest()

    def _tell(self, level: int, text: str) -> None:
        before, at = self._told
        now = self._clock.monotonic()
        if text != before or now - at >= _TELL_SECONDS:
            self._told = (text, now)
            _log.log(level, "%s; the %s tries again in %.3g s", text, self.name, self._seconds)
