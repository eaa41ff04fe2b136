"""Text from strangers on a terminal: no control characters, and never wider than its place."""

import re
import unicodedata

# C0 and C1 controls (ECMA-48: escape sequences begin there), line and paragraph separators, the marks
# that reorder text (Unicode UAX 9: shown text differs from what it says), and lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_ELLIPSIS = "…"


def safe(text: str) -> str:
    """Return `text` on one line with everything that acts on a terminal written out as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    names = {9: r"\t", 10: r"\n", 13: r"\r"}
    return names.get(code) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")  # noqa: PLR2004 - one byte


def width(text: str) -> int:
    """Return how many columns `text` takes: wide East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Return `text` cut to at most `columns`, with an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    kept: list[str] = []
    room = columns - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + (_ELLIPSIS if columns > 0 else "")
