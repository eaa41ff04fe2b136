"""What each thread of the registry process is doing and since when, so that health can name one that hangs.

A thread says at each step that it works, and when it rests. One that computes for ever, waits for a
disk that does not answer or for a lock that nobody frees says nothing more, whatever the reason.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

from jobwire.core.clock import Clock

# The longest step: the queue's lock is waited for so long, and a broker's answer half as long.
STEP_SECONDS = 45.0
# A duty that fails is tried again; so often and so long, and it is more than a moment's trouble.
_FAILURES = 3
_FAILING_SECONDS = 20.0


class DutyReport(NamedTuple):
    """One thread's standing. `doing` is empty while it rests; `seconds` since it last said something.

    `error` is what it failed with again and again, lately; empty where it does not.
    """

    doing: str
    seconds: float
    limit_seconds: float
    error: str = ""

    @property
    def stuck(self) -> bool:
        """Tell whether its step takes longer than any should."""
        return bool(self.doing) and self.seconds > self.limit_seconds


class Duty:
    """One thread's word about itself; `report` may be called from any thread."""

    def __init__(self, name: str, *, clock: Clock, limit_seconds: float) -> None:
        self.name = name
        self._clock = clock
        self._limit_seconds = limit_seconds
        # One object, replaced as a whole: readers need no lock.
        self._said = ("", clock.monotonic())
        self._failures = 0
        self._failing_since = 0.0
        self._error = ""

    def work(self, doing: str) -> None:
        """Say that the next step begins."""
        self._said = (doing, self._clock.monotonic())

    def rest(self) -> None:
        """Say that there is nothing to do."""
        self.work("")

    def asking(self, stop: Callable[[], bool], doing: str) -> Callable[[], bool]:
        """Return `stop` as a question that says, each time it is asked, that the next step begins."""

        def ask() -> bool:
            self.work(doing)
            return stop()

        return ask

    def failed(self, error: str) -> bool:
        """Take note that it could not be done this time; tell whether it is the first time in a row."""
        if not self._failures:
            self._failing_since = self._clock.monotonic()
        self._failures += 1
        self._error = error
        return self._failures == 1

    def done(self) -> None:
        """Take note that it could be done."""
        self._failures = 0

    def report(self) -> DutyReport:
        """Return the present standing."""
        doing, at = self._said
        now = self._clock.monotonic()
        failing = self._failures >= _FAILURES and now - self._failing_since >= _FAILING_SECONDS
        return DutyReport(doing, now - at, self._limit_seconds, self._error if failing else "")


class Duties:
    """All threads of one process, by name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._duties: dict[str, Duty] = {}
        self._guard = threading.Lock()

    def begin(self, name: str) -> Duty:
        """Return the duty of a new thread."""
        duty = Duty(name, clock=self._clock, limit_seconds=STEP_SECONDS)
        with self._guard:
            self._duties[name] = duty
        return duty

    def reports(self) -> dict[str, DutyReport]:
        """Return each thread's standing."""
        with self._guard:
            duties = list(self._duties.values())
        return {duty.name: duty.report() for duty in duties}
