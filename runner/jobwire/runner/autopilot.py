"""The autopilot: takes agents' deliveries and has a command handle each of them, as a job.

    store ──take──► assign (a job of the thread) ──► worker process: command, output, lease, receipt
      ▲                                                        │
      └──────── done, again later, or dead, with the job's end ┘

A worker outlives its autopilot: it says its last word by itself, and holds the locks under which its agent
does one thing at a time. So whatever is killed, a delivery is handled again only after its job is over.
"""

import contextlib
import hashlib
import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.coordination import agents, taking
from jobwire.coordination.bus import session_export, session_import
from jobwire.coordination.delivery import DeliveryState, InboxDelivery
from jobwire.coordination.handling.assignment import Assignment, adopt, asks_for_work, assign, wind_up
from jobwire.coordination.handling.tries import Tries
from jobwire.coordination.heartbeat import Heartbeat, StorePulse
from jobwire.coordination.marks import catch_up
from jobwire.coordination.reading import message_of, thread_of
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.tasks.stored import task_of_thread
from jobwire.coordination.work import ThreadWork
from jobwire.core.errors import ConflictError, JobwireError, NoWorkError
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import Timeouts
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.runner.accepting import DEFAULT_SECONDS, runnable
from jobwire.runner.assigned import Errand
from jobwire.runner.message_command import RECEIPT, text_of, write_message
from jobwire.runner.process_session import kill_marked
from jobwire.runner.worker_nursery import WorkerNursery
from jobwire.runner.worker_process import WorkerProcess, WorkerSpec, worker_environment, write_spec
from jobwire.storage import wake
from jobwire.storage.file_lock import try_acquire
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.wake import wait_until

DEFAULT_RUN = "default"
_ENDS = {Status.COMPLETED: "done", Status.CANCELLED: "cancelled", Status.PENDING: "given_back"}
_FAILURES: dict[str, str] = {DeliveryState.QUEUED: "again", DeliveryState.DEAD: "dead"}
LEASE_SECONDS = 60.0
_LONG_SECONDS = 3600.0
_POLL_SECONDS = 3600.0
# A worker that was told to end gives its command five seconds.
_HURRY_SECONDS = 20.0


class AutopilotPlan(NamedTuple):
    """For whom which command is run, and within which limits; `most`, `per_run`: at a time."""

    agents: Sequence[str]
    command: list[str]
    serial: bool = False
    most: int | None = None
    per_run: int | None = None
    tries: Tries = Tries()
    timeouts: Timeouts = Timeouts()
    verify: bool = False
    verify_seconds: float = DEFAULT_SECONDS
    allowed: Sequence[str] = ()
    answer_stdin: bool = False
    lease_seconds: float = LEASE_SECONDS
    until_idle: bool = False
    open_work: bool = False
    # A session folder (`bus.session_folder`), from which messages are taken in and to which receipts go.
    bus: str = ""


class AutopilotEvent(NamedTuple):
    """What happened: `began`, or how a try ended (`done`, `again`, `dead`, `cancelled`, `given_back`)."""

    event: str
    agent: str
    job_id: str
    thread_id: str
    message_id: str
    summary: str
    attempt: int
    detail: str = ""
    task_id: str = ""


class _Flight:
    """A worker under way."""

    def __init__(self, one: Assignment, worker: WorkerProcess) -> None:
        self.one = one
        self.worker = worker
        self.over = threading.Event()


class Autopilot:
    """One autopilot; `run` from one thread, `stop` from any. `tell` hears what happens, from any thread."""

    def __init__(
        self,
        store: CoordinationStore,
        plan: AutopilotPlan,
        *,
        tell: Callable[[AutopilotEvent], object],
        warn: Callable[[str], object],
        environ: Mapping[str, str],
        directory: Path,
    ) -> None:
        self._store = store
        self._plan = plan
        self._tell = tell
        self._warn = warn
        # Who speaks by a ticket has no home: what a command says here is kept here.
        self._environ = {name: value for name, value in environ.items() if name != "JOBWIRE_TICKET"}
        self._directory = directory
        self._records = RecordStore(store.home, clock=store.clock)
        self._incarnation = secrets.token_hex(8)
        self._nursery = WorkerNursery()
        self._runs: dict[str, _Flight] = {}
        self._beats: dict[str, Heartbeat] = {}
        self._stopping = 0
        self._wake = f"autopilot:{os.getpid()}:{self._incarnation}"
        self._next = 0
        self._told: set[str] = set()
        self.ended: Counter[str] = Counter()

    def stop(self) -> None:
        """Take nothing more and let what runs end; asked again, end that too."""
        self._stopping += 1
        if self._stopping > 1:
            for run in list(self._runs.values()):
                run.worker.stop()
        self._touch()

    def run(self) -> None:
        """Work until `stop`, or with `until_idle` until nothing is left. Raises JobwireError."""
        self._records.make_layout()
        names = [self._wake, *(f"agent:{name}" for name in self._plan.agents), "agent:*"]
        with self._alive():
            try:
                while not wait_until(
                    self._step,
                    home=self._store.home,
                    names=names,
                    seconds=self._pause(),
                    clock=self._store.clock,
                ):
                    pass
            finally:
                self._end_runs()
                self._nursery.close()

    def _step(self) -> bool | None:
        """Begin what can begin; True once all is over."""
        self._reap()
        if not self._stopping:
            self._take_in()
            catch_up(self._store)
            while self._has_room() and self._begin_one():
                pass
        if self._runs:
            return None
        if self._stopping or (self._plan.until_idle and not self._anything_open()):
            return True
        return None

    def _take_in(self) -> None:
        """Take in what agents of another system dropped as files."""
        if not self._plan.bus or not session_import.waiting(self._plan.bus):
            return
        found = session_import.read_session(self._store, self._plan.bus, DEFAULT_RUN)
        for problem in found["problems"] if isinstance(found["problems"], list) else ():
            if problem not in self._told:
                self._told.add(problem)
                self._warn(problem)

    def _give_out(self) -> None:
        if self._plan.bus:
            # Another one that exports writes what we would.
            with contextlib.suppress(ConflictError):
                session_export.write_session(self._store, self._plan.bus, DEFAULT_RUN)

    def _has_room(self) -> bool:
        return not self._stopping and (self._plan.most is None or len(self._runs) < self._plan.most)

    def _begin_one(self) -> bool:
        """Begin the next agent's next work, in turns; False where nobody has any that may begin."""
        names = self._plan.agents
        for turn in range(len(names)):
            agent = names[(self._next + turn) % len(names)]
            if agent not in self._runs and self._begin(agent):
                self._next = (self._next + turn + 1) % len(names)
                return True
        return False

    def _begin(self, agent: str) -> bool:
        if not taking.may_take(self._store, agent) and not (
            self._plan.open_work and adopt(self._store, agent)
        ):
            return False
        if self._run_is_full(agent):
            return False
        with contextlib.ExitStack() as ours:
            locks = self._locks_for(agent, ours)
            return locks is not None and self._take(agent, locks)

    def _locks_for(self, agent: str, ours: contextlib.ExitStack) -> list[int] | None:
        """Return the locks under which the agent works; None where somebody has one of them.

        Ours until `ours` ends. A worker that has their descriptors goes on holding them without us.
        """
        names = [f"agent {agent}", *([f"run {self._run_of(agent)}"] if self._plan.serial else [])]
        locks: list[int] = []
        for name in names:
            digest = hashlib.sha256(name.encode()).hexdigest()[:24]
            lock = try_acquire(HomePaths(self._store.home).lock_path(f"autopilot-{digest}"))
            if lock is None:
                return None
            # Only closed: to unlock it would free it under the worker.
            ours.callback(os.close, lock)
            locks.append(lock)
        return locks

    def _run_is_full(self, agent: str) -> bool:
        """Tell whether the run of the agent's next message has as many commands as it may."""
        if self._plan.per_run is None:
            return False
        values = {"agent_id": agent, "now_ms": self._store.now_ms, "limit": 1}
        for row in self._store.rows("next_deliveries", values):
            next_run = message_of(self._store, row[1]).run_id
            same = sum(run.one.message.run_id == next_run for run in self._runs.values())
            return same >= self._plan.per_run
        return False

    def _run_of(self, agent: str) -> str:
        row = next(iter(self._store.rows("agent", {"agent_id": agent})), None)
        return DEFAULT_RUN if row is None else str(row[3])

    def _take(self, agent: str, locks: list[int]) -> bool:
        """Take and begin one delivery; False where there was none to take."""
        plan = self._plan
        try:
            taken = taking.take(
                self._store,
                agent,
                incarnation=self._incarnation,
                seconds=plan.lease_seconds,
                max_tries=plan.tries.most,
            )
        except NoWorkError:
            return False
        work = ThreadWork(self._store, agent, incarnation=self._incarnation, environ={}, keeps_leases=False)
        one = assign(work, taken, seconds=plan.lease_seconds, tries=plan.tries, shape=self._shape)
        if one is None:
            return True
        try:
            self._start(agent, one, work, locks)
        except (JobwireError, OSError) as error:
            self._warn(f"job {one.token.job_id} cannot be started: {error}")
            wind_up(work, one)
        return True

    def _shape(self, spec: JobSpec) -> JobSpec:
        return spec._replace(timeouts=self._plan.timeouts)

    def _start(self, agent: str, one: Assignment, work: ThreadWork, locks: list[int]) -> None:
        job_id, attempt = one.token
        folder = Path(self._records.log_dir(job_id))
        if attempt > 1:
            self._kill_leftovers(job_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fields = one.message.to_json() | {"job_id": job_id, "attempt": attempt}
        files = write_message(folder, text_of(self._store, one), fields, attempt=attempt)
        lines, trusted = self._acceptance(one)
        accept = runnable(lines, trusted, self._plan.allowed) if self._plan.verify else []
        errand = Errand(
            agent,
            self._incarnation,
            self._store.path,
            one.thread.thread_id,
            str(one.token),
            one.handled,
            one.delivery.lease_token or 0,
            self._plan.lease_seconds,
            str(files.receipt),
            answers=one.message.id if one.message.kind == "question" else "",
            accept=tuple(accept),
            accept_seconds=self._plan.verify_seconds,
            unverified=len(lines) - len(accept) if self._plan.verify else 0,
        )
        home = Path(self._store.home)
        environment = (
            worker_environment(home, job_id, attempt, self._environ)
            | files.environment()
            | {
                "JOBWIRE_AGENT": agent,
                "JOBWIRE_INCARNATION": self._incarnation,
                "JOBWIRE_LEASE": str(one.token),
                "JOBWIRE_THREAD": one.thread.thread_id,
                "JOBWIRE_RUN": one.message.run_id,
                "JOBWIRE_TASK": one.message.task_id or "",
                "JOBWIRE_DB": str(Path(self._store.path).resolve()),
            }
        )
        spec = WorkerSpec(
            job_id=job_id,
            attempt=attempt,
            home=str(home.resolve()),
            command=self._plan.command,
            directory=str(self._directory),
            environment=environment,
            owner=agent,
            title=one.thread.subject,
            answer_stdin=self._plan.answer_stdin,
            errand=errand._asdict(),
        )
        path = write_spec(self._records, spec)
        with files.text.open("rb") as source:
            worker = self._nursery.begin(path, stdin=source.fileno(), kept=locks)
        run = _Flight(one, worker)
        self._runs[agent] = run
        if beat := self._beats.get(agent):
            beat.update("working", task=one.message.task_id or one.thread.thread_id)
        self._say("began", run, one.message.summary)
        threading.Thread(target=self._wait_for, args=(run, work), name=f"run-{job_id}", daemon=True).start()

    def _kill_leftovers(self, job_id: str) -> None:
        """Kill what a worker that was killed left running.

        Known by where the receipt of a delivery goes, which no person's shell has in its environment.
        """
        kill_marked(f"{RECEIPT}={Path(self._records.log_dir(job_id)).resolve()}/")

    def _acceptance(self, one: Assignment) -> tuple[list[str], Sequence[str]]:
        """Return the lines of the message, and those that a person put into the plan."""
        task = task_of_thread(self._store, one.thread.thread_id)
        return json.loads(one.message.acceptance), () if task is None else task.acceptance

    def _wait_for(self, run: _Flight, work: ThreadWork) -> None:
        """Wait for a worker's end, and see that its delivery is decided about."""
        try:
            while not run.worker.wait(_POLL_SECONDS):
                pass
            wound_up = wind_up(work, run.one, stopped=self._stopping > 1)
            if wound_up.died:
                self._kill_leftovers(run.one.token.job_id)
            self._report(run, wound_up.status)
            self._give_out()
        except JobwireError as error:
            self._warn(f"job {run.one.token.job_id}: {error.message}")
        finally:
            run.worker.close()
            self._store.close()
            run.over.set()
            self._touch()

    def _report(self, run: _Flight, status: Status) -> None:
        one = run.one
        values = {"agent_id": one.delivery.agent_id, "seq": one.delivery.seq}
        held = InboxDelivery(*self._store.rows("delivery", values)[0])
        again = not thread_of(self._store, one.thread.thread_id).ended
        word = _ENDS.get(status) or _FAILURES.get(held.state, "again" if again else "failed")
        self.ended[word] += 1
        self._say(word, run, self._records.get(one.token.job_id).detail)

    def _say(self, event: str, run: _Flight, detail: str) -> None:
        one = run.one
        self._tell(
            AutopilotEvent(
                event,
                one.delivery.agent_id,
                one.token.job_id,
                one.thread.thread_id,
                one.message.id,
                one.message.summary,
                one.delivery.attempts,
                detail,
                one.message.task_id or "",
            )
        )

    def _reap(self) -> None:
        for agent, run in list(self._runs.items()):
            if run.over.is_set():
                del self._runs[agent]
                if beat := self._beats.get(agent):
                    beat.update("idle")

    def _anything_open(self) -> bool:
        return any(
            self._store.rows("next_due_delivery", {"agent_id": agent})[0][0] is not None
            for agent in self._plan.agents
        )

    def _pause(self) -> float:
        """Return how long nothing is due; who is woken looks earlier."""
        if self._stopping:
            return _LONG_SECONDS
        now = self._store.clock.now()
        due = [
            row[0] / 1000 - now
            for agent in self._plan.agents
            if agent not in self._runs
            for row in self._store.rows("next_due_delivery", {"agent_id": agent})
            if row[0] is not None
        ]
        later: list[float] = [seconds for seconds in due if seconds > 0]
        return max(0.01, min([*later, _LONG_SECONDS]))

    def _touch(self) -> None:
        wake.touch(self._store.home, [self._wake])

    def _end_runs(self) -> None:
        """End what still runs where we end for another reason than `stop`."""
        for run in self._runs.values():
            run.worker.stop()
        for run in self._runs.values():
            run.over.wait(_HURRY_SECONDS)

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        """Give signs of life of the agents for the block."""
        for agent in self._plan.agents:
            self._beats[agent] = Heartbeat(
                agent, StorePulse(self._store, incarnation=self._incarnation)
            ).start()
        try:
            yield
        finally:
            for agent, beat in self._beats.items():
                beat.stop()
                with contextlib.suppress(JobwireError), self._store.changing() as change:
                    agents.leave(change, agent)


def open_work(store: CoordinationStore, names: Sequence[str]) -> list[tuple[str, InboxMessage]]:
    """Return what these agents could take now: name and message. Changes nothing."""
    catch_up(store)
    found = [
        (agent, message_of(store, row[1]))
        for agent in names
        for row in store.rows("next_deliveries", {"agent_id": agent, "now_ms": store.now_ms, "limit": 1000})
    ]
    return [(agent, message) for agent, message in found if asks_for_work(store, agent, message)]
