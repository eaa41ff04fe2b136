"""`jobwire top`: the sessions in which agents live, one of them with the last lines of its pane."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from jobwire.core.errors import JobwireError, StorageError
from jobwire.core.override import override
from jobwire.core.terminal_text import fit, one_line
from jobwire.dashboard.coordination.looking import looking
from jobwire.dashboard.coordination.sessions import LINES, resume_session, stop_session
from jobwire.dashboard.fleet import words
from jobwire.sessions.listing import Sessions, SessionView
from jobwire.sessions.stopping import StopHow

Line = tuple[str, str]
_STYLES = {"running": "cyan", "stopped": "dim", "terminated": "red", "archived": "dim"}


class SessionsScreen(Screen[None]):
    """Sessions, those that run first; stopped and brought back by a key, pressed twice. Read each second."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,t,backspace", "dismiss", "Back"),
        ("up,k", "move(-1)", "Up"),
        ("down,j", "move(1)", "Down"),
        ("x", "ask('stop')", "Stop"),
        ("r", "ask('resume')", "Resume"),
    ]
    CSS = "#sessions { padding: 0 1; }"

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self._views: list[SessionView] = []
        self._chosen = ""
        self._asked = ("", "")

    @override
    def compose(self) -> ComposeResult:
        """Lay out the text and the keys."""
        with VerticalScroll(can_focus=False):
            yield Static(id="sessions")
        yield Footer()

    def on_mount(self) -> None:
        """Draw, and again each second."""
        self.draw()
        self.set_interval(1.0, self.draw)

    def draw(self) -> None:
        """Write everything anew; never as markup, because texts come from agents."""
        body = Text(no_wrap=True, overflow="ellipsis")
        for text, style in self._lines():
            body.append(text + "\n", style)
        self.query_one("#sessions", Static).update(body)

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
        do: Callable[[], object] = partial(resume_session, self._home, self._chosen)
        if what == "stop":
            do = partial(stop_session, self._home, self._chosen, StopHow.GRACEFUL.value, by="top")
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

    def _lines(self) -> list[Line]:
        try:
            with looking(self._home) as store:
                found = [] if store is None else Sessions(str(self._home)).list(lines=LINES, everything=True)
        except StorageError as error:
            return [(f"cannot read: {one_line(error.message, 300)}", "red")]
        found.sort(key=lambda view: (view.row.state != "running", view.row.name))
        self._views = found
        if found and self._chosen not in {view.row.name for view in found}:
            self._chosen = found[0].row.name
        return list(session_lines(found, self._chosen, self._asked, self.size.width - 4))


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
