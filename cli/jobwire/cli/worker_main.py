"""The entry point of a worker process: reads its order, wires the worker, and works."""

import os
import signal
import sys
import threading
from pathlib import Path

from jobwire.cli.lifeline import Lifeline
from jobwire.cli.tmux import PANE_VARIABLES
from jobwire.cli.worker import Command, Reporter, Worker
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
        with stop_event(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as stopped:
            return _work(order, stopped)
    except JobwireError as error:
        report(error, prog="jobwire", as_json=False)
        return int(error.exit_code)


def _work(order: Order, stopped: threading.Event) -> int:
    clock = SystemClock()
    store = RecordStore(order.home)
    lifeline = Lifeline(
        store, job_id=order.job_id, attempt=order.attempt, grant=LeaseGrant(order.owner), clock=clock
    )
    log = Path(store.log_dir(order.job_id)) / "output.log"
    with Publisher(order.job_id, home=order.home, attempt=order.attempt) as voice:
        reporter = Reporter(voice, clock=clock, on_stopped=stopped, environ=os.environ)
        worker = Worker(
            command=Command(order.command), reporter=reporter, lifeline=lifeline, output=log, clock=clock
        )
        return worker.work(order.title, stopped).status


if __name__ == "__main__":
    sys.exit(main())
