"""The entry point of a worker process: reads its order, wires the worker, and works."""

import os
import signal
import sys
import threading
from pathlib import Path

from jobwire.cli.command import Command, Pipes
from jobwire.cli.lifeline import Lifeline
from jobwire.cli.reporter import Reporter
from jobwire.cli.tmux import PANE_VARIABLES
from jobwire.cli.worker import Worker
from jobwire.cli.worker_process import Order, take_order
from jobwire.core.clock import SystemClock
from jobwire.core.commands import report
from jobwire.core.errors import JobwireError
from jobwire.core.fold import LeaseGrant
from jobwire.publisher import Publisher
from jobwire.registry.store import RecordStore
from jobwire.storage.signals import stop_event


def main() -> int:
    """Work off the order named in argv; return the command's exit status as a shell gives it."""
    order = take_order(Path(sys.argv[1]))
    own = {name: value for name, value in os.environ.items() if name in PANE_VARIABLES}
    os.environ.clear()
    os.environ.update({**own, **order.environment})
    os.chdir(order.directory)
    try:
        with stop_event(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as stop:
            return _work(order, stop)
    except JobwireError as error:
        report(error, prog="jobwire", as_json=False)
        return int(error.exit_code)


def _work(order: Order, stop: threading.Event) -> int:
    clock = SystemClock()
    store = RecordStore(order.home)
    lifeline = Lifeline(
        store, job_id=order.job_id, attempt=order.attempt, grant=LeaseGrant(order.owner), clock=clock
    )
    # Not a context manager: leaving it would wait for a broker.
    voice = Publisher(order.job_id, home=order.home, attempt=order.attempt)
    reporter = Reporter(
        voice,
        clock=clock,
        environ=os.environ,
        waiting=lifeline.waiting,
        idle_seconds=store.get(order.job_id).timeouts.idle_seconds,
    )
    worker = Worker(
        command=Command(order.command, stage=Pipes(), clock=clock),
        reporter=reporter,
        lifeline=lifeline,
        folder=Path(store.log_dir(order.job_id)),
        clock=clock,
    )
    return worker.work(order.title, stop).ending.shell_status


if __name__ == "__main__":
    sys.exit(main())
