"""One storm: everything is started, the plan runs, everything settles, and the result is examined."""

import os
import queue
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from jobwire.registry.store import RecordStore
from jobwire.testing import wait_for
from tests.faults.storm.acknowledged import Acknowledged
from tests.faults.storm.drivers import Driver, Job, StormError
from tests.faults.storm.findings import Breaches, examine, recoveries
from tests.faults.storm.fleet import Fleet, FleetClosedError
from tests.faults.storm.hosts import Hosts
from tests.faults.storm.ledger import Ledger
from tests.faults.storm.plan import Fault, Plan
from tests.faults.storm.registration import register
from tests.faults.storm.services import Broker, Registry
from tests.faults.storm.strikes import Striker
from tests.faults.storm.talkers import Talkers
from tests.faults.storm.watchers import Watched, Watcher

# Longer than the longest pause before what the registry did not confirm is sent again.
SETTLE_SECONDS = 180.0
# Pieces of work that agents elsewhere give each other meanwhile.
LEAST_TALK, EVENTS_A_TALK = 4, 40


class Result(NamedTuple):
    """What happened and what was found; `load` is the machine's load average of the last five minutes."""

    plan: Plan
    seconds: float
    load: float
    acknowledged: int
    verdicts: Counter[str]
    late: int
    breaches: Breaches
    struck: Counter[Fault]
    missed: Counter[Fault]
    recovery: dict[Fault, list[float]]
    watched: list[Watched]
    failures: list[str]

    @property
    def good(self) -> bool:
        """Tell whether every promise was kept and nothing failed."""
        return not self.breaches.any and not self.failures


class Storm:
    """The storm of one plan in `directory`, with at most `slots` jobs at work at a time."""

    def __init__(
        self, plan: Plan, *, directory: Path, hosts: Hosts | None, slots: int, limit_seconds: float
    ) -> None:
        self._plan = plan
        self._home = directory / "home"
        output = directory / "output"
        self._home.mkdir(mode=0o700)
        output.mkdir()
        self._hosts = hosts
        self._slots = slots
        self._limit_seconds = limit_seconds
        self._fleet = Fleet(output)
        self._broker = Broker(self._home, hosts)
        self._registry = Registry(self._home, self._fleet)
        self._acknowledged = Acknowledged()
        self._talkers = Talkers(
            home=self._home,
            broker=self._broker,
            hosts=hosts,
            fleet=self._fleet,
            count=max(LEAST_TALK, plan.events // EVENTS_A_TALK),
        )
        self._waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._watched: list[Watched] = []
        self._failures: list[str] = []

    def run(self) -> Result:
        """Run it; blocks until everything it started has ended."""
        begun = time.monotonic()
        try:
            with self._broker:
                self._registry.start()
                self._registry.wait_ready()
                jobs = register(self._plan, home=self._home, broker=self._broker, hosts=self._hosts)
                striker = self._rage(jobs)
                ledger = self._settle(frozenset(job.job_id for job in jobs))
                self._registry.stop()
        finally:
            self._fleet.kill_all()
        return self._result(jobs, striker, ledger, time.monotonic() - begun)

    def _rage(self, jobs: list[Job]) -> Striker:
        """Let the jobs run under the strikes, until the last of both is over."""
        for job in jobs:
            self._waiting.put(job)
        striker = Striker(
            self._plan.strikes,
            acknowledged=self._acknowledged,
            fleet=self._fleet,
            broker=self._broker,
            registry=self._registry,
            hosts=self._hosts,
        )
        striker.start()
        self._talkers.start()
        slots = [threading.Thread(target=self._slot, name=f"slot {i}") for i in range(self._slots)]
        for slot in slots:
            slot.start()
        try:
            for slot in slots:
                slot.join()
        except BaseException:
            self._fleet.kill_all()
            raise
        finally:
            for slot in slots:
                slot.join()
            self._acknowledged.finish()
            striker.finish()
            # What they said lies in their outboxes where somebody was away: all of it arrives now.
            self._failures += self._talkers.finish()
        return striker

    def _slot(self) -> None:
        while not self._fleet.closed:
            try:
                job = self._waiting.get_nowait()
            except queue.Empty:
                return
            self._work(job)

    def _work(self, job: Job) -> None:
        watcher = Watcher(job.job_id, home=self._home, fleet=self._fleet, limit_seconds=self._limit_seconds)
        driver = Driver(
            job, home=self._home, fleet=self._fleet, hosts=self._hosts, acknowledged=self._acknowledged
        )
        try:
            driver.run()
        except FleetClosedError:
            watcher.abandon()
        except (StormError, ValueError, KeyError, OSError) as error:
            self._fail(str(error))
            watcher.abandon()
        watched = watcher.result()
        with self._guard:
            if watched is not None:
                self._watched.append(watched)

    def _settle(self, jobs: frozenset[str]) -> Ledger:
        """Wait until the journal has what was acknowledged; what is missing then is lost."""
        ledger = Ledger(self._home / "journal", jobs)
        wanted = self._acknowledged.by_job()

        def there() -> bool:
            ledger.update()
            return all(
                seqs <= ledger.held(job_id) | ledger.after_end[job_id] for job_id, seqs in wanted.items()
            )

        try:
            wait_for(there, deadline_seconds=SETTLE_SECONDS, what="the last event in the journal")
        except AssertionError as error:
            self._fail(str(error))
        return ledger

    def _fail(self, text: str) -> None:
        with self._guard:
            self._failures.append(text)

    def _result(self, jobs: list[Job], striker: Striker, ledger: Ledger, seconds: float) -> Result:
        ledger.update()
        return Result(
            plan=self._plan,
            seconds=seconds,
            load=os.getloadavg()[1],
            acknowledged=self._acknowledged.count,
            verdicts=ledger.verdicts,
            late=sum(map(len, ledger.late.values())),
            breaches=examine(
                jobs,
                acknowledged=self._acknowledged.by_job(),
                ledger=ledger,
                store=RecordStore(self._home),
                watched=self._watched,
            ),
            struck=Counter(strike.fault for strike in striker.struck),
            missed=Counter(striker.missed),
            recovery=recoveries(striker.struck, ledger.arrivals),
            watched=self._watched,
            failures=self._failures + striker.failures + self._registry.exits,
        )
