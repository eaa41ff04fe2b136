"""What a person is notified of (a job has started, asks, has its verdict), and how: a bell and a command."""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Self

from jobwire.core.errors import InvalidInputError
from jobwire.core.terminal_text import safe
from jobwire.registry.hook_runner import HOOK_SECONDS, HookRunner
from jobwire.subscriber.outcome import EventLine, Line, Verdict

STARTED = "started"
PERMISSION = "permission_required"
VERDICT = "verdict"
# What people type, and what they read where the verdict comes first.
UNTIL = {"permission": PERMISSION, "started": STARTED, "verdict": VERDICT}
BEFORE = {PERMISSION: "it ended without asking", STARTED: "it ended before it started"}
_RUNNING = "running"
_BELL = "\a"


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


def hook_words(text: str) -> list[str]:
    """Return the words of a command line as a shell splits them; raises InvalidInputError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidInputError(
            f"--exec {text!r} is not a command: {error}", hint="close the quotes"
        ) from error
    if not words or shutil.which(words[0]) is None:
        raise InvalidInputError(
            f"--exec: there is no command {words[0] if words else ''!r}",
            hint="it is run without a shell: name a program, or sh -c '...'",
        )
    return words


class Notifier:
    """Rings and runs the hook for each notification; on leaving, waits for the last ones, within limits.

    The hook gets JOBWIRE_EVENT, JOBWIRE_JOB, JOBWIRE_DETAIL and JOBWIRE_STATUS, and `hook_seconds`. `warn`
    hears what goes wrong with it.
    """

    def __init__(
        self,
        *,
        hook: list[str] | None,
        bell: bool,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
        hook_seconds: float = HOOK_SECONDS,
    ) -> None:
        self._bell = bell
        self._seconds = hook_seconds
        self._runner = None
        if hook is not None:
            # The attempt of the job that we may be running in is not this job's.
            inherited = {name: value for name, value in environ.items() if name != "JOBWIRE_ATTEMPT"}
            self._runner = HookRunner(hook, name="--exec", environ=inherited, seconds=hook_seconds, warn=warn)

    @property
    def wanted(self) -> bool:
        """Tell whether there is anything to do for a notification."""
        return self._bell or self._runner is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close(self._seconds)

    def tell(self, notification: Notification) -> None:
        """Tell of one notification; returns at once."""
        if self._bell and sys.stderr.isatty():
            sys.stderr.write(_BELL)
            sys.stderr.flush()
        if self._runner is not None:
            variables = {
                "JOBWIRE_EVENT": notification.event,
                "JOBWIRE_JOB": notification.job_id,
                "JOBWIRE_DETAIL": safe(notification.detail),
                "JOBWIRE_STATUS": notification.status,
            }
            self._runner.run_soon(f"job {notification.job_id}", variables)
