"""Texts of strangers on a terminal: nothing that moves the cursor, changes colours or hides."""

import unicodedata

# Cc controls, Cf invisible marks (they can reverse a line), Co private, Cs surrogates, Zl and Zp breaks.
_REMOVED = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def one_line(text: str, width: int) -> str:
    """Return `text` on one line of at most `width` characters, ending in … where it was cut."""
    # Far longer texts are cut first: only the beginning can be seen.
    shown = "".join(" " if unicodedata.category(mark) in _REMOVED else mark for mark in text[: width * 4])
    shown = " ".join(shown.split())
    return shown if len(shown) <= width else shown[: max(width - 1, 0)] + "…"
