"""What a hook works with: which job it is in, as whom, and by which rules."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import SystemClock
from jobwire.core.topics import is_job_id
from jobwire.hooks.voice import Voice
from jobwire.publisher.build import attempt_in
from jobwire.publisher.variables import ENV_JOB
from jobwire.storage.home import find_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobwire.coordination.sessions.inventory import Inventory
    from jobwire.hooks.kinds import HookKind
    from jobwire.hooks.policy import Policy
    from jobwire.hooks.signs import Said

ENV_AGENT, ENV_SESSION = "JOBWIRE_AGENT", "JOBWIRE_SESSION"
# Of one launch: the process ends with its turn, and gives the verdict; permissions wait for a person, either
# in the hook, so that nobody can answer at the pane meanwhile, or at the agent's own server, beside the pane.
ENV_ENDS, ENV_HOLD = "JOBWIRE_AGENT_ENDS", "JOBWIRE_APPROVE_REMOTELY"
HELD, SERVED = "held", "served"


class AgentPlace(NamedTuple):
    """Where an agent with a name is told of messages, in a job or between two."""

    home: str
    agent: str
    folder: str

    @property
    def mark(self) -> str:
        """Return the file that says who waits behind the agent's last turn."""
        return os.path.join(self.folder, "idle")  # noqa: PTH118 - start-up

    def end_waiting(self) -> None:
        """Let nobody wait behind the agent's last turn any more: it is at work."""
        with suppress(OSError):
            os.unlink(self.mark)  # noqa: PTH108 - start-up


class Desk:
    """One call of one hook; none of it is looked up before it is needed."""

    def __init__(self, kind: HookKind, home: str, job_id: str, environ: Mapping[str, str]) -> None:
        self.kind = kind
        self.home = home
        self.environ = environ
        self.clock = SystemClock()
        attempt = attempt_in(environ, job_id) if environ.get(ENV_JOB) == job_id else None
        self.voice = Voice(home, job_id, attempt=attempt, environ=environ, clock=self.clock)
        # Its name in the inbox; "" for none.
        self.agent = environ.get(ENV_AGENT, "")
        # Who runs a process that ends with its turn gives the verdict.
        self.ends_with_its_turn = bool(environ.get(ENV_ENDS))
        # In a session whoever gives the work says `started`.
        self.begins_the_job = bool(environ.get(ENV_JOB))
        # Whether a hook may wait for a person.
        self.waits = kind.waits or environ.get(ENV_HOLD) == HELD
        # The agent's own server asks, and can wake it.
        self.is_served = kind.name == "codex" and environ.get(ENV_HOLD) == SERVED
        # Whether it can be told to go on once its turn is over.
        self.wakes = kind.wakes or self.is_served

    @property
    def folder(self) -> str:
        """Return where something of the conversation may be kept."""
        session = self.environ.get(ENV_SESSION)
        if self.begins_the_job or not session:
            return self.voice.folder
        return _session_folder(self.home, session)

    @cached_property
    def policy(self) -> Policy:
        """Return the user's rules."""
        from jobwire.hooks.policy import own_policy  # noqa: PLC0415 - what a tool did needs no rules

        return own_policy(self.environ)


def has_store(home: str) -> bool:
    """Tell whether there is anything of agents in a home."""
    return os.path.exists(os.path.join(home, "coordination.db"))  # noqa: PTH110,PTH118 - start-up


def place_of(environ: Mapping[str, str], *, home: str | None = None) -> AgentPlace | None:
    """Return where the agent that this runs in is told of messages; None where it has no name."""
    agent, job_id, session = (environ.get(name, "") for name in (ENV_AGENT, ENV_JOB, ENV_SESSION))
    if not agent or not (is_job_id(job_id) or session):
        return None
    place = find_home(home, environ)
    folder = f"{place}/logs/{job_id}" if is_job_id(job_id) else _session_folder(place, session)
    return AgentPlace(place, agent, folder)


def _session_folder(home: str, session: str) -> str:
    from jobwire.coordination.sessions.names import folder_name  # noqa: PLC0415 - of a session only
    from jobwire.storage.home_paths import HomePaths  # noqa: PLC0415 - as above

    return HomePaths(home).session_path(folder_name(session))


def open_desk(kind: HookKind, environ: Mapping[str, str], *, home: str | None = None) -> Desk | None:
    """Return the desk of the job that this runs in; None outside of any. Raises as `find_home`."""
    job_id = environ.get(ENV_JOB, "")
    place = find_home(home, environ) if job_id or environ.get(ENV_SESSION) else ""
    if place and not job_id:
        # A session's agent has one job after another.
        with _inventory(place) as inventory:
            row = inventory.find(environ[ENV_SESSION])
        job_id = row.job_id if row is not None else ""
    if not is_job_id(job_id):
        return None
    return Desk(kind, place, job_id, environ)


def note_conversation(environ: Mapping[str, str], said: Said, *, home: str | None = None) -> None:
    """Keep the agent's own id of its conversation, which `jobwire sessions resume` goes on with."""
    with _inventory(find_home(home, environ)) as inventory:
        row = inventory.find(environ[ENV_SESSION])
        if row is not None and said.conversation and row.conversation != said.conversation:
            inventory.note_conversation(row.name, said.conversation)


@contextmanager
def _inventory(home: str) -> Iterator[Inventory]:
    from jobwire.coordination.sessions.inventory import Inventory  # noqa: PLC0415 - of a session only
    from jobwire.coordination.store import CoordinationStore  # noqa: PLC0415 - as above

    with closing(CoordinationStore(home)) as store:
        yield Inventory(store)
