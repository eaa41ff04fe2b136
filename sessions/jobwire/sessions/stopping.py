"""Ending sessions: in good order, by force, or only on the list."""

from __future__ import annotations

import signal
from enum import StrEnum
from typing import TYPE_CHECKING

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.states import EndedBy, SessionState, check_step
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError
from jobwire.registry.store import RecordStore
from jobwire.runner.job_end import cancel_job
from jobwire.runner.tmux import Tmux
from jobwire.sessions.opening import is_alive, me, own_agents
from jobwire.sessions.panes import NotNow, examine, find_pane, pane_held
from jobwire.sessions.sending import Sender
from jobwire.storage.process_life import ended_within, send_to

if TYPE_CHECKING:
    from jobwire.coordination.sessions.stored import SessionRow

QUIT_SECONDS = 10.0
_TERM_SECONDS = 5.0
_KILL_SECONDS = 5.0


class StopHow(StrEnum):
    """How a session is ended."""

    GRACEFUL = "graceful"
    HARD = "hard"
    SOFT = "soft"


class Stopping:
    """Ends sessions of a home."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.inventory = Inventory(CoordinationStore(home))

    def stop(
        self, name: str, how: StopHow = StopHow.GRACEFUL, *, by: str = "", quit_seconds: float = QUIT_SECONDS
    ) -> SessionRow:
        """End a session, and return it as it is then. A job that it works on is cancelled, but with SOFT.

        Raises NotFoundError, TransitionError for one that has ended so already, ConflictError where its agent
        does not end in good order.
        """
        row = self.inventory.get(name)
        said = f"by {by}" if by else "on request"
        if how is StopHow.SOFT:
            return self.inventory.end(
                name, SessionState.ARCHIVED, by=EndedBy.SOFT, reason=f"left alive {said}"
            )
        hard = how is StopHow.HARD
        after = SessionState.TERMINATED if hard else SessionState.STOPPED
        check_step(name, row.standing, after)
        row = self._begin(row, hard=hard)
        try:
            if row.job_id:
                cancel_job(RecordStore(self.home), row.job_id, f"its session {name} is stopped")
            if row.pane:
                self._end_process(row, hard=hard, quit_seconds=quit_seconds)
        except BaseException:
            self.inventory.change(name, lambda found: found._replace(opener=""))
            raise
        ended_by = EndedBy.HARD if hard else EndedBy.STOP
        return self.inventory.end(name, after, by=ended_by, reason=f"{how} stop {said}")

    def _begin(self, row: SessionRow, *, hard: bool) -> SessionRow:
        """Note that this process is at it: until it is through, nobody else judges the session."""

        def edit(found: SessionRow) -> SessionRow:
            if not hard and found.opener and is_alive(found.opener):
                raise ConflictError(
                    f"process {found.opener.partition('/')[0]} is at work on session {row.name}",
                    hint="wait for it, or --hard",
                    code="locked",
                )
            return found._replace(opener=me())

        return self.inventory.change(row.name, edit)

    def _end_process(self, row: SessionRow, *, hard: bool, quit_seconds: float) -> None:
        """End what runs in the pane; nothing where the pane is not the one that was made."""
        tmux = Tmux.at(row.socket)
        if isinstance(find_pane(tmux, row), NotNow):
            return
        if not hard and self._quits(tmux, row, quit_seconds):
            return
        if not hard:
            send_to(row.pid, row.life, signal.SIGTERM)
            if ended_within(row.pid, row.life, _TERM_SECONDS):
                return
            raise ConflictError(
                f"the agent of session {row.name} did not end",
                hint=f"`jobwire sessions stop --hard {row.name}` kills it; `sessions attach` shows it",
                code="not_expected",
            )
        tmux.close_pane(row.pane)
        if not ended_within(row.pid, row.life, _TERM_SECONDS):
            send_to(row.pid, row.life, signal.SIGKILL, group=True)
            ended_within(row.pid, row.life, _KILL_SECONDS)

    def _quits(self, tmux: Tmux, row: SessionRow, seconds: float) -> bool:
        """Ask the agent to end as a person at its pane would; tell whether it did."""
        agent = own_agents().get(row.agent)
        if agent is None or not agent.quit:
            return False
        with pane_held(self.home, row):
            if isinstance(examine(tmux, row), NotNow):
                return False
            if agent.quit_keys:
                tmux.press(row.pane, *agent.quit_keys)
            else:
                Sender(self.home).write(row, agent.quit)
        return ended_within(row.pid, row.life, seconds)
