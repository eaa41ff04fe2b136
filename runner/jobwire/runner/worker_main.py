"""The entry point of a worker process: reads its spec, wires the worker, and works."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from jobwire.core.boundary import report
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import JobwireError
from jobwire.core.lease import LeaseGrant
from jobwire.publisher import Publisher
from jobwire.registry.store import RecordStore
from jobwire.runner.answered_input import AnsweredInput
from jobwire.runner.command import Command, Pipes
from jobwire.runner.lease_keeper import LeaseKeeper
from jobwire.runner.pseudo_terminal import PseudoTerminal, bring_keys
from jobwire.runner.reporter import EventPublisher, Reporter, complain
from jobwire.runner.terminal import Terminal, attended, job_control
from jobwire.runner.tmux import PANE_VARIABLES
from jobwire.runner.worker import Worker
from jobwire.runner.worker_process import APART, WorkerSpec, child_worker, take_spec
from jobwire.storage.signals import delivered

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_POLL_SECONDS = 3600.0
_AGENT = "JOBWIRE_AGENT"


def main() -> int:
    """Work off the spec named in argv; return the command's exit status as a shell gives it."""
    path, *seat = sys.argv[1:]
    if not seat and attended():
        return _sit_before(Path(path))
    spec = take_spec(Path(path))
    own = {name: value for name, value in os.environ.items() if name in PANE_VARIABLES}
    os.environ.clear()
    os.environ.update({**own, **spec.environment})
    os.chdir(spec.directory)
    try:
        return _work(spec, seat)
    except JobwireError as error:
        report(error, prog="jobwire", as_json=False)
        return int(error.exit_code)


def _sit_before(spec: Path) -> int:
    """Be the person's side of a worker in this terminal: a tmux pane, which has nobody else for it."""
    with Terminal() as terminal:
        worker = child_worker(spec, terminal=terminal)
        with delivered(dict.fromkeys(_ENDING, worker.stop)), job_control(terminal, worker.tell):
            while not worker.wait(_POLL_SECONDS):
                pass
    ending = worker.ending()
    return 0 if ending is None else ending.shell_status


def _work(spec: WorkerSpec, seat: list[str]) -> int:
    clock = SystemClock()
    terminal: PseudoTerminal | None = None
    if seat:
        terminal = PseudoTerminal(int(seat[0]), stderr_apart=seat[1] == APART, clock=clock)
        bring_keys(terminal, sys.stdin.fileno())
    store = RecordStore(spec.home)
    answers = None
    if spec.answer_stdin and terminal is None:
        answers = AnsweredInput(store, spec.job_id, spec.attempt, complain=complain, clock=clock)
    command = Command(spec.command, stdio=terminal or Pipes(answers), clock=clock)
    stop = threading.Event()
    actions = dict.fromkeys(_ENDING, stop.set) | _job_control(command, terminal)
    with delivered(actions):
        return _report_on(command, spec, stop, clock, store=store, answers=answers)


def _job_control(
    command: Command, terminal: PseudoTerminal | None
) -> dict[signal.Signals, Callable[[], None]]:
    """Return what to do about the signals by which the person's side suspends, resumes and resizes."""
    starter = os.getppid()

    def suspended() -> None:
        number = command.stopped_by()
        if terminal is None or not number:
            return
        if number in {signal.SIGTTIN, signal.SIGTTOU} and terminal.in_foreground(command.pid):
            command.signal_own_group(signal.SIGCONT)
        elif os.getppid() == starter:
            os.kill(starter, signal.SIGTSTP)

    actions: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGCHLD: suspended,
        # Not SIGTSTP: in a session of its own nobody could wake the command, and the system knows that.
        signal.SIGTSTP: partial(command.signal_own_group, signal.SIGSTOP),
        signal.SIGCONT: partial(command.signal_own_group, signal.SIGCONT),
    }
    if terminal is not None:
        actions[signal.SIGWINCH] = terminal.resize
    return actions


def _report_on(
    command: Command,
    spec: WorkerSpec,
    stop: threading.Event,
    clock: Clock,
    *,
    store: RecordStore,
    answers: AnsweredInput | None,
) -> int:
    folder = Path(store.log_dir(spec.job_id))
    # Not a context manager: leaving it would wait for a broker.
    publisher = Publisher(spec.job_id, home=spec.home, attempt=spec.attempt)
    says: EventPublisher = publisher
    assigned = None
    grant = LeaseGrant(spec.owner)
    if spec.errand is not None:
        from jobwire.runner.assigned import AssignedWork, Errand  # noqa: PLC0415 - only errands need the store

        errand = Errand.of_json(spec.errand)
        grant = LeaseGrant(spec.owner, errand.lease_seconds)
        says = assigned = AssignedWork(
            publisher,
            errand,
            attempt=spec.attempt,
            home=spec.home,
            folder=folder,
            environ=os.environ,
            clock=clock,
        )
    lease = LeaseKeeper(store, job_id=spec.job_id, attempt=spec.attempt, grant=grant, clock=clock)
    reporter = Reporter(
        says,
        clock=clock,
        environ=os.environ,
        waiting=lease.waiting,
        idle_seconds=store.get(spec.job_id).timeouts.idle_seconds,
        answers=answers,
        by_itself=spec.reports_itself,
    )
    worker = Worker(
        command=command,
        reporter=reporter,
        lease=lease,
        folder=folder,
        clock=clock,
        check=assigned.check if assigned is not None else None,
    )
    if assigned is not None:
        with assigned.holding(worker, stop.is_set):
            return worker.work(spec.title, stop).ending.shell_status
    with _signs_of_life(spec):
        return worker.work(spec.title, stop).ending.shell_status


@contextlib.contextmanager
def _signs_of_life(spec: WorkerSpec) -> Iterator[None]:
    """Beat for the agent whose job this is, as long as its command runs."""
    agent = os.environ.get(_AGENT)
    if not agent:
        yield
        return
    from jobwire.coordination.heartbeat import Heartbeat  # noqa: PLC0415 - only agents need the store

    try:
        heartbeat = Heartbeat(agent, spec.home, status="working").start()
    except JobwireError as error:
        # The command runs all the same.
        report(error, prog="jobwire", as_json=False)
        yield
        return
    heartbeat.update("working", task=spec.job_id)
    try:
        yield
    finally:
        heartbeat.stop("idle")


if __name__ == "__main__":
    sys.exit(main())
