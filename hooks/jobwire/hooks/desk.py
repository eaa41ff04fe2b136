"""What a hook works with: which job it is in, as whom, and by which rules."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import SystemClock
from jobwire.core.topics import is_job_id
from jobwire.hooks.voice import Voice
from jobwire.publisher.build import attempt_in
from jobwire.publisher.variables import ENV_JOB
from jobwire.storage.home import find_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.hooks.kinds import HookKind
    from jobwire.hooks.policy import Policy

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


class Desk:
    """One call of one hook; none of it is looked up before it is needed."""

    def __init__(self, kind: HookKind, home: str, job_id: str, environ: Mapping[str, str]) -> None:
        self.kind = kind
        self.home = home
        self.environ = environ
        self.clock = SystemClock()
        attempt = attempt_in(environ, job_id) if environ.get(ENV_JOB) == job_id else None
        self.voice = Voice(home, job_id, attempt=attempt, environ=environ, clock=self.clock)

    @property
    def agent(self) -> str:
        """Return the agent's name in the inbox; "" for none."""
        return self.environ.get(ENV_AGENT, "")

    @property
    def ends_with_its_turn(self) -> bool:
        """Tell whether the agent's process ends with its turn: who runs it gives the verdict."""
        return bool(self.environ.get(ENV_ENDS))

    @property
    def folder(self) -> str:
        """Return where something of the conversation may be kept."""
        session = self.environ.get(ENV_SESSION)
        if self.begins_the_job or not session:
            return self.voice.folder
        return _session_folder(self.home, session)

    @property
    def begins_the_job(self) -> bool:
        """Tell whether `started` is ours to say: in a session it is whoever gives the work."""
        return bool(self.environ.get(ENV_JOB))

    @property
    def waits(self) -> bool:
        """Tell whether a hook may wait for a person."""
        return self.kind.waits or self.environ.get(ENV_HOLD) == HELD

    @property
    def is_served(self) -> bool:
        """Tell whether the agent's own server asks, and can wake it."""
        return self.kind.name == "codex" and self.environ.get(ENV_HOLD) == SERVED

    @property
    def wakes(self) -> bool:
        """Tell whether the agent can be told to go on once its turn is over."""
        return self.kind.wakes or self.is_served

    @cached_property
    def policy(self) -> Policy:
        """Return the user's rules."""
        from jobwire.hooks.own_policy import own_policy  # noqa: PLC0415 - what a tool did needs no rules

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
        from jobwire.hooks.session import job_of  # noqa: PLC0415 - a session's agent has one job after another

        job_id = job_of(place, environ[ENV_SESSION])
    if not is_job_id(job_id):
        return None
    return Desk(kind, place, job_id, environ)
