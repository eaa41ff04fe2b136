"""What a watch says: lines on the way, one verdict a job at the end."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Self

from jobwire.core.exit_codes import ExitCode
from jobwire.jobs.admission import Reason, Rejected
from jobwire.jobs.event import Event
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord


class Outcome(StrEnum):
    """How the watching of one job ended."""

    COMPLETED = "completed"
    ERROR = "error"
    IDLE = "idle_timeout"
    WALL = "wall_timeout"
    PENDING = "pending_timeout"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of a command that watched this one job."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Outcome.COMPLETED: ExitCode.OK,
    Outcome.ERROR: ExitCode.JOB_ERROR,
    Outcome.IDLE: ExitCode.TIMEOUT,
    Outcome.WALL: ExitCode.TIMEOUT,
    Outcome.PENDING: ExitCode.TIMEOUT,
    Outcome.CANCELLED: ExitCode.STOPPED,
    Outcome.SUPERSEDED: ExitCode.STOPPED,
}
BY_STATUS = {
    Status.COMPLETED: Outcome.COMPLETED,
    Status.ERROR: Outcome.ERROR,
    Status.CANCELLED: Outcome.CANCELLED,
}
# Limits of the job's own, which the registry process enforces: the same verdict as of a watcher's limits.
BY_LIMIT = {"idle": Outcome.IDLE, "wall": Outcome.WALL, "pending": Outcome.PENDING}


def outcome_of(record: JobRecord) -> Outcome:
    """Return the verdict's outcome for a finished job, as its record tells it."""
    return BY_LIMIT[record.timed_out] if record.timed_out else BY_STATUS[record.status]


def last_event_of(record: JobRecord) -> Event | None:
    """Return the terminal event as the record keeps it, for when the history lost it."""
    result = record.result or {}
    data = result.get("data")
    return Event(
        record.last_seq,
        record.job_id,
        str(record.status),
        record.finished_at or record.updated_at,
        str(result.get("detail", record.detail)),
        data if isinstance(data, dict) else {},
    )


class EventLine(NamedTuple):
    """One genuine event, given once.

    `late`: it was overtaken or came from before the watch began; it changed nothing. `recovered`: it
    never came over the wire and was taken from the registry's history.
    """

    event: Event
    late: bool = False
    recovered: bool = False


class Note(NamedTuple):
    """Something that a person watching should know; goes to stderr."""

    job_id: str
    text: str


class Refusal(NamedTuple):
    """One message that was refused; goes to stderr, rate-limited, and is counted."""

    job_id: str
    reason: Reason
    why: str

    @classmethod
    def of(cls, job_id: str, rejected: Rejected) -> Self:
        """Return the refusal of a message of this job."""
        return cls(job_id, rejected.reason, rejected.why)


class Verdict(NamedTuple):
    """The one answer about one job. `seconds` is how long it was watched, `data` the terminal event's."""

    job_id: str
    outcome: Outcome
    reason: str
    seconds: float
    events: int = 0
    data: Mapping[str, object] = {}  # never changed in place

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code that belongs to the outcome."""
        return self.outcome.exit_code

    @property
    def words(self) -> str:
        """Return the outcome as people read it."""
        return str(self.outcome).replace("_", " ")

    @property
    def cause(self) -> str:
        """Return the reason without the words that it may begin with: a timeout's names the timer."""
        return self.reason.removeprefix(f"{self.words}: ")

    @property
    def sentence(self) -> str:
        """Return job, outcome and cause, for whoever sees nothing but this."""
        return f"job {self.job_id}: {self.words}{f': {self.cause}' if self.cause else ''}"


Line = EventLine | Note | Refusal | Verdict


class Verdicts(NamedTuple):
    """The end of a watch over one or several jobs.

    `by_job` holds the verdicts in the order they fell; `undecided` the jobs that were still open when
    the watch ended (`any`, fail-fast, interrupted). `exit_code` answers for all of them.
    """

    by_job: dict[str, Verdict]
    undecided: tuple[str, ...]
    exit_code: int
    interrupted: bool = False
