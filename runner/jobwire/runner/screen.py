"""Where the command left the cursor: whether a line of ours can stand there (pure)."""

import re
from collections import deque

# A line ends; colours and such may follow, which move nothing (ECMA-48: SGR, EL; DEC private modes).
_LINE_START = re.compile(rb"\n(?:\r|\x1b\[[0-9;]*[mK]|\x1b\[\?[0-9;]*[hl])*\Z")
# Cursor up, to a place, scrolling regions, the alternate screen: who does that redraws what he drew.
_DRAWING = re.compile(rb"\x1b(?:\[[0-9;]*[ABEFHfdrST]|\[\?(?:47|1047|1049)h|[M78c])")
# The longest sequence of the above that may be cut in two.
_TAIL_BYTES = 64
_MOST_HELD = 100


class Screen:
    """Holds lines back until the command's output is at the beginning of a line.

    Once the command has moved the cursor the screen is its own, and lines wait for its end.
    """

    def __init__(self) -> None:
        self._tail = b"\n"
        self._drawing = False
        self._held: deque[str] = deque(maxlen=_MOST_HELD)
        self._left_out = 0

    def printed(self, chunk: bytes) -> None:
        """Take note of what the command printed."""
        seen = self._tail + chunk
        self._drawing = self._drawing or _DRAWING.search(seen) is not None
        self._tail = seen[-_TAIL_BYTES:]

    def hold(self, text: str) -> None:
        """Keep a text of whole lines; of very many the last ones."""
        for line in text.splitlines():
            self._left_out += len(self._held) == _MOST_HELD
            self._held.append(line)

    def ready(self) -> bytes:
        """Return the lines that can be shown now, as a terminal in raw mode wants them."""
        return self._taken() if self.free else b""

    def end(self) -> bytes:
        """Return all lines, because the command has ended; later ones can stand at once."""
        begin = b"" if _LINE_START.search(self._tail) else b"\r\n"
        self._tail, self._drawing = b"\n", False
        return begin + self._taken()

    @property
    def free(self) -> bool:
        """Tell whether a line of ours can stand where the cursor is."""
        return not self._drawing and _LINE_START.search(self._tail) is not None

    def _taken(self) -> bytes:
        lines = [f"({self._left_out} lines left out)"] if self._left_out else []
        lines += self._held
        self._held.clear()
        self._left_out = 0
        return "".join(f"{line}\r\n" for line in lines).encode(errors="backslashreplace")
