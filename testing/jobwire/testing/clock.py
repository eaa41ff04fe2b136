"""A clock that moves when told to."""

from threading import Condition

_START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class ManualClock:
    """Implements `jobwire.core.clock.Clock` by hand; thread-safe.

    `sleep` returns at once and moves both readings on, so a retry loop runs through its schedule in no
    time; `slept` keeps what was asked for.
    """

    def __init__(self, *, now: float = _START, monotonic: float = 1000.0) -> None:
        self._now = now
        self._monotonic = monotonic
        self._guard = Condition()
        self.slept: list[float] = []

    def now(self) -> float:
        """Return the wall time that was set."""
        return self._now

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Record `seconds` and advance by them."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both readings."""
        if seconds < 0:
            raise ValueError("time does not run backwards; set_wall moves the wall clock alone")
        with self._guard:
            self._now += seconds
            self._monotonic += seconds

    def set_wall(self, now: float) -> None:
        """Set the wall clock, also back, as an administrator or NTP may; monotonic time goes on."""
        self._now = now
