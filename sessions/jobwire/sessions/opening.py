"""Opening sessions: a name is reserved in the inventory, then its pane is made, then that is noted.

Whatever is killed in between leaves a row that says how far it came; `reconcile` finishes or undoes it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.names import check_session_name
from jobwire.coordination.sessions.states import UNWANTED, EndedBy, SessionState
from jobwire.coordination.sessions.stored import NOT_HANDED, OPENING, SessionRow
from jobwire.coordination.store import CoordinationStore
from jobwire.core.bounds import MAX_TITLE, check_line
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError, JobwireError
from jobwire.core.topics import check_agent
from jobwire.registry.store import RecordStore
from jobwire.runner.job_end import fail_job
from jobwire.runner.tmux import Tmux
from jobwire.sessions.known_agents import InstructionsBy, KnownAgent, known
from jobwire.sessions.launching import (
    Launch,
    adapted,
    agent_environment,
    check_directory,
    has_begun,
    launch_command,
    release,
    session_folder,
    withdraw,
    write_launch,
)
from jobwire.sessions.panes import NotNow, find_pane
from jobwire.storage.process_life import life_of
from jobwire.storage.settings_file import read_own_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobwire.runner.tmux import Pane, PaneSeen

OUTPUT = "output.log"
_BEGIN_SECONDS = 20.0
_LOOK_SECONDS = 0.01


class NewSession(NamedTuple):
    """What a session is opened with. `socket`: the name of a tmux server, None for the one that we are in."""

    name: str
    agent: KnownAgent
    command: Sequence[str]
    directory: str
    socket: str | None = None
    title: str = ""
    agent_id: str = ""
    idle_seconds: float | None = None
    idle_policy: str = "report"
    conversation: str = ""


def own_agents() -> dict[str, KnownAgent]:
    """Return the table of agents with the user's own lines. Raises ConfigError."""
    lines = read_own_settings(os.environ).get("sessions", "agents")
    return known([str(line) for line in lines] if isinstance(lines, list) else [])


def agent_of(row: SessionRow) -> KnownAgent:
    """Return what is known of a session's agent, by the table and by how it was opened."""
    found = own_agents().get(row.agent) or KnownAgent(row.agent, InstructionsBy.LINE, "")
    return found._replace(delivery=InstructionsBy(row.delivery))


def me() -> str:
    """Return this process as the inventory names openers: its number and which life of it."""
    return f"{os.getpid()}/{life_of(os.getpid())}"


def is_alive(opener: str) -> bool:
    """Tell whether the process that the inventory names as opener still runs."""
    pid, _, life = opener.partition("/")
    return pid.isdigit() and life_of(int(pid)) == life


class Opener:
    """Opens sessions of a home, and brings them back."""

    def __init__(self, home: str, *, environ: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.inventory = Inventory(CoordinationStore(home))
        self._environ = os.environ if environ is None else environ
        self._clock = SystemClock()

    def create(self, new: NewSession) -> SessionRow:
        """Open a session whose agent waits for work. Raises InvalidInputError, ConflictError, ConfigError."""
        row = self.reserve(new)
        return self.start(row, list(new.command), new.socket)

    def reserve(self, new: NewSession, *, job_id: str = "") -> SessionRow:
        """Write a new session's row, which has no pane yet. Raises InvalidInputError, ConflictError."""
        name = check_session_name(new.name)
        check_line("title", new.title, MAX_TITLE, empty=True)
        Tmux(socket=new.socket).version()
        found = self.inventory.find(name)
        if found is not None and found.standing is SessionState.STOPPED and not found.once:
            raise ConflictError(
                f"session {name} is stopped, with its conversation",
                hint=f"`jobwire sessions resume {name}`, or `stop --hard` gives it up",
                code="duplicate_id",
            )
        return self.inventory.begin(
            SessionRow(
                name,
                SessionState.RUNNING,
                new.agent.name,
                new.agent.delivery,
                _agent_id(new.agent_id, name),
                new.title,
                json.dumps([str(word) for word in new.command]),
                check_directory(new.directory),
                "",
                job_id=job_id,
                handing=OPENING,
                opener=me(),
                conversation=new.conversation,
                idle_seconds=new.idle_seconds,
                idle_policy=new.idle_policy,
            )
        )

    def start(
        self,
        row: SessionRow,
        command: list[str],
        socket: str | None = None,
        *,
        first: Callable[[], object] = lambda: None,
    ) -> SessionRow:
        """Start the agent of a reserved row in a pane; the row ends where that fails. Raises ConfigError.

        The pane is made at once, the agent begins when `first` has returned.
        """
        try:
            tmux = Tmux.at(row.socket) if row.socket else Tmux(socket=socket)
            return self._start(row, command, tmux, first)
        except BaseException as error:
            self.inventory.end(
                row.name, SessionState.TERMINATED, by=EndedBy.HARD, reason=f"it could not be opened: {error}"
            )
            raise

    def resume(self, name: str) -> SessionRow:
        """Bring a session back: its agent in its directory, in its conversation where that is known.

        One whose pane is there is left as it is. Raises NotFoundError, ConflictError, ConfigError.
        """
        row = self.inventory.get(name)
        if row.pane and not isinstance(find_pane(Tmux.at(row.socket), row), NotNow):
            return self._back_on_the_list(row)
        if row.job_id:
            raise ConflictError(
                f"job {row.job_id} is not over yet", hint="`jobwire sessions reconcile` first", code="locked"
            )
        check_directory(row.directory)

        def reserve(found: SessionRow) -> SessionRow:
            if found.state != row.state or found.opener:
                raise ConflictError(f"somebody else opens session {name}", hint="try again", code="locked")
            return found._replace(
                state=SessionState.RUNNING, ended_by="", reason="", handing=OPENING, opener=me(), pane=""
            )

        reserved = self.inventory.change(name, reserve, said=f"session {name} is opened again")
        agent = own_agents().get(row.agent)
        words = agent.resumed(row.conversation) if agent is not None else []
        return self.start(reserved, words or row.words)

    def resume_all(self) -> list[SessionRow]:
        """Bring back what ran when its tmux server or the machine went down; return what was brought back.

        Raises the last error where some could not be.
        """
        back, failed = [], None
        for row in self.inventory.rows():
            lost = row.standing is SessionState.TERMINATED and row.ended_by in UNWANTED
            gone = row.standing is SessionState.RUNNING and not row.opener and self._is_gone(row)
            if not lost and not gone:
                continue
            try:
                if row.job_id:
                    cause = f"session {row.name} was gone, and is opened again"
                    fail_job(RecordStore(self.home), row.job_id, cause)
                    self.inventory.free(row.name, row.job_id)
                back.append(self.resume(row.name))
            except JobwireError as error:
                failed = error
        if failed is not None:
            raise failed
        return back

    def _is_gone(self, row: SessionRow) -> bool:
        return isinstance(find_pane(Tmux.at(row.socket), row), NotNow)

    def _back_on_the_list(self, row: SessionRow) -> SessionRow:
        if row.standing is SessionState.RUNNING:
            return row
        return self.inventory.change(
            row.name,
            lambda found: found._replace(state=SessionState.RUNNING, ended_by="", reason=""),
            said=f"session {row.name} is back on the list",
        )

    def _start(
        self, row: SessionRow, command: list[str], tmux: Tmux, first: Callable[[], object]
    ) -> SessionRow:
        environment = agent_environment(
            self._environ, home=self.home, session=row.name, agent_id=row.agent_id
        )
        launch = adapted(
            Launch(row.agent, command, environment, row.directory, row.name, self.home, row.conversation)
        )
        path = write_launch(launch)
        try:
            pane = tmux.open_window(
                row.name, row.agent, launch_command(path), directory=Path(launch.directory), new=True
            )
            tmux.record(pane.pane, session_folder(self.home, row.name) / OUTPUT)
            seen = tmux.look(pane.pane)
            first()
            release(path)
            life = self._begun(path, pane.pid)
        except BaseException:
            withdraw(path)
            raise
        return self.inventory.change(
            row.name,
            lambda found: in_pane(found, pane, seen, life)._replace(
                # A job's instructions come next; without one the session is open.
                handing=found.handing if found.job_id else NOT_HANDED,
                opener=found.opener if found.job_id else "",
            ),
            said=f"session {row.name} runs in pane {pane.pane}",
        )

    def _begun(self, path: Path, pid: int) -> str:
        life = life_of(pid)
        until = self._clock.monotonic() + _BEGIN_SECONDS
        while not has_begun(path, pid):
            if self._clock.monotonic() > until:
                raise ConfigError("the agent did not start in time", hint="look into its pane")
            self._clock.sleep(_LOOK_SECONDS)
        if not life or life_of(pid) != life:
            raise ConfigError("the agent ended at once", hint="start it by hand to see why")
        return life


def in_pane(row: SessionRow, pane: Pane, seen: PaneSeen | None, life: str) -> SessionRow:
    """Return the session as one that runs in this pane."""
    server = seen.server if seen is not None else ""
    return row._replace(socket=pane.socket, pane=pane.pane, pid=pane.pid, life=life, server=server)


def _agent_id(wanted: str, session: str) -> str:
    if wanted:
        return check_agent(wanted)
    try:
        return check_agent(session)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{session!r} is no name for an agent's inbox", hint="--as NAME gives it another"
        ) from error
