"""What a person wants to be notified of: a job has started, asks for permission, has its verdict. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from jobwire.subscriber.outcome import EventLine, Line, Verdict

STARTED = "started"
PERMISSION = "permission_required"
VERDICT = "verdict"
# What people type, and what they read where the verdict comes first.
UNTIL = {"permission": PERMISSION, "started": STARTED, "verdict": VERDICT}
BEFORE = {PERMISSION: "it ended without asking", STARTED: "it ended before it started"}
_RUNNING = "running"


class Notification(NamedTuple):
    """What is to be told about a job: the event, what was said, and the job's state or its verdict."""

    job_id: str
    event: str
    detail: str
    status: str


class JobCondition(NamedTuple):
    """How an unfinished job stands, by whatever source is the newest."""

    job_id: str
    started: bool
    attention: bool
    detail: str


class Notifications:
    """Finds each notification once, whether its event came over the wire or only the record tells of it."""

    def __init__(self) -> None:
        self._started: set[str] = set()
        self._asking: set[str] = set()

    def of(self, lines: Iterable[Line], conditions: Iterable[JobCondition]) -> list[Notification]:
        """Return the notifications in what was just said, and in how the jobs stand after it."""
        found = [notification for line in lines if (notification := self._of_line(line)) is not None]
        for condition in conditions:
            found += self._of_condition(condition)
        return found

    def _of_line(self, line: Line) -> Notification | None:
        if isinstance(line, Verdict):
            return Notification(line.job_id, VERDICT, line.cause, str(line.outcome))
        if not isinstance(line, EventLine) or line.late:
            return None
        event = line.event
        seen = {STARTED: self._started, PERMISSION: self._asking}.get(event.event)
        if seen is None:
            return None
        seen.add(event.job_id)
        return Notification(event.job_id, event.event, event.detail, _RUNNING)

    def _of_condition(self, condition: JobCondition) -> Iterable[Notification]:
        job_id = condition.job_id
        if condition.started and job_id not in self._started:
            self._started.add(job_id)
            yield Notification(job_id, STARTED, condition.detail, _RUNNING)
        if not condition.attention:
            self._asking.discard(job_id)
        elif job_id not in self._asking:
            self._asking.add(job_id)
            yield Notification(job_id, PERMISSION, condition.detail, _RUNNING)
