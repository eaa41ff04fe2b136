"""Numbers and times from outside: ids and offsets, bounded before they are read; stamps of other programs."""

import re

from jobwire.core.clock import epoch

# Beyond any size, time or count of ours, and exact in JSON and in a float.
_DIGITS = re.compile(r"[0-9]{1,15}")


def whole_number(text: str) -> int | None:
    """Return a number of at most 15 digits, or None for any other text."""
    return int(text) if _DIGITS.fullmatch(text) else None


def epoch_or_zero(stamp: str | None) -> float:
    """Return the time of a stamp in epoch seconds; 0 for none, and for a date that does not exist."""
    try:
        return epoch(stamp) if stamp else 0.0
    except ValueError:
        return 0.0
