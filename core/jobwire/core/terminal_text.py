"""Text from strangers on a terminal: no control characters, and never wider than its place."""

import re
import unicodedata
from collections.abc import Sequence

# What acts on a terminal: C0 and C1 controls (ECMA-48: escape sequences begin there), line and paragraph
# separators, the marks that reorder text (Unicode UAX 9: shown text differs from what it says).
ACTING = "\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# And lone surrogates, which no terminal can be sent.
_UNSAFE = f"[{ACTING}\ud800-\udfff]"
_GAP = "  "
_ELLIPSIS = "…"


def safe(text: str) -> str:
    """Return `text` on one line with everything that acts on a terminal written out as an escape."""
    if text.isascii() and text.isprintable():
        return text
    # Compiled when a text needs it, which most do not: it costs more than the rest of this module.
    return re.sub(_UNSAFE, lambda match: escape(match[0]), text)


def escape(character: str) -> str:
    """Return the character as an escape that Python and JSON readers know."""
    return character.encode("unicode_escape").decode()


def disarmed(text: str) -> str:
    """Return a text for approval: what is not seen, or acts, is written out; line breaks and tabs stay.

    Beside what acts on a terminal: formats without a form (zero-width, tags), private and unassigned ones.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if one in "\n\t" or unicodedata.category(one)[0] != "C" else escape(one)
        for one in text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


def head_and_tail(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters: of a longer one its beginning and its end."""
    if len(text) <= limit:
        return text
    gap = f" … {len(text) - limit} more … "
    head = max(0, limit - len(gap)) * 2 // 3
    tail = max(0, limit - len(gap)) - head
    return (text[:head] + gap + text[len(text) - tail :])[:limit]


def one_line(text: str, columns: int) -> str:
    """Return a text of several lines as one of at most `columns`, each run of white space a blank."""
    return fit(safe(" ".join(text.split())), columns)


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


def table(rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """Return `rows`, header first, as lines of aligned cells, made safe and cut to `columns` where given."""
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    lines = (
        _GAP.join(cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return [line if columns is None else fit(line, columns) for line in lines]
