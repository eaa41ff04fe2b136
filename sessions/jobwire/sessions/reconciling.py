"""Tmux, inventory and jobs brought together: what is found is carried out, each under a second look.

One call a tmux server for all its panes; none where nothing lives. What jobwire did not make is not touched.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.sessions.inventory import Inventory, freed
from jobwire.coordination.sessions.names import folder_name
from jobwire.coordination.sessions.reconcile import Facts, PaneFact, Remedy, SessionFinding, judge
from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.sessions.stored import HANDED, SessionRow
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError, JobwireError
from jobwire.registry.store import RecordStore
from jobwire.runner.job_end import fail_job
from jobwire.runner.tmux import Tmux
from jobwire.sessions.freeing import free_session
from jobwire.sessions.job_of_session import renew_lease, see_job
from jobwire.sessions.opening import Opener, is_alive
from jobwire.sessions.sending import Sender
from jobwire.sessions.stopping import StopHow, Stopping
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.process_life import boot, life_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jobwire.runner.tmux import PaneSeen

SOURCE = "sessions"
_STILL_THERE = (
    "Are you still at work? Say what you do, or end the job: jobwire inbox and publish_event tell others."
)
_BY = "idle limit"


class Carried(NamedTuple):
    """A finding, and whether it was carried out."""

    finding: SessionFinding
    done: bool
    error: str = ""

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {**self.finding.to_json(), "done": self.done, "error": self.error}


class Reconciler:
    """Looks at the sessions of a home, and puts right what it finds."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.inventory = Inventory(CoordinationStore(home))

    def look(self, only: str | None = None) -> list[tuple[SessionRow, SessionFinding]]:
        """Return what is found, of all sessions or one; changes nothing."""
        rows = [row for row in self._rows(only) if row.state in {"running", "archived"}]
        if not rows:
            return []
        facts = self._facts(rows)
        return [(row, finding) for row in rows for finding in judge(row, facts)]

    def run(self, only: str | None = None) -> list[Carried]:
        """Look, and carry out what is found. Raises StorageError, ConfigError where nothing can be seen."""
        return [self._carry_out(row, finding) for row, finding in self.look(only)]

    def renew(self) -> None:
        """Renew the leases of the jobs whose sessions live; called now and then, after a look."""
        for row in self.inventory.rows(SessionState.RUNNING):
            if row.job_id and row.pane and life_of(row.pid) == row.life:
                with suppress(JobwireError):
                    renew_lease(self.home, row.job_id, row.name)

    def _rows(self, only: str | None) -> list[SessionRow]:
        if only is None:
            return self.inventory.rows()
        row = self.inventory.find(only)
        return [] if row is None else [row]

    def _facts(self, rows: list[SessionRow]) -> Facts:
        found = {socket: Tmux.at(socket).panes() for socket in {row.socket for row in rows if row.socket}}
        jobs = {row.job_id: see_job(self.home, row.job_id) for row in rows if row.job_id}
        return Facts(
            now=time.time(),
            boot=boot(),
            panes={
                (socket, seen.pane): PaneFact(seen.pid, life_of(seen.pid), seen.activity)
                for socket, panes in found.items()
                for seen in panes.values()
                if not seen.dead
            },
            servers={socket: seen.server for socket, panes in found.items() for seen in panes.values()},
            jobs={name: job for name, job in jobs.items() if job is not None},
            openers=frozenset(row.opener for row in rows if row.opener and is_alive(row.opener)),
            strays=self._strays(rows, found),
        )

    def _strays(
        self, rows: Iterable[SessionRow], found: Mapping[str, Mapping[str, PaneSeen]]
    ) -> dict[str, Collection[str]]:
        """Return the panes opened for a session whose opener was killed before it could note them."""
        begun = [row for row in rows if row.opener]
        strays: dict[str, Collection[str]] = {}
        for row in begun:
            mark = os.path.join(
                os.path.realpath(HomePaths(self.home).session_path()), folder_name(row.name), "launch-"
            )
            panes = found.get(row.socket) or Tmux(socket=None).panes()
            strays[row.name] = [seen.pane for seen in panes.values() if mark in seen.start_command]
        return strays

    def _carry_out(self, row: SessionRow, finding: SessionFinding) -> Carried:
        try:
            if finding.remedy is Remedy.FREE:
                return self._free(row, finding)
            return Carried(finding, self._do(row, finding))
        except JobwireError as error:
            return Carried(finding, done=False, error=error.message)

    def _do(self, row: SessionRow, finding: SessionFinding) -> bool:
        """Do what is to be done; False where the session is no longer as it was seen."""
        name, remedy = row.name, finding.remedy
        if remedy is Remedy.FAIL_JOB:
            cause = f"session {name}: {finding.text.partition(':')[0]}"
            return fail_job(RecordStore(self.home), finding.job_id, cause)
        if remedy is Remedy.CLOSE_PANE:
            (Tmux.at(row.socket) if row.socket else Tmux()).close_pane(finding.pane)
            return True
        if remedy is Remedy.NOTE_HANDED:
            return self._change(row, row._replace(handing=HANDED, opener=""), finding)
        if remedy in {Remedy.TERMINATE, Remedy.NOTE_STOPPED}:
            state = SessionState.TERMINATED if remedy is Remedy.TERMINATE else SessionState.STOPPED
            after = freed(row)._replace(
                state=state, pane="", pid=0, life="", ended_by=finding.ended_by, reason=finding.text
            )
            return self._change(row, after, finding)
        return self._about_idle(row, finding)

    def _free(self, row: SessionRow, finding: SessionFinding) -> Carried:
        told = finding

        def note(said: str) -> bool:
            nonlocal told
            told = finding._replace(text=said) if row.job_id else finding
            return self._change(row, freed(row), told)

        done = free_session(self.home, row, note)
        return Carried(told, done)

    def _about_idle(self, row: SessionRow, finding: SessionFinding) -> bool:
        # Noted first: killed in between, it is not done twice.
        told = row._replace(idle_told_ms=int(time.time() * 1000))
        restarts = finding.remedy is Remedy.RESTART
        if not self._change(row, told._replace(restarts=row.restarts + restarts), finding):
            return False
        if finding.remedy is Remedy.ASK:
            return Sender(self.home).send(row.name, _STILL_THERE).word in {"confirmed", "sent"}
        if finding.remedy in {Remedy.STOP, Remedy.RESTART}:
            stopping = Stopping(self.home)
            try:
                stopping.stop(row.name, by=_BY)
            except ConflictError:
                stopping.stop(row.name, StopHow.HARD, by=_BY)
        if restarts:
            Opener(self.home).resume(row.name)
        return True

    def _change(self, seen: SessionRow, after: SessionRow, finding: SessionFinding) -> bool:
        """Change the row, where it is still as it was seen; tell whether it was."""
        done = False

        def edit(row: SessionRow) -> SessionRow:
            nonlocal done
            # What a command did since the look goes before. Its conversation may have been noted meanwhile.
            done = row._replace(conversation=seen.conversation, changed_ms=seen.changed_ms) == seen
            return after._replace(conversation=row.conversation) if done else row

        said = f"session {seen.name}: {finding.text}"
        self.inventory.change(seen.name, edit, said=said, source=SOURCE)
        return done
