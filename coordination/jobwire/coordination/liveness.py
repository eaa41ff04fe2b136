"""Whether an agent lives: what it says of itself, its age in intervals, and who may judge. Pure.

An agent promises a sign of life each interval. How long it has been silent is counted in its own
intervals: fresh below 3, then WARN, from 10 STALE, from 30 DEAD. DEAD has consequences, so it takes a judge
who has looked on all the while: after a clock that jumped, or a standstill of its own (SIGSTOP, a suspended
machine, its start), what it missed may have been signs of life.
"""

from enum import StrEnum
from typing import NamedTuple

DEFAULT_INTERVAL_SECONDS = 10.0
MAX_INTERVAL_SECONDS = 86400.0
_WARN, _STALE, _DEAD = 3, 10, 30
# Looks that lie further apart than this are a standstill; clocks that part by more, a jump.
_STANDSTILL_SECONDS = 15.0
_JUMP_SECONDS = 5.0


class AgentKind(StrEnum):
    """What an agent is to the others."""

    WORKER = "worker"
    LEAD = "lead"
    DIRECTOR = "director"
    PERSON = "person"
    SERVICE = "service"


class AgentStatus(StrEnum):
    """What an agent says that it does."""

    IDLE = "idle"
    WORKING = "working"
    BLOCKED = "blocked"
    STOPPED = "stopped"


class Liveness(StrEnum):
    """How old an agent's last sign of life is."""

    FRESH = "fresh"
    WARN = "WARN"
    STALE = "STALE"
    DEAD = "DEAD"


def liveness(age_seconds: float, interval_seconds: float) -> Liveness:
    """Return what an age means; one from the future (a clock set back) is fresh."""
    intervals = age_seconds / interval_seconds
    if intervals >= _DEAD:
        return Liveness.DEAD
    if intervals >= _STALE:
        return Liveness.STALE
    return Liveness.WARN if intervals >= _WARN else Liveness.FRESH


class Vigil(NamedTuple):
    """Since when somebody has looked on without a break, and the two clocks at the last look (seconds)."""

    since: float
    wall: float
    monotonic: float


def begin(wall: float, monotonic: float) -> Vigil:
    """Return the vigil of one who looks for the first time."""
    return Vigil(monotonic, wall, monotonic)


def look(vigil: Vigil, wall: float, monotonic: float) -> Vigil:
    """Return the vigil after one more look; a jump of the wall clock or a long pause begins it anew."""
    paused = monotonic - vigil.monotonic
    jumped = abs((wall - vigil.wall) - paused)
    broken = paused > _STANDSTILL_SECONDS or jumped > _JUMP_SECONDS
    return Vigil(monotonic if broken else vigil.since, wall, monotonic)


def may_bury(vigil: Vigil, age_seconds: float, interval_seconds: float) -> bool:
    """Tell whether this judge may act on an agent's death: DEAD, and looked on for as long itself."""
    watched = vigil.monotonic - vigil.since
    return liveness(age_seconds, interval_seconds) is Liveness.DEAD and watched >= _DEAD * interval_seconds
