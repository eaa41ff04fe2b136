"""Numbers from a command line: types for argparse that name the bounds of what they take."""

import argparse
from collections.abc import Callable


def whole(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return an argparse type: a whole number within limits."""

    def read(text: str) -> int:
        # int() alone would also take " 5 ", "1_000" and other scripts' digits. More digits than it reads are
        # more than any limit.
        digits = text.isascii() and text.isdigit() and len(text) <= len(str(maximum))
        if not digits or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(
                f"{_short(text)} is not a whole number from {minimum} to {maximum}"
            )
        return int(text)

    return read


def number(maximum: float, *, zero: bool = True) -> Callable[[str], float]:
    """Return an argparse type: a number from 0, or only above it, to `maximum`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        # Also false for NaN.
        if not 0 <= value <= maximum or not (value or zero):
            first = "from 0" if zero else "above 0"
            raise argparse.ArgumentTypeError(f"{_short(text)} is not a number {first} to {maximum:.0f}")
        return value

    return read


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")  # noqa: PLR2004 - enough to know it again


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the job that a command is about."""
    parser.add_argument("job", metavar="JOB", help="8 lower-case hex characters")


# As far as every reader of JSON counts (canonical.MAX_INTEGER).
count = whole(0, 2**53 - 1)
