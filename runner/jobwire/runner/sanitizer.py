"""A command's output on somebody's terminal: it may have colours, and may do nothing else to it. Pure."""

import codecs
import re

from jobwire.core.terminal_text import ACTING, escape

# ECMA-48 8.3.117, SGR: colours and weights. Everything else moves, clears, retitles or answers.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_BEGUN = re.compile(r"\x1b(\[[0-9;:]{0,64})?\Z")
# A line break as terminals write it, a colour, and what else acts on a terminal but for tab and line break.
_SPECIAL = re.compile(f"\r\n|\x1b\\[[0-9;:]{{0,64}}m|(?![\t\n])[{ACTING}]")
_PLAIN = "\x1b[0m"


class OutputSanitizer:
    """Turns output, as it comes in pieces, into text that is harmless on a terminal.

    Colours stay; a carriage return, with which progress bars write over themselves, begins a new line; other
    controls are shown in caret notation, as `cat -v` and `less` show them.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = ""
        self._coloured = False

    def feed(self, piece: bytes) -> str:
        """Return what can be shown by now; a sequence that may go on is kept for the next piece."""
        text = self._kept + self._decoder.decode(piece)
        begun = _BEGUN.search(text)
        cut = begun.start() if begun else len(text) - text.endswith("\r")
        self._kept = text[cut:]
        return _SPECIAL.sub(self._replace, text[:cut])

    def finish(self) -> str:
        """Return what was kept, and the end of the colours."""
        text = _SPECIAL.sub(self._replace, self._kept + self._decoder.decode(b"", final=True))
        self._kept = ""
        return text + (_PLAIN if self._coloured else "")

    def _replace(self, match: re.Match[str]) -> str:
        found = match[0]
        if found in {"\r\n", "\r"}:
            return "\n"
        if _COLOUR.fullmatch(found):
            self._coloured = True
            return found
        code = ord(found)
        if code < 0x20 or code == 0x7F:  # noqa: PLR2004 - C0 and DEL
            return f"^{chr(code ^ 0x40)}"
        return escape(found)
