"""Clocks: wall time for records and people, monotonic time for every deadline."""

import time
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Two readings that are never mixed."""

    def now(self) -> float:
        """Return seconds since the epoch; may jump, never used for a timeout."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only rise; the one base of timeouts."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for `seconds`."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def now(self) -> float:
        """Return `time.time()`."""
        return time.time()

    def monotonic(self) -> float:
        """Return `time.monotonic()` (CLOCK_MONOTONIC: a set clock does not move it)."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


def utc_timestamp(seconds: float) -> str:
    """Return epoch `seconds` as ISO 8601 UTC with milliseconds and a final Z."""
    whole = int(seconds)
    return f"{_whole_seconds(whole)}.{int((seconds - whole) * 1000):03d}Z"


# Of what is said within one second, and of the ends of its leases.
@lru_cache(maxsize=16)
def _whole_seconds(seconds: int) -> str:
    # time.strftime instead of datetime: one import less on the path of publish_event.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def epoch(stamp: str) -> float:
    """Return an ISO 8601 UTC time as seconds since the epoch; raises ValueError for 30 February."""
    import datetime as dt  # noqa: PLC0415 - the path of publish_event only writes times

    return dt.datetime.fromisoformat(stamp).timestamp()
