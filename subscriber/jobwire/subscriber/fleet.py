"""Several jobs under watch: when the whole is over, and what it answers. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from jobwire.core.boundary import INTERRUPTED
from jobwire.core.exit_codes import ExitCode
from jobwire.subscriber.outcome import Verdict, Verdicts
from jobwire.subscriber.watch import JobWatch


class Mode(NamedTuple):
    """When a watch over several jobs ends.

    By default when each has its verdict; `any_one`: with the first verdict, whatever it is; `fail_fast`:
    with the first that is not success; `follow`: never by itself (jobs may still appear).
    """

    any_one: bool = False
    fail_fast: bool = False
    follow: bool = False


class Fleet:
    """The jobs under watch, in the order they joined."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._watches: dict[str, JobWatch] = {}
        self._open: dict[str, JobWatch] = {}
        self._verdicts: dict[str, Verdict] = {}

    def add(self, watch: JobWatch) -> None:
        """Take a job in."""
        self._watches[watch.job_id] = watch
        self._open[watch.job_id] = watch

    def get(self, job_id: str) -> JobWatch | None:
        """Return the watch over `job_id`, decided or not."""
        return self._watches.get(job_id)

    def open(self) -> list[JobWatch]:
        """Return the watches without a verdict."""
        return list(self._open.values())

    def settle(self, verdict: Verdict) -> None:
        """Note a verdict."""
        self._verdicts[verdict.job_id] = verdict
        self._open.pop(verdict.job_id, None)

    @property
    def count(self) -> int:
        """Return how many watches have no verdict yet."""
        return len(self._open)

    def titles(self) -> dict[str, str]:
        """Return the titles by job id."""
        return {watch.job_id: watch.title for watch in self._watches.values()}

    def done(self) -> bool:
        """Tell whether the watch as a whole is over."""
        if self._mode.any_one and self._verdicts:
            return True
        if self._mode.fail_fast and any(v.exit_code is not ExitCode.OK for v in self._verdicts.values()):
            return True
        return not self._open and not self._mode.follow

    @property
    def deadline(self) -> float:
        """Return the monotonic time of the first timer."""
        return min((watch.deadline for watch in self._open.values()), default=float("inf"))

    def verdicts(self, *, interrupted: bool = False) -> Verdicts:
        """Return what can be said now."""
        code = INTERRUPTED if interrupted else exit_code(v.exit_code for v in self._verdicts.values())
        return Verdicts(dict(self._verdicts), tuple(self._open), code, interrupted)


def exit_code(codes: Iterable[int]) -> int:
    """Return one code for several jobs: 0 if all completed, else the smallest other one.

    So an error (1) outweighs a timeout (2), which outweighs a cancellation (3).
    """
    return min((int(code) for code in codes if code), default=0)
