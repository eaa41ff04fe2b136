"""`jobwire top`: one open request of a job, and the answer to it."""

import os
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from jobwire.core.errors import JobwireError
from jobwire.core.override import override
from jobwire.core.terminal_text import disarmed, safe
from jobwire.jobs.request_form import MAX_ANSWER, RequestKind
from jobwire.jobs.requests import Answer, Request, RequestState, find
from jobwire.registry.present import age
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import answerer, check_may_answer, give_answer

_LOOK_SECONDS = 0.5


class AnswerScreen(ModalScreen[str]):
    """Shows the request and takes its answer; left with what was done in words, "" for nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Back"),
        ("ctrl+a", "always", "For always"),
    ]
    CSS = """
    AnswerScreen { align: center middle; }
    #asked { border: round $warning; padding: 0 1; height: auto; max-height: 90%; width: 90%; }
    #choices { height: auto; max-height: 8; border: none; }
    #problem { color: $error; height: auto; }
    """

    def __init__(self, queue: JobQueue, job_id: str, request: Request) -> None:
        super().__init__()
        self._queue = queue
        self._job_id = job_id
        self._request = request
        self._always = False

    @override
    def compose(self) -> ComposeResult:
        """Lay out the request, its choices, a line for another answer, and the keys."""
        with VerticalScroll(id="asked", can_focus=False):
            yield Static(id="text")
            if self._request.choices:
                yield OptionList(
                    *(Option(Text(safe(choice))) for choice in self._request.choices), id="choices"
                )
            if self._request.kind is not RequestKind.PERMISSION or not self._request.choices:
                yield Input(placeholder="your answer; Enter sends it", max_length=MAX_ANSWER)
            yield Static(id="problem")
        yield Footer()

    def on_mount(self) -> None:
        """Draw; look whether somebody else answers meanwhile."""
        self._draw()
        self.query("OptionList, Input").first().focus()
        self.set_interval(_LOOK_SECONDS, self._look)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer with a choice."""
        self._answer(self._request.choices[event.option_index])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with a text."""
        event.stop()
        self._answer(event.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Keep what is typed from the fleet's filter."""
        event.stop()

    def action_always(self) -> None:
        """Answer for everything in the request's scope, or only for this one again."""
        self._always = self._request.scope is not None and not self._always
        self._draw()

    def action_leave(self) -> None:
        """Go back without an answer."""
        self._end("")

    def _draw(self) -> None:
        request = self._request
        now = self._queue.store.clock.now()
        text = Text(f"{self._job_id}  {request.kind}, {age(request.asked_at, now)} ago\n", "dim")
        text.append(disarmed(request.text) + "\n", "bold")
        if request.tool:
            text.append(f"tool {safe(request.tool)}\n")
        if request.preview:
            text.append(disarmed(request.preview) + "\n")
        if request.scope is not None:
            mark = "x" if self._always else " "
            text.append(f"[{mark}] for always (Ctrl-A): {safe(request.scope)}\n")
        self.query_one("#text", Static).update(text)

    def _look(self) -> None:
        try:
            found = find(self._queue.store.get(self._job_id).requests, self._request.id)
        except JobwireError as error:
            self.query_one("#problem", Static).update(Text(safe(error.message)))
            return
        if found is None or found.state is not RequestState.OPEN:
            who = f" by {safe(found.answered_by)}" if found is not None and found.answered_by else ""
            self._end(f"it is {found.state if found is not None else 'gone'}{who}")

    def _answer(self, text: str) -> None:
        try:
            check_may_answer(self._request, os.environ)
            given = Answer(text, answerer(os.environ), "top", self._always)
            give_answer(self._queue, self._job_id, given, request_id=self._request.id)
        except (JobwireError, OSError) as error:
            self.query_one("#problem", Static).update(Text(safe(str(error))))
            return
        self._end(f"answered {safe(text)}")

    def _end(self, said: str) -> None:
        # A look that was due when the answer was given comes after it: there is nothing left to take away.
        if self.is_current:
            self.dismiss(said)
