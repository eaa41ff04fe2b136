"""Text into a session's pane: under its lock, into the right process only, and confirmed by what it shows.

tmux sends what is pasted as keys: so controls are spelled out before, and Enter is pressed apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.sessions.inventory import Inventory
from jobwire.coordination.sessions.states import SessionState
from jobwire.coordination.store import CoordinationStore
from jobwire.core.clock import SystemClock
from jobwire.core.errors import InvalidInputError, JobwireError, NotFoundError
from jobwire.core.terminal_text import disarmed
from jobwire.registry.store import RecordStore
from jobwire.runner.tmux import Tmux
from jobwire.sessions.panes import NotNow, before_cursor, examine, look_closely, pane_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.sessions.stored import SessionRow

MAX_TEXT = 64 * 1024
_ARRIVAL_SECONDS = 3.0
# An agent that is just beginning shows a text and loses the key behind it: it is pressed again.
_ENTERS = 3
_LOOK_SECONDS = 0.03
# Of the text's end, that is looked for: less than a line of the narrowest pane.
_TAIL = 24
# Agents fold long pasted text into a word in brackets.
_FOLDED = "[Pasted"
CONFIRMED, SENT, DEFERRED, UNAVAILABLE, FAILED = "confirmed", "sent", "deferred", "unavailable", "failed"


class TextSent(NamedTuple):
    """What became of a text.

    confirmed: the pane took it; sent: it was not seen to arrive; deferred: not now; unavailable: there is no
    such pane any more; failed.
    """

    word: str
    detail: str = ""


class Sender:
    """Writes into the panes of a home's sessions."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.inventory = Inventory(CoordinationStore(home))
        self._clock = SystemClock()

    def send(self, name: str, text: str, *, enter: bool = True) -> TextSent:
        """Paste a text and press Enter. Raises NotFoundError, InvalidInputError for the text."""
        text = clean(text)
        row = self.inventory.get(name)
        if row.standing not in {SessionState.RUNNING, SessionState.ARCHIVED} or not row.pane:
            return TextSent(UNAVAILABLE, f"session {name} is {row.state}")
        with pane_held(self.home, row):
            asked = self._open_request(row)
            return TextSent(DEFERRED, asked) if asked else self.write(row, text, enter=enter)

    def nudge(self, name: str, agent_id: str, seq: int) -> TextSent:
        """Tell an agent of a message in its pane: once a delivery, not where it was read meanwhile."""
        row = self.inventory.get(name)
        untold = self.inventory.first_untold(agent_id)
        if untold is None or untold > seq:
            return TextSent(CONFIRMED, "it was read meanwhile")
        if row.standing is not SessionState.RUNNING or not row.pane:
            return TextSent(UNAVAILABLE, f"session {name} is {row.state}")
        with pane_held(self.home, row):
            asked = self._open_request(row)
            refusal = NotNow(asked) if asked else examine(Tmux.at(row.socket), row)
            if isinstance(refusal, NotNow):
                return TextSent(DEFERRED, refusal.words)
            # Noted before it is written: killed in between, the delivery itself is still there to be read.
            if not self.inventory.nudge_once(agent_id, seq):
                return TextSent(CONFIRMED, "it was told before")
            return self.write(row, f"You have a message: jobwire inbox fetch --agent {agent_id}")

    def write(self, row: SessionRow, text: str, *, enter: bool = True) -> TextSent:
        """Write into the pane, whose lock is held; looks at the pane, not at the job."""
        tmux = Tmux.at(row.socket)
        seen, lines = look_closely(tmux, row)
        if isinstance(seen, NotNow):
            return TextSent(UNAVAILABLE if seen.gone else DEFERRED, seen.words)
        if "\n" in text and seen.brackets is False:
            return TextSent(DEFERRED, "its program takes one line at a time at the moment")
        before = "".join(lines)
        if not tmux.paste(row.pane, text):
            return TextSent(FAILED, f"pane {row.pane} is gone")
        arrived = self._until(lambda: self._shows(tmux, row, text, before))
        # Whoever has begun to type in between would have it sent by our Enter: nobody can rule that out.
        if enter and not tmux.press(row.pane, "Enter"):
            return TextSent(FAILED, f"pane {row.pane} is gone")
        if not arrived:
            return TextSent(SENT, "the pane did not show it")
        if enter and not self._goes_on(tmux, row, text):
            return TextSent(SENT, "it stands in the pane, not taken yet")
        return TextSent(CONFIRMED)

    def _goes_on(self, tmux: Tmux, row: SessionRow, text: str) -> bool:
        """Tell whether the text is taken; the key is pressed again where it stands there still."""
        for _ in range(_ENTERS - 1):
            if self._until(lambda: self._is_taken(tmux, row, text)):
                return True
            # A dialog that is open would take the key for its answer.
            if self._open_request(row):
                return False
            tmux.press(row.pane, "Enter")
        return self._until(lambda: self._is_taken(tmux, row, text))

    def _shows(self, tmux: Tmux, row: SessionRow, text: str, before: str) -> bool:
        now = "".join(tmux.view(row.pane)[1])
        if _FOLDED in now and now != before:
            return True
        tail = _plain(text)[-_TAIL:]
        return _plain(now).count(tail) > _plain(before).count(tail)

    def _is_taken(self, tmux: Tmux, row: SessionRow, text: str) -> bool:
        seen, lines = tmux.view(row.pane)
        if seen is None or not seen.runs(row.pid, row.life):
            return True  # it ended over it
        line = lines[seen.cursor[1]] if seen.cursor[1] < len(lines) else ""
        if _FOLDED in line:
            return False
        # Some draw a text before they move the cursor behind it.
        standing = (_plain(before_cursor(seen, lines)), _plain(line))
        return not any(one and _plain(text).endswith(one[-_TAIL:]) for one in standing)

    def _until(self, fact: Callable[[], bool]) -> bool:
        until = self._clock.monotonic() + _ARRIVAL_SECONDS
        while not fact():
            if self._clock.monotonic() > until:
                return False
            self._clock.sleep(_LOOK_SECONDS)
        return True

    def _open_request(self, row: SessionRow) -> str:
        """Return why nothing may be pasted: a text would answer the agent's dialog. Empty: nothing asks."""
        if not row.job_id:
            return ""
        try:
            record = RecordStore(self.home).get(row.job_id)
        except NotFoundError:
            return ""
        except JobwireError as error:
            return f"nobody can tell whether job {row.job_id} asks something there: {error.message}"
        if not record.attention:
            return ""
        return f"job {row.job_id} asks something there: `jobwire feed` shows it"


def clean(text: str) -> str:
    """Return a text whose controls are spelled out; raises InvalidInputError for an empty or a huge one."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not text.strip():
        raise InvalidInputError("there is nothing to send")
    if len(text) > MAX_TEXT:
        raise InvalidInputError(
            f"the text has {len(text)} characters, at most {MAX_TEXT} go into a pane",
            hint="write it into a file, and send its name",
            code="too_large",
        )
    # A tab would complete something; what ends the brackets of a paste begins with an escape.
    return disarmed(text.replace("\t", "    "))


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isalnum())
