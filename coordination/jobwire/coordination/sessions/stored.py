"""Sessions as the store gives them back, and as JSON."""

from __future__ import annotations

import json
from typing import NamedTuple

from jobwire.coordination.sessions.states import SessionState
from jobwire.core.clock import utc_timestamp

# How far a job's instructions are on their way into the pane.
# Where an agent is started once a job: how it gets its instructions.
ONCE_A_JOB = frozenset({"stdin", "argument", "file"})
# What commands print as it is: the command that starts the agent may hold secrets, and stays.
_PRINTED = (
    *("name", "state", "agent", "delivery", "agent_id", "title", "directory", "socket", "pane", "pid"),
    *("job_id", "conversation", "idle_seconds", "idle_policy", "restarts", "ended_by", "reason"),
)
NOT_HANDED, OPENING, HANDING, HANDED = "", "opening", "handing", "handed"


class SessionRow(NamedTuple):
    """One session, in the order of the queries' columns.

    `pid` and `life` are the pane's process and which one of that number; `server` is which run of the tmux
    server. `handing` tells how far the instructions of `job_id` are, and `opener` which process is at it.
    """

    name: str
    state: str
    agent: str
    delivery: str
    agent_id: str
    title: str
    command: str
    directory: str
    socket: str
    pane: str = ""
    pid: int = 0
    life: str = ""
    server: str = ""
    job_id: str = ""
    handing: str = NOT_HANDED
    opener: str = ""
    conversation: str = ""
    idle_seconds: float | None = None
    idle_policy: str = "report"
    restarts: int = 0
    idle_told_ms: int = 0
    created_ms: int = 0
    changed_ms: int = 0
    ended_by: str = ""
    reason: str = ""

    @property
    def standing(self) -> SessionState:
        """Return its state."""
        return SessionState(self.state)

    @property
    def once(self) -> bool:
        """Tell whether its agent is started once a job."""
        return self.delivery in ONCE_A_JOB

    @property
    def words(self) -> list[str]:
        """Return the command that starts its agent."""
        return [str(word) for word in json.loads(self.command)]

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it; times as ISO 8601 UTC."""
        return {
            **{name: getattr(self, name) for name in _PRINTED},
            "created_at": utc_timestamp(self.created_ms / 1000),
            "changed_at": utc_timestamp(self.changed_ms / 1000),
        }
