"""Jobs that cannot be folded for the time being: their records are unreadable, or somebody keeps their locks.

The fold goes on without them. Each is a consumer of the journal of its own, `registry-<job id>`, at the
first entry that its record does not have: so its events stay in the journal over restarts, and
`jobwire journal consumers list` shows who needs them. For KEEP_SECONDS; after that the journal is not held
for it any more.
"""

import contextlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from jobwire.core.clock import Clock, epoch
from jobwire.core.errors import JobwireError, NotFoundError
from jobwire.core.topics import JOB_ID_PATTERN
from jobwire.journal.consumers import Consumers

KEEP_SECONDS = 7 * 86400.0
# Each is a file that retention reads. Where more jobs than this cannot be folded, the trouble is not theirs,
# and the fold stands still until it is over.
MOST_JOBS = 256
_PREFIX = "registry-"
_NAME = re.compile(_PREFIX + JOB_ID_PATTERN.strip("^$"))
_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 60.0
_log = logging.getLogger("jobwire.registry")


@dataclass
class SetAsideJob:
    """One job. `offset`: its first entry that is not folded; `since` epoch, `retry_at` monotonic seconds.

    One that is not `unreadable` is only locked, and can be read.
    """

    offset: int
    reason: str
    unreadable: bool
    since: float
    retry_at: float
    delay: float = _FIRST_RETRY_SECONDS


class SetAsideJobs:
    """The jobs set aside in one journal; from one thread, but for `reasons` and `is_unreadable`."""

    def __init__(self, consumers: Consumers, *, clock: Clock) -> None:
        self._consumers = consumers
        self._clock = clock
        self._jobs: dict[str, SetAsideJob] = {}
        for known in consumers.all():
            if _NAME.fullmatch(known.name):
                self._jobs[known.name.removeprefix(_PREFIX)] = SetAsideJob(
                    known.offset,
                    reason="it could not be folded before the last restart",
                    unreadable=True,
                    since=_epoch(known.committed_at, clock),
                    retry_at=clock.monotonic(),
                )

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def reasons(self) -> Mapping[str, str]:
        """Return the jobs, each with why; from any thread."""
        return {job_id: aside.reason for job_id, aside in list(self._jobs.items())}

    def is_unreadable(self, job_id: str) -> bool:
        """Tell whether the job waits because its record cannot be read; from any thread."""
        aside = self._jobs.get(job_id)
        return aside is not None and aside.unreadable

    def put(self, job_id: str, offset: int, reason: str, *, unreadable: bool) -> bool:
        """Set the job aside, durably; False where that cannot be done now."""
        if len(self._jobs) >= MOST_JOBS:
            return False
        try:
            offset = self._consumers.register(_PREFIX + job_id, offset)
        except JobwireError as error:
            _log.error("job %s cannot be set aside: %s", job_id, error)
            return False
        _log.error(
            "job %s is set aside, its events wait in the journal from offset %d on: %s",
            job_id,
            offset,
            reason,
        )
        now = self._clock.monotonic()
        self._jobs[job_id] = SetAsideJob(
            offset, reason=reason, unreadable=unreadable, since=self._clock.now(), retry_at=now
        )
        self.failed(job_id, reason, unreadable=unreadable)
        return True

    def due(self, now: float) -> tuple[str, SetAsideJob] | None:
        """Return the job that is longest overdue to be tried again at `now` (monotonic seconds)."""
        job_id = min(self._jobs, key=lambda job_id: self._jobs[job_id].retry_at, default=None)
        if job_id is None or self._jobs[job_id].retry_at > now:
            return None
        return job_id, self._jobs[job_id]

    def failed(self, job_id: str, reason: str, *, unreadable: bool) -> None:
        """Take note that it cannot be folded yet: it is tried again, ever more seldom."""
        aside = self._jobs[job_id]
        aside.reason, aside.unreadable = reason, unreadable
        aside.retry_at = self._clock.monotonic() + aside.delay
        aside.delay = min(2 * aside.delay, _LONGEST_RETRY_SECONDS)
        if self._clock.now() - aside.since > KEEP_SECONDS:
            _log.error(
                "job %s could not be folded for %.0f days: the journal keeps its events from offset %d on no "
                "longer than others; put its record right, and its worker sends again what is not confirmed",
                job_id,
                KEEP_SECONDS / 86400.0,
                aside.offset,
            )
            try:
                self.take_back(job_id)
            except JobwireError as error:
                _log.error("%s; tried again", error)

    def move(self, job_id: str, offset: int) -> None:
        """Take note that its entries below `offset` are folded. Raises JobwireError."""
        with contextlib.suppress(NotFoundError):  # removed by hand: it is remembered here all the same
            self._consumers.commit(_PREFIX + job_id, offset)
        self._jobs[job_id].offset = offset

    def take_back(self, job_id: str) -> None:
        """Take note that it is to be folded like any other. Raises JobwireError."""
        with contextlib.suppress(NotFoundError):
            self._consumers.remove(_PREFIX + job_id)
        del self._jobs[job_id]


def _epoch(stamp: str, clock: Clock) -> float:
    try:
        return epoch(stamp)
    except ValueError:
        return clock.now()
