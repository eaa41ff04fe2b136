"""What a session may be, and what may follow what. Pure.

A session is a container for an agent; a job is delegated work, with a lifecycle of its own (jobs.lifecycle).
"""

from enum import StrEnum

from jobwire.core.errors import TransitionError


class SessionState(StrEnum):
    """Where a session stands."""

    RUNNING = "running"
    # Ended in good order; its conversation is kept.
    STOPPED = "stopped"
    # Killed, or found gone.
    TERMINATED = "terminated"
    # Left alive, and off the list.
    ARCHIVED = "archived"


class EndedBy(StrEnum):
    """What ended a session: `resume --all` brings back what nobody wanted to end."""

    NOBODY = ""
    STOP = "stop"
    HARD = "hard"
    SOFT = "soft"
    # Its process ended by itself, after its job.
    ITSELF = "itself"
    # Its pane, its tmux server, or the machine's run was gone.
    PANE = "pane"
    SERVER = "server"
    REBOOT = "reboot"


class IdlePolicy(StrEnum):
    """What is done with an agent that is silent for longer than its limit."""

    REPORT = "report"
    ASK = "ask"
    STOP = "stop"
    RESTART = "restart"


FINAL = frozenset({SessionState.STOPPED, SessionState.TERMINATED, SessionState.ARCHIVED})
UNWANTED = frozenset({EndedBy.SERVER, EndedBy.REBOOT})
_MAY_BECOME = {
    SessionState.RUNNING: FINAL,
    SessionState.STOPPED: frozenset({SessionState.RUNNING, SessionState.TERMINATED}),
    SessionState.TERMINATED: frozenset({SessionState.RUNNING}),
    SessionState.ARCHIVED: frozenset({SessionState.RUNNING, SessionState.STOPPED, SessionState.TERMINATED}),
}


def may_become(before: SessionState, after: SessionState) -> bool:
    """Tell whether a session may go from one state to the other."""
    return after in _MAY_BECOME[before]


def check_step(name: str, before: SessionState, after: SessionState) -> None:
    """Raise TransitionError where it may not."""
    if not may_become(before, after):
        raise TransitionError(
            f"session {name} is {before}: it cannot become {after}",
            hint=f"`jobwire sessions show {name}` shows it",
            code="illegal_transition",
        )
