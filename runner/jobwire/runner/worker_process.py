"""Starting a worker as its own process: directly, or in a tmux pane.

What it is to do travels in a 0600 file and never in argv: a command line may hold secrets, and tmux
would show it to everybody who lists processes.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.registry.store import RecordStore
from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.terminal import Terminal
from jobwire.runner.tmux import Pane
from jobwire.storage.durable import replace_durably

SPEC_FILE = "worker.json"
# Whether the command's error output has the terminal too (see `Terminal`).
APART, TOGETHER = "apart", "together"
_MODULE = "jobwire.runner.worker_main"


class WorkerSpec(NamedTuple):
    """What a worker process is told."""

    job_id: str
    attempt: int
    home: str
    command: list[str]
    directory: str
    environment: dict[str, str]
    owner: str
    title: str
    answer_stdin: bool = False
    reports_itself: bool = False
    # A delivery that the command handles (`assigned.Errand`), as JSON.
    errand: dict[str, object] | None = None


def write_spec(store: RecordStore, spec: WorkerSpec) -> Path:
    """Write the spec, mode 0600; the worker deletes it when it has read it."""
    path = Path(store.log_dir(spec.job_id)) / SPEC_FILE
    replace_durably(path, json.dumps(spec._asdict()).encode(), files=store.files)
    return path


def take_spec(path: Path) -> WorkerSpec:
    """Read the spec and delete it: it holds the environment."""
    spec = WorkerSpec(**json.loads(path.read_bytes()))
    path.unlink()
    return spec


def worker_environment(home: Path, job_id: str, attempt: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command: a `publish_event` in it speaks for this job and attempt."""
    return {
        **environ,
        "JOBWIRE_HOME": str(home.resolve()),
        "JOBWIRE_JOB": job_id,
        "JOBWIRE_ATTEMPT": str(attempt),
    }


class WorkerProcess:
    """A running worker as its starter sees it, known by a descriptor of its process; -1: it has ended.

    A descriptor and not its number: numbers are used again (pidfd_open(2)). `pane`: where tmux shows it.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        child: "subprocess.Popen[bytes] | None" = None,
        pane: Pane | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._child = child
        self.pane = pane

    def stop(self) -> None:
        """Ask it to end its command and itself (SIGTERM)."""
        self.tell(signal.SIGTERM)

    def tell(self, number: signal.Signals) -> None:
        """Send any signal; takes no lock and waits for nobody."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._descriptor, number)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for its end; tell whether it ended."""
        if self._descriptor < 0:
            return True
        # Not select(): a process with many jobs has descriptors that it cannot name.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(round(seconds * 1000)))

    def ending(self) -> ExitStatus | None:
        """Return how it ended; None where that is not known: only a parent learns it."""
        code = self._child.poll() if self._child is not None else None
        return None if code is None else ExitStatus.of_returncode(code)

    def close(self) -> None:
        """Let go of it; it goes on if it runs, and counts as ended from now on."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def child_worker(spec: Path, *, quiet: bool = False, terminal: Terminal | None = None) -> WorkerProcess:
    """Start a worker as our child, sharing our output, or with `terminal` as its command's terminal.

    In a session of its own: Ctrl-C at the terminal must reach `jobwire run` alone, which then cancels the
    job in order.
    """
    if terminal is not None:
        process = _before_terminal(spec, terminal)
    else:
        # Quiet output is still kept in the job's output.log.
        sink = subprocess.DEVNULL if quiet else None
        # In a session of its own the terminal is not the child's: reading from it would fail halfway.
        source = subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None
        process = subprocess.Popen(
            worker_command(spec), stdin=source, stdout=sink, stderr=sink, start_new_session=True
        )
    return WorkerProcess(os.pidfd_open(process.pid), child=process)


def pane_worker(pane: Pane) -> WorkerProcess:
    """Return the worker that a window of tmux was opened for: the process of its pane."""
    try:
        descriptor = os.pidfd_open(pane.pid)
    except ProcessLookupError:
        descriptor = -1  # it has ended already
    return WorkerProcess(descriptor, pane=pane)


def _before_terminal(spec: Path, terminal: Terminal) -> "subprocess.Popen[bytes]":
    """Start a worker whose input and output are `terminal`'s; it knows the terminal's modes and size."""
    real = os.dup(sys.stdin.fileno())
    try:
        return subprocess.Popen(
            [*worker_command(spec), str(real), APART if terminal.stderr_apart else TOGETHER],
            stdin=terminal.worker_end.fileno(),
            stdout=terminal.worker_end.fileno(),
            stderr=None if terminal.stderr_apart else terminal.worker_errors,
            pass_fds=(real,),
            start_new_session=True,
        )
    finally:
        os.close(real)
        terminal.started()


def worker_command(spec: Path) -> list[str]:
    """Return the command line of the worker that works off `spec`."""
    return [sys.executable, "-m", _MODULE, str(spec)]
