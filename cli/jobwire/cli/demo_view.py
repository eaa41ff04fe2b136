"""What `jobwire demo` shows: one live view of all jobs, then a summary."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Self, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jobwire.core.clock import Clock
from jobwire.subscriber.outcome import EventLine, Line, Verdict

_BAR = 6
_WHAT = 15
_STATE = 13
# The words that people read: of an event, and of the job that said it (docs/glossary.md).
_EVENTS = {"permission_required": "permission"}
_STATES = {"permission_required": "waits for you"}
_STYLES = {
    "started": "cyan",
    "progress": "cyan",
    "permission_required": "bold yellow",
    "completed": "green",
    "error": "bold red",
}


class DemoRow(NamedTuple):
    """One job as shown."""

    job_id: str
    title: str
    event: str = "registered"
    detail: str = ""
    percent: float | None = None
    events: int = 0
    seconds: float = 0.0
    exit_code: int | None = None


class DemoView:
    """A live table on a terminal, plain lines elsewhere; both are fed by the watch's lines."""

    heading = "three jobs, one view"
    widest = _WHAT

    def __init__(self, titles: dict[str, str], *, clock: Clock, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._clock = clock
        self._began = clock.monotonic()
        self.rows = {job_id: DemoRow(job_id, title) for job_id, title in titles.items()}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._table, console=self._console, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def on_line(self, line: Line) -> None:
        """Take one line of the watch."""
        if isinstance(line, EventLine):
            self._on_event(line)
        elif isinstance(line, Verdict):
            row = self.rows[line.job_id]
            self.rows[line.job_id] = row._replace(exit_code=int(line.exit_code), seconds=line.seconds)

    def summary(self, expected: dict[str, int]) -> bool:
        """Print the summary; return True when every job ended as it should."""
        wrong = {job for job, row in self.rows.items() if row.exit_code != expected[job]}
        columns = ("job", "what", "ended", ">events", ">seconds", ">exit", "expected")
        self.print_table(
            "what happened",
            columns,
            [
                (
                    *(job, row.title, _state(row.event), str(row.events), f"{row.seconds:.1f}"),
                    "none" if row.exit_code is None else str(row.exit_code),
                    Text(f"no: {expected[job]}", "bold red") if job in wrong else Text("yes", "green"),
                )
                for job, row in self.rows.items()
            ],
        )
        return not wrong

    def say_event(self, row: DemoRow) -> None:
        """Print what happened to a job, where no live table shows it."""
        if self._live is None:
            shown = f"{row.job_id}  {row.event:<20} {row.detail}"
            self._console.print(Text(shown, style=_STYLES.get(row.event, "")), soft_wrap=True)

    def print_table(self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> None:
        """Print a table; a column whose name begins with > is of figures."""
        table = _empty_table(title)
        for name in columns:
            side: JustifyMethod = "right" if name.startswith(">") else "left"
            table.add_column(name.lstrip(">"), justify=side, no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def say(self, text: str) -> None:
        """Print one line about the demo itself."""
        self._console.print(Text(text, style="dim"), soft_wrap=True)

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Show that something takes a while: a spinner on a terminal, one line elsewhere."""
        if not self._console.is_terminal:
            self.say(text)
        return self._console.status(Text(text))

    def metrics(self, found: dict[str, Any]) -> None:
        """Print what Spark computed from the journal."""
        columns = ("job", "outcome", ">seconds", ">waited for you", ">events", ">attempts")
        self.print_table(
            "what Spark made of the journal",
            columns,
            [
                (
                    *(str(job["job_id"]), _state(str(job["outcome"]))),
                    *(_seconds(job["duration_s"]), _seconds(job["waiting_s"])),
                    *(str(job["events"]), str(job["attempts"])),
                )
                for job in found["jobs"]
            ],
        )
        events = ", ".join(f"{count} {_EVENTS.get(kind, kind)}" for kind, count in found["events"].items())
        self.say(f"{sum(found['events'].values())} events: {events}")

    def _on_event(self, line: EventLine) -> None:
        event = line.event
        percent = event.data.get("percent")
        row = self.rows[event.job_id]._replace(event=event.event, detail=event.detail)
        self.rows[event.job_id] = row._replace(
            events=row.events + 1,
            percent=100.0 if event.event == "completed" else _number(percent, row.percent),
            seconds=self._clock.monotonic() - self._began,
        )
        self.say_event(self.rows[event.job_id])

    def _table(self) -> Table:
        table = _empty_table(self.heading)
        table.expand = True
        table.add_column("job", width=8, no_wrap=True)
        table.add_column("what", width=self.widest, no_wrap=True, overflow="ellipsis")
        table.add_column("state", width=_STATE, no_wrap=True)
        table.add_column("progress", width=_BAR + 5, no_wrap=True)
        table.add_column("last word", ratio=1, no_wrap=True, overflow="ellipsis")
        for row in self.rows.values():
            # Text, never markup: what a job says must not become our formatting.
            table.add_row(row.job_id, Text(row.title), _state(row.event), _bar(row), Text(row.detail))
        return table


def _empty_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def _seconds(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "-"


def _number(value: object, otherwise: float | None) -> float | None:
    return float(value) if isinstance(value, int | float) else otherwise


def _state(event: str) -> Text:
    return Text(_STATES.get(event, event), style=_STYLES.get(event, "dim"))


def _bar(row: DemoRow) -> Text:
    if row.percent is None:
        return Text("")
    filled = round(row.percent * _BAR / 100)
    return Text.assemble(("━" * filled, "green"), ("─" * (_BAR - filled), "dim"), f" {row.percent:3.0f}%")
