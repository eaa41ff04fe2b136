"""Refused messages on stderr: each named once with its reason, a flood summed up, all counted."""

from collections import Counter
from collections.abc import Callable

from jobwire.core.clock import Clock
from jobwire.subscriber.outcome import Refusal

# Named one by one up to this many in a window; the rest of the window becomes one line.
BURST = 10
WINDOW_SECONDS = 5.0


class RefusalLog:
    """Writes through `write`, one line a call. The windows are on the monotonic clock."""

    def __init__(self, *, write: Callable[[str], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._window_began = float("-inf")
        self._named = 0
        self._unnamed: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def add(self, refusal: Refusal) -> None:
        """Count a refusal, and name it where the window has room."""
        self.counts[refusal.reason] += 1
        self.roll()
        if self._named < BURST:
            self._named += 1
            self._write(f"job {refusal.job_id or '?'}: message refused: {refusal.reason}: {refusal.why}")
        else:
            self._unnamed[refusal.reason] += 1

    def roll(self) -> None:
        """Begin a new window where the old one is over, with one line for what it did not name."""
        now = self._clock.monotonic()
        if now >= self._window_began + WINDOW_SECONDS:
            self.flush()
            self._window_began = now
            self._named = 0

    def flush(self) -> None:
        """Write what is summed up and not yet written; call it at the end."""
        if self._unnamed:
            parts = ", ".join(f"{count} {reason}" for reason, count in self._unnamed.most_common())
            self._write(f"{self._unnamed.total()} more messages refused: {parts}")
            self._unnamed.clear()
