"""Work for an agent that is started for it, in a pane of the session, by the worker of `jobwire run`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.states import EndedBy, SessionState
from jobwire.coordination.sessions.stored import HANDED, OPENING, SessionRow
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import InvalidInputError, JobwireError
from jobwire.core.override import override
from jobwire.registry.store import RecordStore
from jobwire.runner.delegation import Delegation, Plan
from jobwire.runner.tmux import Pane, Tmux
from jobwire.sessions.known_agents import FILE, InstructionsBy
from jobwire.sessions.launching import Launch, adapted, agent_environment, session_folder
from jobwire.sessions.opening import in_pane, me
from jobwire.sessions.reconciling import Reconciler
from jobwire.sessions.taking import INSTRUCTIONS, Submission
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.process_life import life_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Linux gives one word of a command line 128 KiB (execve(2), MAX_ARG_STRLEN).
_MAX_ARGUMENT = 120 * 1024


class OnceAJob(Submission):
    """Work for an agent that is started for it: by the worker of `jobwire run`, in a pane of the session."""

    @override
    def register(self) -> None:
        """Take the session and write the job."""
        row = self.take()
        try:
            text = self.text_for(row)
            path = Path(RecordStore(self.home).log_dir(self.job_id)).resolve() / INSTRUCTIONS
            environment = agent_environment(
                os.environ, home=self.home, session=self.name, agent_id=row.agent_id
            )
            words = list(self.work.session.command)
            session_folder(self.home, self.name)
            launch = adapted(
                Launch(row.agent, words, environment, row.directory, self.name, self.home, row.conversation)
            )
            command = self._command(launch.command, text, path)
            self._job = Delegation(
                RecordStore(self.home),
                Plan(
                    command,
                    title=self.work.title,
                    agent_session=self.name,
                    timeouts=self.work.timeouts,
                    job_id=self.job_id,
                    instructions=self.work.instructions,
                ),
            )
            replace_durably(path, text.encode(), files=SystemFiles())
        except BaseException:
            self.inventory.end(
                self.name, SessionState.TERMINATED, by=EndedBy.HARD, reason="it was not opened"
            )
            raise
        self._row = row
        self._environment = launch.environment

    @override
    def start(self, watched: Callable[[], object]) -> None:
        """Start the worker in a pane of the session, once it is watched."""
        watched()
        row = self._row
        tmux = Tmux.at(row.socket) if row.socket else Tmux(socket=self.work.session.socket)
        try:
            self._job.start(tmux=(tmux, self.name), environ=self._environment, directory=Path(row.directory))
        except JobwireError as error:
            self.inventory.end(
                self.name, SessionState.TERMINATED, by=EndedBy.HARD, reason=f"it could not be opened: {error}"
            )
            raise
        note_worker(self.inventory, self.name, self._job.pane, self.job_id)

    @override
    def cancel(self, cause: str) -> None:
        """Cancel the job, and end its worker."""
        self._job.cancel(cause)

    @override
    def close(self) -> None:
        """Wait for the worker's end: the session is stopped then."""
        self._job.close(patient=True)
        Reconciler(self.home).run(self.name)

    @override
    def leave(self) -> None:
        """Let it go on without us."""
        self._job.leave()

    def _command(self, words: list[str], text: str, path: Path) -> list[str]:
        delivery = self.work.session.agent.delivery
        if delivery is InstructionsBy.STDIN:
            return ["/bin/sh", "-c", 'exec "$@" < "$0"', str(path), *words]
        if delivery is InstructionsBy.FILE:
            filled = [word.replace(FILE, str(path)) for word in words]
            return filled if filled != words else [*words, str(path)]
        if len(text.encode()) > _MAX_ARGUMENT:
            raise InvalidInputError(
                f"the instructions are too long for an argument: at most {_MAX_ARGUMENT} bytes",
                hint="--deliver file, or stdin",
                code="too_large",
            )
        return [*words, text]


def note_run(home: str, name: str, *, command: list[str], directory: str, pane: Pane, job_id: str) -> None:
    """Note a job of `jobwire run --tmux`: its session is one whose command was started for it.

    A session that lives keeps its own agent: the job's window stands beside that.
    """
    inventory = Inventory(CoordinationStore(home))
    Reconciler(home).run(name)
    found = inventory.find(name)
    if found is not None and found.standing in {SessionState.RUNNING, SessionState.ARCHIVED}:
        return
    agent = InstructionsBy.ARGUMENT.value
    row = SessionRow(name, "running", "command", agent, "", "", json.dumps(command), directory, "")
    inventory.begin(row._replace(handing=OPENING, opener=me(), job_id=job_id))
    note_worker(inventory, name, pane, job_id)


def note_worker(inventory: Inventory, name: str, pane: Pane | None, job_id: str) -> None:
    """Note which pane a job's worker has. Nothing where it has none."""
    if pane is None:
        return
    seen = Tmux.at(pane.socket).look(pane.pane)

    def edit(row: SessionRow) -> SessionRow:
        placed = in_pane(row, pane, seen, life_of(pane.pid))
        return placed._replace(job_id=job_id, handing=HANDED, opener="")

    inventory.change(name, edit, said=f"session {name} runs in pane {pane.pane}")
