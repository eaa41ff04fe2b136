"""Work that is submitted, and how it takes a session: the two ways to an agent begin alike."""

from __future__ import annotations

import getpass
import secrets
import socket
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError, JobwireError
from jobwire.jobs.record import Timeouts
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.runner.job_end import cancel_job, fail_job
from jobwire.sessions.launching import reports_by_itself
from jobwire.sessions.opening import NewSession, Opener, is_alive, me
from jobwire.sessions.reconciling import Reconciler
from jobwire.storage import wake
from jobwire.storage.process_life import life_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.sessions.stored import SessionRow

INSTRUCTIONS = "instructions.md"
_GUARD_SECONDS = 0.5
_TITLE = 80
# What an agent reads before its instructions: who it is, which job it has, how it reports.
_HEADER = """\
You work on job {job_id}{title} for {delegator}, through jobwire. You are {agent}. Report in your shell:
  publish_event --job {job_id} --event progress --detail "what you do"
  jobwire ask --job {job_id} "your question"      waits for a person, prints the answer
  jobwire inbox fetch --agent {agent}      what others wrote to you
  publish_event --job {job_id} --event completed --detail "what came of it"
  publish_event --job {job_id} --event error --detail "why it cannot be done"
End with exactly one of the last two. If one of them exits with 3, stop working on this job.

"""
# A longer text is not pasted: the line names the file that holds it.
MOST_PASTED = 4000


class NewWork(NamedTuple):
    """What is submitted. `wait_seconds`: how long to wait until the session is free."""

    session: NewSession
    instructions: str
    timeouts: Timeouts = Timeouts()
    wait_seconds: float = 0.0

    @property
    def title(self) -> str:
        """Return its title, else the beginning of the first line of its instructions."""
        if self.session.title:
            return self.session.title
        first = next((line.strip() for line in self.instructions.splitlines() if line.strip()), "")
        shown = "".join(character if character.isprintable() else " " for character in first)
        return shown if len(shown) <= _TITLE else f"{shown[: _TITLE - 1]}…"


class Submission(ABC):
    """One piece of work on its way to an agent: a name for the job, and the session for it."""

    def __init__(self, home: str, work: NewWork) -> None:
        self.home = home
        self.work = work
        self.name = work.session.name
        self.job_id = secrets.token_hex(4)
        self.inventory = Inventory(CoordinationStore(home))
        self._opener = Opener(home)
        self._closing = threading.Event()
        self._guard: threading.Thread | None = None

    @abstractmethod
    def register(self) -> None:
        """Take the session and write the job. Raises InvalidInputError, ConflictError, StorageError."""

    @abstractmethod
    def start(self, watched: Callable[[], object]) -> None:
        """Open the pane where it is not there, and hand the instructions over. Raises JobwireError.

        Its process begins once `watched` has returned.
        """

    @abstractmethod
    def close(self) -> None:
        """Note that the job has ended: the session is free."""

    def take(self) -> SessionRow:
        """Take the session for the job, waiting until it is free. Raises ConflictError."""
        refused: list[ConflictError] = []

        def attempt() -> SessionRow | None:
            refused.clear()
            try:
                return self._take()
            except ConflictError as error:
                if "job_id" not in error.facts:
                    raise
                refused.append(error)
                return None

        names = [f"resource:session:{self.name}"]
        row = wake.wait_until(attempt, home=self.home, names=names, seconds=self.work.wait_seconds)
        if row is None:
            raise refused[0]
        return row

    def _take(self) -> SessionRow:
        # What was left by somebody who was killed goes first.
        Reconciler(self.home).run(self.name)
        found = self.inventory.find(self.name)
        if found is None or found.standing is SessionState.TERMINATED or self._is_over(found):
            return self._opener.reserve(self.work.session, job_id=self.job_id)
        asked = self.work.session.agent.name
        if found.agent != asked:
            raise ConflictError(
                f"session {self.name} is {found.agent}'s, not {asked}'s",
                hint="leave --agent and --agent-command out, or another session",
                code="not_expected",
            )
        if found.opener and not found.job_id and is_alive(found.opener):
            raise ConflictError(
                f"session {self.name} is being opened", hint="--wait S waits", code="locked", job_id=""
            )
        taken = self.inventory.take_job(self.name, self.job_id, me())
        if taken.standing is SessionState.RUNNING:
            return taken
        return self.inventory.change(
            self.name,
            lambda row: row._replace(state=SessionState.RUNNING, ended_by="", reason=""),
            said=f"session {self.name} is opened again",
        )

    def text_for(self, row: SessionRow) -> str:
        """Return what the agent reads: one that reports by its own hooks needs no header."""
        if reports_by_itself(row.agent, row.words):
            return self.work.instructions
        return compose(
            self.work.instructions,
            job_id=self.job_id,
            title=self.work.title,
            agent=row.agent_id,
            delegator=delegator(),
        )

    def _is_over(self, found: SessionRow) -> bool:
        """Tell whether nothing of the session is kept: its agent was started for a job that is over."""
        return found.standing is SessionState.STOPPED and found.once

    def cancel(self, cause: str) -> None:
        """Cancel the job; nothing where it has ended."""
        cancel_job(RecordStore(self.home), self.job_id, cause)

    def leave(self) -> None:
        """Let it go on without us."""
        self._closing.set()
        if self._guard is not None:
            self._guard.join()

    def _fail(self, why: str) -> None:
        fail_job(RecordStore(self.home), self.job_id, why)
        self.inventory.free(self.name, self.job_id)
        with suppress(JobwireError):
            Reconciler(self.home).run(self.name)

    def _watch_over(self) -> None:
        """Notice that the pane is gone, also where no registry process runs."""
        self._guard = threading.Thread(target=self._look, name=f"guard-{self.job_id}", daemon=True)
        self._guard.start()

    def _look(self) -> None:
        reconciler = Reconciler(self.home)
        while not self._closing.wait(_GUARD_SECONDS):
            row = self.inventory.find(self.name)
            if row is None or row.job_id != self.job_id:
                return
            # While this process is at it nothing is found but a pane that is gone.
            if row.pane and life_of(row.pid) != row.life:
                try:
                    reconciler.run(self.name)
                except JobwireError as error:
                    print(f"jobwire: session {self.name}: {error.message}", file=sys.stderr)  # noqa: T201
                    return


def job_spec(work: NewWork) -> JobSpec:
    """Return what the registry is told of the work."""
    return JobSpec(
        title=work.title,
        instructions=work.instructions,
        agent_session=work.session.name,
        timeouts=work.timeouts,
        # Nobody else takes it up: its conversation is in this session.
        max_attempts=1,
    )


def delegator() -> str:
    """Return who submits, as agents are told."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def compose(instructions: str, *, job_id: str, title: str, agent: str, delegator: str) -> str:
    """Return header and instructions."""
    shown = f" ({title})" if title else ""
    return _HEADER.format(job_id=job_id, title=shown, agent=agent, delegator=delegator) + instructions


def pointer(path: str, job_id: str) -> str:
    """Return the one line that names the file with the instructions."""
    return f"Read the file {path} and do what it says: your instructions for job {job_id}"
