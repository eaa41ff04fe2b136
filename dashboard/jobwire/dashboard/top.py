"""`jobwire top`: the fleet live in a terminal, problems first. Fits 80 by 24 over ssh."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static

from jobwire.core.errors import JobwireError
from jobwire.core.override import override
from jobwire.core.terminal_text import one_line
from jobwire.dashboard.answer_screen import AnswerScreen
from jobwire.dashboard.coordination.agents_screen import AgentsScreen
from jobwire.dashboard.coordination.sessions_screen import SessionsScreen
from jobwire.dashboard.coordination.store_screen import TextScreen
from jobwire.dashboard.fleet import PROBLEMS, Group, Query, Row, arrange, tally, words
from jobwire.dashboard.model import FleetModel
from jobwire.dashboard.status import STATE_WIDTH, counted, state_word
from jobwire.dashboard.top_once import HEADINGS, SESSION_WIDTH, cells
from jobwire.jobs.requests import open_requests
from jobwire.registry.queue import JobQueue

LOOK_SECONDS = 0.25
_STYLES = {
    Group.WAITING: "bold yellow",
    Group.STUCK: "bold magenta",
    Group.FAILED: "bold red",
    Group.LATE: "yellow",
    Group.RUNNING: "cyan",
    Group.PENDING: "dim",
    Group.DONE: "green",
}
_ENDED = {"cancelled": "dim", "error": "dim red"}
# Each with one blank behind it; the last column takes what is left.
_WIDTHS = (9, STATE_WIDTH + 1, SESSION_WIDTH + 1, 5, 8, 8)
# Below this many columns the age gives its place to the title.
_WIDE = 100
_GROUPS = tuple(Group)
_PROBLEMS = frozenset(str(group) for group in PROBLEMS)
# What only the table can do: not while a job is open.
_TABLE_ACTIONS = frozenset(
    {"find", "problems", "all", "session", "open", "group", "answer", "agents", "sessions"}
)
_SHOWN_ROWS = 500
_HISTORY_LINES = 200


def show(model: FleetModel, query: Query) -> int:
    """Run until a key ends it; return the exit code."""
    return Top(model=model, query=query).run() or 0


class Top(App[int]):
    """The table of the fleet."""

    CSS = """
    #counts { height: 1; }
    #find { height: 1; border: none; display: none; }
    DataTable { height: 1fr; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        # Enter opens as well; the table takes it for itself, and would not be named here.
        Binding("o", "open", "Open", key_display="⏎"),
        # Before the table sees it: over ssh the next keys arrive in the same packet, and are the text.
        Binding("slash", "find", "Find", priority=True),
        Binding("1", "group(0)", "State", key_display="1-7"),
        *(Binding(str(number + 1), f"group({number})", show=False) for number in range(1, len(_GROUPS))),
        ("w", "answer", "Answer"),
        ("p", "problems", "Problems"),
        ("a", "all", "All"),
        ("s", "session", "Session"),
        ("g", "agents", "Agents"),
        ("t", "sessions", "Sessions"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, *, model: FleetModel, query: Query) -> None:
        super().__init__()
        self._model = model
        self.query_now = query
        self._shown: dict[str, tuple[str, ...]] = {}
        self._names: list[str] = []
        self._room = 0

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's form
        """Leave the table's keys alone while a job is open or a text is typed."""
        if action not in _TABLE_ACTIONS:
            return True
        return len(self.screen_stack) == 1 and not isinstance(self.focused, Input)

    @override
    def compose(self) -> ComposeResult:
        """Lay out the counts, the table, the filter line and the keys."""
        yield Static(id="counts")
        table: DataTable[Text] = DataTable(cursor_type="row", show_cursor=True, cell_padding=0)
        yield table
        yield Input(placeholder="text; Enter keeps it, Esc clears it", id="find")
        yield Footer()

    def on_mount(self) -> None:
        """Read the fleet, then look for changes."""
        self._lay_out(self.size.width)
        self.query_one(DataTable).focus()
        self._model.start()
        self.draw()
        self.set_interval(LOOK_SECONDS, self.look)
        self.set_interval(1.0, self.draw)

    def on_resize(self, event: Resize) -> None:
        """Fit the columns to the terminal; `size` is still the old one here."""
        if self._names:
            self._lay_out(event.size.width)
            self.draw()

    def _lay_out(self, width: int) -> None:
        table = self.screen_stack[0].query_one(DataTable)
        self._names = [name for name in HEADINGS if name != "age" or width >= _WIDE]
        widths = {name: wide for name, wide in zip(HEADINGS, _WIDTHS, strict=False) if name in self._names}
        # Two columns are the scroll bar's, where there are more rows than lines.
        self._room = max(width - sum(widths.values()) - 2, 10)
        table.clear(columns=True)
        for name in self._names:
            table.add_column(name, width=widths.get(name, self._room), key=name)
        self._shown = {}

    def on_unmount(self) -> None:
        """Close what was opened."""
        self._model.close()

    def look(self) -> None:
        """Take in changes."""
        try:
            changed = self._model.refresh()
        except (JobwireError, OSError) as error:
            self.query_one("#counts", Static).update(Text(f"cannot read: {error}", style="red"))
            return
        if changed:
            self.draw()

    def draw(self) -> None:
        """Bring the table up to the fleet; only cells that differ are touched."""
        if self.screen is not self.screen_stack[0]:
            return
        rows = arrange(self._model.rows.values(), self.query_now)[:_SHOWN_ROWS]
        self.query_one("#counts", Static).update(self._counts(rows))
        table = self.query_one(DataTable)
        at = time.time()
        wanted = {row.id: cells(row, at, self._room) for row in rows}
        if list(wanted) == list(self._shown):
            for row in rows:
                self._update_cells(table, row, wanted[row.id])
        else:
            self._fill(table, rows, wanted)
        self._shown = wanted

    def _update_cells(self, table: DataTable[Text], row: Row, texts: tuple[str, ...]) -> None:
        before = self._shown[row.id]
        for name, old, new in zip(HEADINGS, before, texts, strict=True):
            if old != new and name in self._names:
                table.update_cell(row.id, name, _styled(name, new, row))

    def _fill(self, table: DataTable[Text], rows: list[Row], wanted: dict[str, tuple[str, ...]]) -> None:
        chosen = self._chosen()
        table.clear()
        for row in rows:
            texts = zip(HEADINGS, wanted[row.id], strict=True)
            shown = [_styled(name, text, row) for name, text in texts if name in self._names]
            table.add_row(*shown, key=row.id)
        if chosen in wanted:
            table.move_cursor(row=list(wanted).index(chosen), animate=False)

    def _chosen(self) -> str | None:
        table = self.query_one(DataTable)
        ids = list(self._shown)
        return ids[table.cursor_row] if 0 <= table.cursor_row < len(ids) else None

    def _counts(self, rows: Iterable[Row]) -> Text:
        counts = tally(self._model.rows.values())
        text = Text(no_wrap=True, overflow="ellipsis")
        groups = sorted(self.query_now.groups) if self.query_now.groups != _PROBLEMS else ["problems"]
        filters = [*groups, self.query_now.session, self.query_now.text]
        shown = " ".join(one_line(part, 20) for part in filters if part)
        if shown:
            # First, because 80 columns cut the end, and a filter that is not seen hides jobs.
            text.append(f"[{one_line(shown, 30)}: {len(list(rows))}]", "reverse").append("  ")
        for group in _GROUPS:
            text.append(f"{counted(counts[group], group)}  ", _STYLES[group] if counts[group] else "dim")
        return text

    # -- keys ---------------------------------------------------------------------------------------

    def action_group(self, number: int) -> None:
        """Show or hide a group by its place on the first line."""
        self._change(self.query_now._replace(groups=self.query_now.groups ^ {str(_GROUPS[number])}))

    def action_problems(self) -> None:
        """Show what needs somebody."""
        self._change(self.query_now._replace(groups=_PROBLEMS))

    def action_all(self) -> None:
        """Show everything."""
        self._change(Query())

    def action_session(self) -> None:
        """Show only the session of the chosen job, or all sessions again."""
        row = self._model.rows.get(self._chosen() or "")
        session = row.session if row is not None and not self.query_now.session else ""
        self._change(self.query_now._replace(session=session))

    def action_find(self) -> None:
        """Ask for a text."""
        find = self.query_one("#find", Input)
        find.display = True
        find.value = self.query_now.text
        # At once, not by a message, as above.
        self.screen.set_focus(find)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._change(self.query_now._replace(text=event.value))

    def on_input_submitted(self) -> None:
        """Keep the filter, go back to the table."""
        self._close_find()

    def key_escape(self) -> None:
        """Clear the filter's text."""
        self.query_one("#find", Input).value = ""
        self._change(self.query_now._replace(text=""))
        self._close_find()

    def on_data_table_row_selected(self) -> None:
        """Open the job: the table takes Enter for itself."""
        self.action_open()

    def action_open(self) -> None:
        """Show the chosen job."""
        chosen = self._chosen()
        if chosen is not None:
            self.push_screen(JobScreen(self._model, chosen))

    def action_answer(self) -> None:
        """Show the chosen job's open request, and answer it."""
        facts = self._model.facts(self._chosen() or "")
        named = [one for one in open_requests(facts.record.requests) if one.named] if facts else []
        if facts is None or not named:
            self.notify("this job asks nothing that can be answered here", severity="warning")
            return

        def told(words: str | None) -> None:
            if words:
                self.notify(words, markup=False)

        screen = AnswerScreen(
            JobQueue(self._model.source.store, warn=self.log.warning), facts.record.job_id, named[0]
        )
        self.push_screen(screen, told)

    def action_agents(self) -> None:
        """Show the agents and their locks."""
        self.push_screen(AgentsScreen(Path(self._model.source.store.home)))

    def action_sessions(self) -> None:
        """Show the sessions in which agents live."""
        self.push_screen(SessionsScreen(Path(self._model.source.store.home)))

    def _close_find(self) -> None:
        self.query_one("#find", Input).display = False
        self.screen.set_focus(self.query_one(DataTable))

    def _change(self, query: Query) -> None:
        self.query_now = query
        self.draw()


class JobScreen(TextScreen):
    """One job: what it says now, and its history, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,backspace", "dismiss", "Back")]
    seconds = 0.5

    def __init__(self, model: FleetModel, job_id: str) -> None:
        super().__init__()
        self._model = model
        self._job_id = job_id

    @override
    def text(self) -> Text:
        """Return the job."""
        row = self._model.rows.get(self._job_id)
        body = Text()
        if row is None:
            body.append(f"job {self._job_id} is gone")
        else:
            body.append(f"{row.id}  {state_word(row.group, row.status)}  ", _style(row))
            body.append(one_line(row.title, 200) + "\n", "bold")
            body.append(one_line(": ".join(part for part in (row.why, row.detail) if part), 1200) + "\n")
            facts = [f"attempt {row.attempt}", f"seq {row.seq}", f"age {words(time.time() - row.created)}"]
            facts += [f"session {one_line(row.session, 40)}"] if row.session else []
            body.append("  ".join(facts) + "\n\n", "dim")
        for line in self._model.source.history(self._job_id, _HISTORY_LINES):
            body.append(one_line(line, 300) + "\n")
        return body


def _styled(name: str, text: str, row: Row) -> Text:
    """Return a cell; never as markup, because texts come from workers."""
    return Text(text, style=_style(row) if name in {"job", "state"} else "")


def _style(row: Row) -> str:
    """Return the colour of a job's state; one that is done has that of its end."""
    ended = _ENDED.get(row.status) if row.group == Group.DONE else None
    return ended or _STYLES[Group(row.group)]
