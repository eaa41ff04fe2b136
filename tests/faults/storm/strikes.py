"""Carries the plan's faults out, while everything else goes on."""

import shutil
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.faults.storm.acknowledged import Acknowledged
from tests.faults.storm.fleet import Fleet, Kind
from tests.faults.storm.hosts import Hosts
from tests.faults.storm.plan import Fault, Strike
from tests.faults.storm.services import Broker, Registry

# How long a strike waits for a process of its kind to appear before it is given up.
_TARGET_SECONDS = 5.0
_LOOK_SECONDS = 0.01


class Struck(NamedTuple):
    """A strike that was carried out, in epoch seconds; `until` is when the thing was started or healed."""

    fault: Fault
    at: float
    until: float
    job_id: str = ""


class Striker:
    """Runs the strikes in a thread of its own. Outages may overlap, those of one thing do not."""

    def __init__(
        self,
        strikes: tuple[Strike, ...],
        *,
        acknowledged: Acknowledged,
        fleet: Fleet,
        broker: Broker,
        registry: Registry,
        hosts: Hosts | None,
    ) -> None:
        self._strikes = strikes
        self._acknowledged = acknowledged
        self._fleet = fleet
        self._broker = broker
        self._registry = registry
        self._hosts = hosts
        self._pause = threading.Event()
        self._guard = threading.Lock()
        self._repairs: dict[str, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name="strikes")
        self.struck: list[Struck] = []
        self.missed: list[Fault] = []
        self.failures: list[str] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Wait for the last strike, and until everything it broke is whole again."""
        self._thread.join()
        for repair in self._repairs.values():
            repair.join()

    def _run(self) -> None:
        for strike in self._strikes:
            if not self._acknowledged.wait_for(strike.after):
                self.missed.append(strike.fault)
                continue
            self._pause.wait(strike.delay_seconds)
            self._do(strike)

    def _do(self, strike: Strike) -> None:
        match strike.fault:
            case Fault.SUBSCRIBER:
                self._kill(Kind.SUBSCRIBER, strike)
            case Fault.PUBLISHER:
                self._kill(Kind.PUBLISHER, strike)
            case Fault.REGISTRY:
                self._outage("registry", strike, self._registry.kill, self._registry.start)
            case Fault.BROKER:
                self._outage("broker", strike, self._broker.kill, self._broker.start)
            case Fault.WIPE:
                self._outage("broker", strike, self._wipe, self._broker.start)
            case Fault.FREEZE:
                self._outage("broker", strike, self._broker.suspend, self._broker.resume)
            case Fault.NETWORK if self._hosts is not None:
                self._outage("network", strike, self._hosts.cut, self._hosts.heal)

    def _kill(self, kind: Kind, strike: Strike) -> None:
        deadline = time.monotonic() + _TARGET_SECONDS
        while time.monotonic() < deadline:
            child = self._fleet.kill_one(kind, strike.choice)
            if child is not None:
                now = time.time()
                self._note(Struck(strike.fault, now, now, child.job_id))
                return
            self._pause.wait(_LOOK_SECONDS)
        self.missed.append(strike.fault)

    def _outage(
        self, thing: str, strike: Strike, damage: Callable[[], None], repair: Callable[[], None]
    ) -> None:
        earlier = self._repairs.get(thing)
        if earlier is not None:
            earlier.join()
        at = time.time()
        damage()

        def later() -> None:
            self._pause.wait(strike.outage_seconds)
            until = time.time()
            try:
                repair()
            except Exception as error:  # noqa: BLE001 - whatever it is, the report must say it
                self.failures.append(f"after {strike.fault}: {error}")
            self._note(Struck(strike.fault, at, until))

        self._repairs[thing] = threading.Thread(target=later, name=f"repair {thing}")
        self._repairs[thing].start()

    def _wipe(self) -> None:
        self._broker.kill()
        shutil.rmtree(self._broker.data)
        self._broker.data.mkdir(mode=0o700)

    def _note(self, struck: Struck) -> None:
        with self._guard:
            self.struck.append(struck)
