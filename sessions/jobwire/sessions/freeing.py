"""A session whose job is over takes the next one; where that was cancelled its agent is interrupted, once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError
from jobwire.jobs.lifecycle import Status
from jobwire.runner.tmux import Tmux
from jobwire.sessions.job_of_session import see_job
from jobwire.sessions.launching import session_folder
from jobwire.sessions.opening import OUTPUT, agent_of
from jobwire.sessions.panes import NotNow, before_cursor, find_pane, is_typed, pane_held
from jobwire.storage.process_life import see

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.sessions.stored import SessionRow

_NONE = ("", "")
# An agent draws its prompt anew within a second; nobody else writes into the pane meanwhile.
_PUT_BACK_SECONDS = 3.0
_LOOK_SECONDS = 0.1


def free_session(home: str, row: SessionRow, note: Callable[[str], bool]) -> bool:
    """Free a session that lives: `note` writes that down in these words, and tells whether it did.

    Noted before the key is pressed: killed in between, it is not pressed twice. Under the pane's lock: the
    next job's instructions come after it.
    """
    with pane_held(home, row):
        key, clears = _keys(home, row)
        said = f"job {row.job_id} is over: free"
        if not note(f"job {row.job_id} was cancelled: its agent is interrupted ({key})" if key else said):
            return False
        if key:
            _interrupt(row, key, clears)
    record_session(home, row)
    return True


def record_session(home: str, row: SessionRow) -> None:
    """Let the pane's output go to the session's log again: its job's log is whole."""
    with suppress(JobwireError, OSError):
        Tmux.at(row.socket).record(row.pane, session_folder(home, row.name) / OUTPUT)


def _keys(home: str, row: SessionRow) -> tuple[str, str]:
    """Return the agent's `interrupt_keys`; none where they are not to be pressed, or not now."""
    job = see_job(home, row.job_id) if row.job_id and row.pane else None
    if job is None or job.status != Status.CANCELLED:
        return _NONE
    seen = find_pane(Tmux.at(row.socket), row)
    if isinstance(seen, NotNow) or seen.in_mode:
        return _NONE
    process = see(seen.pid)
    return agent_of(row).interrupt_keys if process is not None and process.in_foreground else _NONE


def _interrupt(row: SessionRow, key: str, clears: str) -> None:
    """Press the key; empty the prompt where the agent puts back there what it was told.

    Left there, it would stand before what the agent is told next. What a person had begun to type stays.
    """
    tmux, clock = Tmux.at(row.socket), SystemClock()
    before, lines = tmux.view(row.pane)
    typed = before is not None and is_typed(before_cursor(before, lines))
    tmux.press(row.pane, key)
    until = clock.monotonic() + _PUT_BACK_SECONDS
    while clears and not typed and clock.monotonic() < until:
        clock.sleep(_LOOK_SECONDS)
        seen, lines = tmux.view(row.pane)
        if seen is None:
            return
        if is_typed(before_cursor(seen, lines)):
            tmux.press(row.pane, clears)
            return
