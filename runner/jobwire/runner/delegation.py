"""One delegated command from registration to its end: shared by `jobwire run` and `jobwire demo`."""

import os
import secrets
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.core.errors import ConflictError, JobwireError
from jobwire.core.lease import LeaseGrant
from jobwire.core.redaction import MASK, Redactor
from jobwire.core.signature import new_token
from jobwire.jobs.fold import claim
from jobwire.jobs.record import JobRecord, Timeouts
from jobwire.registry.spec import JobSpec, check_spec, new_record
from jobwire.registry.store import RecordStore
from jobwire.runner.exit_status import ExitStatus
from jobwire.runner.job_end import cancel_job, fail_job
from jobwire.runner.terminal import Terminal
from jobwire.runner.tmux import Pane, Tmux, for_pane, note_pane
from jobwire.runner.worker import read_ending
from jobwire.runner.worker_process import (
    WorkerProcess,
    WorkerSpec,
    child_worker,
    pane_worker,
    worker_command,
    worker_environment,
    write_spec,
)

# After the worker's end, how long its last event may take to reach the record.
_SETTLE_SECONDS = 2.0
# Longer than a command's grace and its worker's last sending together.
_STOP_SECONDS = 12.0
_PATIENT_SECONDS = 0.25
_MAX_TITLE = 120


class Plan(NamedTuple):
    """What is delegated, and how it is watched."""

    command: list[str]
    title: str = ""
    agent_session: str | None = None
    timeouts: Timeouts = Timeouts()
    answer_stdin: bool = False
    # A name that the job has already elsewhere; empty: a new one.
    job_id: str = ""
    instructions: str = ""


class Delegation:
    """A registered job and its worker process."""

    def __init__(self, store: RecordStore, plan: Plan) -> None:
        self._store = store
        self._plan = plan
        self._owner = f"{socket.gethostname()}:{os.getpid()}"
        self._worker: WorkerProcess | None = None
        self._guard: threading.Thread | None = None
        self._closing = threading.Event()
        self.record = self._register()
        self.job_id = self.record.job_id
        # Where its output and history are kept.
        self.log_directory = store.log_dir(self.job_id)

    def start(
        self,
        *,
        tmux: tuple[Tmux, str] | None = None,
        environ: Mapping[str, str],
        directory: Path,
        command: list[str] | None = None,
        quiet: bool = False,
        terminal: Terminal | None = None,
    ) -> None:
        """Start the worker: as a child that shares our output (not with `quiet`), or in a tmux session.

        With `terminal` its command has that. `command`: the plan's in other words, with which it reports by
        itself.
        """
        home = Path(self._store.home)
        spec = WorkerSpec(
            job_id=self.job_id,
            attempt=self.record.attempt,
            home=str(home.resolve()),
            command=command or self._plan.command,
            directory=str(directory),
            environment=worker_environment(
                home, self.job_id, self.record.attempt, for_pane(environ) if tmux else environ
            ),
            owner=self._owner,
            title=self.record.title,
            answer_stdin=self._plan.answer_stdin,
            reports_itself=command is not None,
        )
        path = write_spec(self._store, spec)
        try:
            if tmux is None:
                self._worker = child_worker(path, quiet=quiet, terminal=terminal)
            else:
                server, session = tmux
                pane = server.open_window(session, self.job_id, worker_command(path), directory=directory)
                self._worker = pane_worker(pane)
                note_pane(self._store, self.job_id, pane)
        except JobwireError:
            path.unlink(missing_ok=True)
            self.cancel("the worker could not be started")
            raise
        self._guard = threading.Thread(target=self._notice_death, name=f"guard-{self.job_id}", daemon=True)
        self._guard.start()

    @property
    def pane(self) -> Pane | None:
        """Return the pane that its worker has; None where it has none."""
        return self._worker.pane if self._worker is not None else None

    def tell_worker(self, number: signal.Signals) -> None:
        """Send a signal to a worker that is our child; for signal handlers."""
        if self._worker is not None and self._worker.pane is None:
            self._worker.tell(number)

    def cancel(self, cause: str) -> None:
        """Cancel the job, durably, and end its worker; does nothing to a finished job."""
        cancel_job(self._store, self.job_id, cause)
        if self._worker is not None:
            self._worker.stop()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the end of the worker that was started; tell whether it ended."""
        return self._worker is None or self._worker.wait(seconds)

    def close(self, *, patient: bool = False) -> ExitStatus | None:
        """Wait for the worker's end and return its command's, where that is known.

        A worker that does not end in time is asked to. `patient`: the job has ended by its own word, and
        its command has all the time that it takes.
        """
        self._closing.set()
        folder = Path(self.log_directory)
        while patient and self._worker is not None and not self._worker.wait(_PATIENT_SECONDS):
            patient = read_ending(folder) is None
        if self._worker is not None and not self._worker.wait(_STOP_SECONDS):
            self._worker.stop()
            self._worker.wait(_STOP_SECONDS)
        self._let_go()
        return read_ending(folder)

    def leave(self) -> None:
        """Let the worker go on without us."""
        self._closing.set()
        self._let_go()

    def _let_go(self) -> None:
        if self._guard is not None:
            self._guard.join()
        if self._worker is not None:
            self._worker.close()

    def _register(self) -> JobRecord:
        """Write the record as running already: nobody else may pick it between two steps."""
        now = self._store.clock.now()
        spec = JobSpec(
            title=_utf8(self._plan.title),
            agent_session=self._plan.agent_session,
            timeouts=self._plan.timeouts,
            instructions=self._plan.instructions,
            # A command that is run twice by itself surprises; who wants that uses register and pick.
            max_attempts=1,
        )
        check_spec(spec)
        spec = spec._replace(title=spec.title or default_title(self._plan.command, os.environ))
        while True:
            record = new_record(spec, self._plan.job_id or secrets.token_hex(4), new_token(), now)
            record = claim(record, LeaseGrant(self._owner), now)
            try:
                self._store.create(record, cause="registered and started")
            except ConflictError:
                if self._plan.job_id:
                    raise
                continue
            return record

    def _notice_death(self) -> None:
        """End the job in error when its worker died without a last word (kill -9, out of memory)."""
        while self._worker is not None and not self._worker.wait(0.5):
            if self._closing.is_set():
                return
        waited = 0.0
        while not self._store.get(self.job_id).terminal and waited < _SETTLE_SECONDS:
            self._store.clock.sleep(0.1)
            waited += 0.1
        ending = self._worker.ending() if self._worker is not None else None
        cause = f"the worker died without a last word{f' ({ending.sentence})' if ending else ''}"
        if fail_job(self._store, self.job_id, cause):
            print(f"jobwire: job {self.job_id}: {cause}", file=sys.stderr)


def default_title(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the command as one would type it, without secrets, in at most 120 characters.

    Paths stay: the title does not leave this disk; `started` says it without them.
    """
    redactor = Redactor(environ)
    # Each word by itself first: quoting may change a secret beyond recognition.
    words = shlex.join(redactor.mask_secrets(_utf8(word)) for word in command)
    title = redactor.mask_secrets(words).replace(f"'{MASK}'", MASK)
    return title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"


def _utf8(text: str) -> str:
    """Return what an argument says to people: bytes that are not UTF-8 are not characters."""
    return os.fsencode(text).decode(errors="replace")
