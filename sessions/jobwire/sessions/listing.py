"""The sessions as people see them: inventory, job and the pane's last lines together."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import JobwireError
from jobwire.core.terminal_text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobwire.coordination.sessions.reconcile import JobFact
    from jobwire.coordination.sessions.stored import SessionRow
    from jobwire.runner.tmux import PaneSeen

_MAX_LINE = 400


class SessionView(NamedTuple):
    """One session. `alive`: its pane is there, with the process that was started in it."""

    row: SessionRow
    alive: bool = False
    job: JobFact | None = None
    idle_for_seconds: float | None = None
    lines: tuple[str, ...] = ()

    @property
    def attach(self) -> str:
        """Return the command line that shows the pane."""
        if not self.alive:
            return ""
        target = shlex.quote(f"={self.row.name}")
        return f"tmux -S {shlex.quote(self.row.socket)} attach -t {target}"

    def to_json(self) -> dict[str, object]:
        """Return it as commands and the page give it."""
        return {
            **self.row.to_json(),
            "alive": self.alive,
            "job_status": self.job.status if self.job is not None else "",
            "attention": self.job is not None and self.job.attention,
            "idle_for_seconds": self.idle_for_seconds,
            "attach": self.attach,
            "lines": list(self.lines),
        }


class Sessions:
    """Reads the sessions of a home; changes nothing."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.inventory = Inventory(CoordinationStore(home))

    def list(self, *, lines: int = 0, everything: bool = False) -> list[SessionView]:
        """Return those that run, or all; with `lines` the last ones of each pane. Two calls a server."""
        rows = self.inventory.rows(None if everything else SessionState.RUNNING)
        return views(self.home, rows, lines=lines)

    def show(self, name: str, *, lines: int = 10) -> SessionView:
        """Return one session; raises NotFoundError."""
        return views(self.home, [self.inventory.get(name)], lines=lines)[0]


def views(home: str, rows: Iterable[SessionRow], *, lines: int) -> list[SessionView]:
    """Return the sessions of the rows, in their order."""
    rows = list(rows)
    seen: dict[str, PaneSeen] = {}
    shown: dict[str, list[str]] = {}
    for socket in sorted({row.socket for row in rows if row.socket and row.pane}):
        here = [row for row in rows if row.socket == socket and row.pane]
        found, screens = _look(socket, here, lines)
        seen |= {row.name: found[row.pane] for row in here if _is_its(row, found.get(row.pane))}
        shown |= {row.name: screens.get(row.pane, []) for row in here if row.name in seen}
    now = time.time()
    return [
        SessionView(
            row,
            alive=row.name in seen,
            job=_job(home, row),
            idle_for_seconds=round(max(0.0, now - seen[row.name].activity), 1) if row.name in seen else None,
            lines=_last(shown.get(row.name, []), lines),
        )
        for row in rows
    ]


def _look(
    socket: str, rows: list[SessionRow], lines: int
) -> tuple[dict[str, PaneSeen], dict[str, list[str]]]:
    from jobwire.runner.tmux import Tmux  # noqa: PLC0415 - brings processes, and where nothing runs none is needed

    try:
        tmux = Tmux.at(socket)
        found = tmux.panes()
        alive = [row.pane for row in rows if _is_its(row, found.get(row.pane))]
        return found, tmux.screens(alive) if lines else {}
    except JobwireError:
        return {}, {}  # no tmux any more, or one that hangs: nothing is seen


def _is_its(row: SessionRow, seen: PaneSeen | None) -> bool:
    return seen is not None and seen.runs(row.pid, row.life)


def _job(home: str, row: SessionRow) -> JobFact | None:
    if not row.job_id:
        return None
    from jobwire.sessions.job_of_session import see_job  # noqa: PLC0415 - brings the registry

    try:
        return see_job(home, row.job_id)
    except JobwireError:
        return None


def _last(screen: list[str], lines: int) -> tuple[str, ...]:
    kept = [safe(line.rstrip())[:_MAX_LINE] for line in screen]
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept[-lines:]) if lines else ()
