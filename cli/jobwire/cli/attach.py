"""`jobwire attach`: joins a job: its pane where it has one, else its events and output to the verdict."""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from jobwire.core.boundary import INTERRUPTED
from jobwire.core.errors import ConfigError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.roles import Role
from jobwire.jobs.record import JobRecord
from jobwire.registry.store import RecordStore
from jobwire.runner.output_log import OutputReader, OutputSink, output_path
from jobwire.runner.tmux import Pane, Tmux
from jobwire.storage.signals import stop_event
from jobwire.subscriber.outcome import outcome_of
from jobwire.subscriber.printer import LinePrinter
from jobwire.subscriber.subscriber import watch_jobs
from jobwire.transport import load_settings


def run(args: argparse.Namespace) -> int:
    """Join; return the verdict's exit code, or 0 where the job goes on without us."""
    store = RecordStore(Path(args.home))
    record = store.get(args.job)
    pane = Pane.of(record)
    if pane is not None and not record.terminal and sys.stdin.isatty() and sys.stdout.isatty():
        joined = _join(Tmux(path=pane.socket), pane)
        if joined:
            return _state_now(store.get(args.job))
    return _watch(args, store, record)


def _join(tmux: Tmux, pane: Pane) -> bool:
    """Show the pane; tell whether that was possible, and say how."""
    if not tmux.holds(pane):
        _say(f"its pane {pane.pane} in session {pane.session} is gone")
        return False
    here = os.environ.get("TMUX", "").split(",")[0]
    if not here:
        _say(f"tmux attach, pane {pane.pane} in session {pane.session}; prefix d leaves it")
        tmux.attach(pane)
        return True
    if here == pane.socket:
        try:
            tmux.switch(pane)
        except ConfigError as error:  # nobody looks at this tmux at the moment
            _say(error.message)
            return False
        _say(f"switched to pane {pane.pane} in session {pane.session}; prefix L goes back")
        return True
    _say(f"it runs in another tmux: tmux -S {pane.socket} attach -t {pane.session}, from outside of this one")
    return False


def _state_now(record: JobRecord) -> int:
    if record.terminal:
        _say(f"job {record.job_id} is {record.status}")
        return outcome_of(record).exit_code
    _say(f"job {record.job_id} goes on")
    return ExitCode.OK


def _watch(args: argparse.Namespace, store: RecordStore, record: JobRecord) -> int:
    settings = load_settings(
        home=Path(args.home), role=Role.HERMES, command_line={}, record=record.broker, environ=os.environ
    )
    printer = LinePrinter(sys.stderr, as_json=args.json)
    over = threading.Event()
    sink = OutputSink()
    with (
        OutputReader(output_path(store, args.job), sink, lines=args.lines) as reader,
        stop_event(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as stop,
    ):

        def copy() -> None:
            try:
                reader.follow(over.is_set, over.wait)
            except BrokenPipeError:
                stop.set()  # nobody reads any more

        copying = threading.Thread(target=copy, name="output", daemon=True)
        copying.start()
        try:
            verdicts = watch_jobs(
                jobs=[args.job], home=Path(args.home), settings=settings, on_line=printer, stop=stop
            )
        finally:
            over.set()
            copying.join()
            sink.finish()
            printer.finish()
    if verdicts.interrupted:
        _say(f"job {args.job} goes on")
        return INTERRUPTED
    return verdicts.exit_code


def _say(text: str) -> None:
    print(f"jobwire: {text}", file=sys.stderr)
