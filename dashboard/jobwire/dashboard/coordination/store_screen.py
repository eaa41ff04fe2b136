"""`jobwire top`: what the screens over the agents' store share: a frame, a second's timer, lines of text."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import StorageError
from jobwire.core.override import override
from jobwire.core.terminal_text import one_line
from jobwire.dashboard.coordination.looking import looking

#: A text that is safe on a terminal, and its style.
Line = tuple[str, str]


class TextScreen(Screen[None]):
    """A text that is written anew each `seconds`; a screen has `text` and its keys."""

    CSS = "#lines { padding: 0 1; }"
    #: Whether the arrows scroll; else they are the screen's own.
    scrolls: ClassVar[bool] = True
    seconds: ClassVar[float] = 1.0

    def text(self) -> Text:
        """Return what there is to show; never made from markup, because texts come from agents."""
        raise NotImplementedError

    @override
    def compose(self) -> ComposeResult:
        """Lay out the text and the keys."""
        with VerticalScroll(can_focus=self.scrolls):
            yield Static(id="lines")
        yield Footer()

    def on_mount(self) -> None:
        """Draw, and again and again."""
        self.draw()
        self.set_interval(self.seconds, self.draw)

    def draw(self) -> None:
        """Write everything anew."""
        self.query_one("#lines", Static).update(self.text())


class StoreScreen(TextScreen):
    """Lines from the store, read anew each second; a screen has `lines` and its keys."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home

    def lines(self, store: CoordinationStore | None) -> Iterable[Line]:
        """Return what there is to show; None: there is no store yet. May raise StorageError."""
        raise NotImplementedError

    @override
    def text(self) -> Text:
        """Return the lines."""
        body = Text(no_wrap=True, overflow="ellipsis")
        for text, style in self._read():
            body.append(text + "\n", style)
        return body

    def _read(self) -> list[Line]:
        try:
            with looking(self.home) as store:
                return list(self.lines(store))
        except StorageError as error:
            return [(f"cannot read: {one_line(error.message, 300)}", "red")]
