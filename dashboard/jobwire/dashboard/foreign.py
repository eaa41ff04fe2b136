"""Numbers, times and texts from outside: bounded before they are used."""

import re

from jobwire.core.clock import epoch

# Beyond any size, time or count of ours, and exact in JSON and in a float.
_DIGITS = re.compile(r"[0-9]{1,15}")
# Characters of a text that is shown in a line.
MOST_SHOWN = 500


def whole_number(text: str) -> int | None:
    """Return a number of at most 15 digits, or None for any other text."""
    return int(text) if _DIGITS.fullmatch(text) else None


def epoch_or_zero(stamp: str | None) -> float:
    """Return the time of a stamp in epoch seconds; 0 for none, and for a date that does not exist."""
    try:
        return epoch(stamp) if stamp else 0.0
    except ValueError:
        return 0.0


def cut(text: str) -> str:
    """Return a text of others, no longer than it can be shown in a line."""
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} …"
