"""Whole numbers from outside, such as ids and offsets: bounded before they are read."""

import re

# Beyond any size, time or count of ours, and exact in JSON and in a float.
_DIGITS = re.compile(r"[0-9]{1,15}")


def whole_number(text: str) -> int | None:
    """Return a number of at most 15 digits, or None for any other text."""
    return int(text) if _DIGITS.fullmatch(text) else None
