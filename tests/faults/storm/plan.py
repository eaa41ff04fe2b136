"""What a storm does, drawn from its seed before it begins: jobs, their workers, and every strike.

Pure: the same seed and sizes give the same plan. Strikes come by progress (so many acknowledged events)
and a short delay, not by the clock: a slow machine gets the same storm as a fast one.
"""

from enum import StrEnum
from random import Random
from typing import NamedTuple

# started, one progress, an end.
LEAST_EVENTS = 3
# No strike in the first or last twentieth: there is nothing to hit yet, or any more.
_EDGE = 0.05
_EVENTS_PER_STRIKE = 30
_LONGEST_OUTAGE_SECONDS = 2.0
_LONGEST_DELAY_SECONDS = 0.25


class Voice(StrEnum):
    """How a worker speaks. The last two run on another host, with nothing but a ticket."""

    COMMAND = "publish_event"
    CLASS = "Publisher"
    TICKET_COMMAND = "publish_event --ticket"
    TICKET_CLASS = "Publisher(ticket=...)"

    @property
    def remote(self) -> bool:
        """Tell whether it has a ticket instead of a record."""
        return self in {Voice.TICKET_COMMAND, Voice.TICKET_CLASS}


class Fault(StrEnum):
    """What is done to the system; `wipe` kills the broker and removes what it had on its disk."""

    BROKER = "broker killed"
    REGISTRY = "registry process killed"
    SUBSCRIBER = "subscriber killed"
    PUBLISHER = "publisher killed"
    FREEZE = "broker frozen"
    NETWORK = "network cut"
    WIPE = "broker killed and wiped"


class JobPlan(NamedTuple):
    """One job: it says `events` events, the last one being `ending`; a cancelled job says no last one."""

    number: int
    voice: Voice
    events: int
    ending: str


class Strike(NamedTuple):
    """One fault: after so many acknowledged events and a delay, on the process that `choice` picks."""

    after: int
    delay_seconds: float
    fault: Fault
    choice: float
    outage_seconds: float


class Plan(NamedTuple):
    """The whole storm."""

    seed: int
    jobs: tuple[JobPlan, ...]
    strikes: tuple[Strike, ...]

    @property
    def events(self) -> int:
        """Return how many events the workers will say."""
        return sum(job.events for job in self.jobs)


# How often each fault is drawn; `wipe` comes once, whatever the size.
_WEIGHTS = {Fault.BROKER: 4, Fault.REGISTRY: 5, Fault.SUBSCRIBER: 5, Fault.PUBLISHER: 8, Fault.FREEZE: 1}
_NETWORK_WEIGHT = 3
_VOICES = {Voice.COMMAND: 3, Voice.CLASS: 4, Voice.TICKET_COMMAND: 2, Voice.TICKET_CLASS: 2}
_ENDINGS = {"completed": 16, "error": 3, "cancelled": 1}


def make_plan(seed: int, *, jobs: int, events: int, network: bool) -> Plan:
    """Return the storm of `seed`; without `network` nothing is cut (the tickets stay).

    Raises ValueError for fewer than three events a job.
    """
    if events < LEAST_EVENTS * jobs:
        raise ValueError(f"{events} events are too few for {jobs} jobs: {LEAST_EVENTS} a job at least")
    random = Random(seed)  # noqa: S311 - it must be repeatable, not secret
    return Plan(seed, _jobs(random, jobs, events), _strikes(random, events, network=network))


def _jobs(random: Random, jobs: int, events: int) -> tuple[JobPlan, ...]:
    lengths = [LEAST_EVENTS] * jobs
    # Weights of their own make a few long jobs and many short ones.
    weights = [random.expovariate(1.0) for _ in lengths]
    for number in random.choices(range(jobs), weights, k=events - sum(lengths)):
        lengths[number] += 1
    voices = list(Voice) + random.choices(list(_VOICES), list(_VOICES.values()), k=jobs)
    endings = random.choices(list(_ENDINGS), list(_ENDINGS.values()), k=jobs)
    return tuple(
        JobPlan(number, voices[number], length, endings[number]) for number, length in enumerate(lengths)
    )


def _strikes(random: Random, events: int, *, network: bool) -> tuple[Strike, ...]:
    weights = _WEIGHTS | ({Fault.NETWORK: _NETWORK_WEIGHT} if network else {})
    # Each kind at least once, so that a short storm leaves none out.
    faults = [*weights, Fault.WIPE]
    faults += random.choices(list(weights), list(weights.values()), k=max(0, events // _EVENTS_PER_STRIKE))
    random.shuffle(faults)
    places = sorted(int(events * random.uniform(_EDGE, 1 - _EDGE)) for _ in faults)
    return tuple(
        Strike(
            after=place,
            delay_seconds=random.uniform(0, _LONGEST_DELAY_SECONDS),
            fault=fault,
            choice=random.random(),
            outage_seconds=random.uniform(0, _LONGEST_OUTAGE_SECONDS),
        )
        for place, fault in zip(places, faults, strict=True)
    )
