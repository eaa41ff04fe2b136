"""The moments at which a person wants to be told: a job has started, asks, has its verdict. Pure."""

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


class Moment(NamedTuple):
    """Something to be told about a job: which moment, what was said, and the job's state or its verdict."""

    job_id: str
    event: str
    detail: str
    status: str


class Standing(NamedTuple):
    """How an unfinished job stands, by whatever source is the newest."""

    job_id: str
    started: bool
    attention: bool
    detail: str


class Moments:
    """Finds each moment once, whether its event came over the wire or only the record tells of it."""

    def __init__(self) -> None:
        self._started: set[str] = set()
        self._asking: set[str] = set()

    def of(self, lines: Iterable[Line], standings: Iterable[Standing]) -> list[Moment]:
        """Return the moments in what was just said, and in how the jobs stand after it."""
        found = [moment for line in lines if (moment := self._of_line(line)) is not None]
        for standing in standings:
            found += self._of_standing(standing)
        return found

    def _of_line(self, line: Line) -> Moment | None:
        if isinstance(line, Verdict):
            return Moment(line.job_id, VERDICT, line.cause, str(line.outcome))
        if not isinstance(line, EventLine) or line.late:
            return None
        event = line.event
        seen = {STARTED: self._started, PERMISSION: self._asking}.get(event.event)
        if seen is None:
            return None
        seen.add(event.job_id)
        return Moment(event.job_id, event.event, event.detail, _RUNNING)

    def _of_standing(self, standing: Standing) -> Iterable[Moment]:
        job_id = standing.job_id
        if standing.started and job_id not in self._started:
            self._started.add(job_id)
            yield Moment(job_id, STARTED, standing.detail, _RUNNING)
        if not standing.attention:
            self._asking.discard(job_id)
        elif job_id not in self._asking:
            self._asking.add(job_id)
            yield Moment(job_id, PERMISSION, standing.detail, _RUNNING)
