"""`jobwire top`: the sessions in which agents live, one of them with the last lines of its pane."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType

from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import JobwireError
from jobwire.core.override import override
from jobwire.core.terminal_text import fit, one_line
from jobwire.dashboard.coordination.sessions import LINES, resume_session, stop_session
from jobwire.dashboard.coordination.store_screen import Line, StoreScreen
from jobwire.dashboard.fleet import words
from jobwire.sessions.listing import Sessions, SessionView
from jobwire.sessions.stopping import StopHow

_STYLES = {"running": "cyan", "stopped": "dim", "terminated": "red", "archived": "dim"}


class SessionsScreen(StoreScreen):
    """Sessions, those that run first; stopped and brought back by a key, pressed twice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,t,backspace", "dismiss", "Back"),
        ("up,k", "move(-1)", "Up"),
        ("down,j", "move(1)", "Down"),
        ("x", "ask('stop')", "Stop"),
        ("r", "ask('resume')", "Resume"),
    ]
    scrolls = False

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._views: list[SessionView] = []
        self._chosen = ""
        self._asked = ("", "")

    def action_move(self, step: int) -> None:
        """Choose the next session, or the one before."""
        names = [view.row.name for view in self._views]
        if names:
            place = names.index(self._chosen) if self._chosen in names else -step
            self._chosen = names[max(0, min(len(names) - 1, place + step))]
        self._asked = ("", "")
        self.draw()

    def action_ask(self, what: str) -> None:
        """Do it where it is asked for the second time; else say so."""
        if not self._chosen:
            return
        if self._asked != (what, self._chosen):
            self._asked = (what, self._chosen)
            self.draw()
            return
        self._asked = ("", "")
        do: Callable[[], object] = partial(resume_session, str(self.home), self._chosen)
        if what == "stop":
            do = partial(stop_session, str(self.home), self._chosen, StopHow.GRACEFUL.value, by="top")
        # An agent may take its time to end.
        self.run_worker(partial(self._do, what, self._chosen, do), thread=True, exit_on_error=False)

    def _do(self, what: str, name: str, do: Callable[[], object]) -> None:
        try:
            do()
        except JobwireError as error:
            self.app.call_from_thread(self.notify, str(error), severity="error", markup=False)
        else:
            self.app.call_from_thread(self.notify, f"{what}: session {name}", markup=False)
        self.app.call_from_thread(self.draw)

    @override
    def lines(self, store: CoordinationStore | None) -> Iterable[Line]:
        """Return the sessions, the chosen one with its pane."""
        found = [] if store is None else Sessions(str(self.home)).list(lines=LINES, everything=True)
        found.sort(key=lambda view: (view.row.state != "running", view.row.name))
        self._views = found
        if found and self._chosen not in {view.row.name for view in found}:
            self._chosen = found[0].row.name
        return session_lines(found, self._chosen, self._asked, self.size.width - 4)


def session_lines(
    views: Sequence[SessionView], chosen: str, asked: tuple[str, str], width: int
) -> Iterator[Line]:
    """Yield the sessions as lines with their styles, safe on a terminal; the chosen one with its pane."""
    if not views:
        yield "no sessions: jobwire sessions create NAME --agent claude", ""
        return
    yield f"  {'SESSION':<16} {'STATE':<10} {'AGENT':<10} {'JOB':<8} {'SILENT':>7}  TITLE", "dim"
    for view in views:
        row = view.row
        mark = "›" if row.name == chosen else " "  # noqa: RUF001 - a pointer
        job = row.job_id if view.job is None or not view.job.attention else f"{row.job_id} asks"
        silent = "" if view.idle_for_seconds is None else words(view.idle_for_seconds)
        name, agent = fit(one_line(row.name, 16), 16), one_line(row.agent, 10)
        state = row.state if view.alive or row.state != "running" else "gone?"
        what = one_line(row.title or row.reason, max(8, width - 60))
        yield (
            f"{mark} {name:<16} {state:<10} {agent:<10} {job:<8} {silent:>7}  {what}".rstrip(),
            _STYLES[row.state],
        )
        if row.name == chosen:
            yield from _chosen_lines(view, asked, width)


def _chosen_lines(view: SessionView, asked: tuple[str, str], width: int) -> Iterator[Line]:
    if asked[1] == view.row.name:
        key = {"stop": "x", "resume": "r"}[asked[0]]
        yield f"    {asked[0]} {one_line(view.row.name, 40)}? {key} again does it", "bold yellow"
    if view.attach:
        yield f"    {one_line(view.attach, width - 4)}", "dim"
    for line in view.lines:
        yield f"    │ {fit(line, max(20, width - 6))}", ""
