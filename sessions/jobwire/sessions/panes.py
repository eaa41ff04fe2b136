"""A session's pane: whether it is still the one that was made, and whether text may go into it now."""

from __future__ import annotations

import hashlib
import os
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import SystemClock
from jobwire.storage import file_lock
from jobwire.storage.durable import make_directories
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.process_life import see

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobwire.coordination.sessions.stored import SessionRow
    from jobwire.runner.tmux import PaneSeen, Tmux

_LOCK_SECONDS = 60.0
# What stands left of the cursor where nobody has begun to type: nothing, or what prompts end with. Frames of
# boxes, as agents draw them, count as nothing.
_FRAMES = "│┃|"
_PROMPTS = tuple(">$#%❯›»:?")  # noqa: RUF001 - prompts, not brackets


class NotNow(NamedTuple):
    """Why nothing can go into the pane now. `gone`: it never will again."""

    words: str
    gone: bool = False


@contextmanager
def pane_held(home: str, row: SessionRow) -> Iterator[None]:
    """Be the only process that writes into the pane for the block. Raises LockTimeoutError."""
    server = hashlib.sha256(row.socket.encode()).hexdigest()[:8]
    path = HomePaths(home).lock_path(f"pane.{server}.{row.pane.lstrip('%')}")
    make_directories(os.path.dirname(path), files=SystemFiles())
    what = f"pane {row.pane}"
    with file_lock.held(path, clock=SystemClock(), deadline_seconds=_LOCK_SECONDS, what=what):
        yield


def find_pane(tmux: Tmux, row: SessionRow) -> PaneSeen | NotNow:
    """Return the pane where it is the one that was made, with the same process in it."""
    return _its(row, tmux.look(row.pane) if row.pane else None)


def _its(row: SessionRow, seen: PaneSeen | None) -> PaneSeen | NotNow:
    if seen is None or seen.dead:
        return NotNow(f"the pane of session {row.name} is gone", gone=True)
    if not seen.runs(row.pid, row.life):
        return NotNow(f"pane {row.pane} belongs to something else by now", gone=True)
    return seen


def examine(tmux: Tmux, row: SessionRow) -> PaneSeen | NotNow:
    """Return the pane where text may go into it now: nor has anybody begun to type."""
    return look_closely(tmux, row)[0]


def look_closely(tmux: Tmux, row: SessionRow) -> tuple[PaneSeen | NotNow, list[str]]:
    """Return what `examine` does, and the lines that the pane shows, as they are at one moment."""
    found, lines = tmux.view(row.pane) if row.pane else (None, [])
    return _judged(row, _its(row, found), lines), lines


def _judged(row: SessionRow, seen: PaneSeen | NotNow, lines: list[str]) -> PaneSeen | NotNow:
    if isinstance(seen, NotNow):
        return seen
    process = see(seen.pid)
    if process is None or not process.in_foreground:
        return NotNow(f"session {row.name} shows another program at the moment")
    if seen.in_mode:
        return NotNow(f"somebody scrolls in the pane of session {row.name}")
    if is_typed(left := before_cursor(seen, lines)):
        return NotNow(f"somebody types in the pane of session {row.name}: {left.strip()[-40:]!r}")
    return seen


def reads_keys(pid: int) -> bool:
    """Tell whether the process reads its terminal key by key, as one with a prompt does (termios(3): ICANON).

    Before that the terminal echoes what is pasted, and makes another key of Enter (ICRNL). True also where
    nobody can tell.
    """
    try:
        terminal = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return not termios.tcgetattr(terminal)[3] & termios.ICANON
    except termios.error:
        return True
    finally:
        os.close(terminal)


def is_typed(left: str) -> bool:
    """Tell whether what stands left of a cursor is more than a prompt."""
    text = left.strip().strip(_FRAMES).strip()
    return bool(text) and not text.endswith(_PROMPTS)


def before_cursor(seen: PaneSeen, lines: list[str]) -> str:
    """Return what stands left of the cursor on its line."""
    column, line = seen.cursor
    return _columns(lines[line], column) if line < len(lines) else ""


def _columns(text: str, columns: int) -> str:
    from jobwire.core.terminal_text import width  # noqa: PLC0415 - brings Unicode's tables

    kept = ""
    for character in text:
        if width(kept) >= columns:
            break
        kept += character
    return kept
