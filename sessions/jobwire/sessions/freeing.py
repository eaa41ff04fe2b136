"""A session whose job is over takes the next one; where that was cancelled its agent is interrupted, once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jobwire.core.errors import JobwireError
from jobwire.jobs.lifecycle import Status
from jobwire.runner.tmux import Tmux
from jobwire.sessions.job_of_session import see_job
from jobwire.sessions.launching import session_folder
from jobwire.sessions.opening import OUTPUT, agent_of
from jobwire.sessions.panes import NotNow, find_pane, pane_held
from jobwire.storage.process_life import see

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.sessions.stored import SessionRow


def free_session(home: str, row: SessionRow, note: Callable[[str], bool]) -> bool:
    """Free a session that lives: `note` writes that down in these words, and tells whether it did.

    Noted before the key is pressed: killed in between, it is not pressed twice. Under the pane's lock: the
    next job's instructions come after it.
    """
    with pane_held(home, row):
        key = _interrupt(home, row)
        said = f"job {row.job_id} is over: free"
        if not note(f"job {row.job_id} was cancelled: its agent is interrupted ({key})" if key else said):
            return False
        if key:
            Tmux.at(row.socket).press(row.pane, key)
    record_session(home, row)
    return True


def record_session(home: str, row: SessionRow) -> None:
    """Let the pane's output go to the session's log again: its job's log is whole."""
    with suppress(JobwireError, OSError):
        Tmux.at(row.socket).record(row.pane, session_folder(home, row.name) / OUTPUT)


def _interrupt(home: str, row: SessionRow) -> str:
    """Return the key that interrupts the agent; empty where it is not to be pressed, or not now."""
    job = see_job(home, row.job_id) if row.job_id and row.pane else None
    key = agent_of(row).interrupt if job is not None and job.status == Status.CANCELLED else ""
    if not key:
        return ""
    seen = find_pane(Tmux.at(row.socket), row)
    if isinstance(seen, NotNow) or seen.in_mode:
        return ""
    process = see(seen.pid)
    return key if process is not None and process.in_foreground else ""
