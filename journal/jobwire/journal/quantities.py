"""Durations and sizes as people write them on a command line."""

import argparse

# What is kept of a journal where nobody says otherwise.
KEEP_SECONDS = 7 * 86400.0
KEEP_BYTES = 8 << 30
# A consumer that is further behind is told, and no longer waited for.
LAG_SECONDS = 30 * 86400.0
LAG_BYTES = 32 << 30
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def duration(text: str) -> float:
    """Return seconds for `90s`, `10m`, `2h`, `7d`, `1w`; for argparse's `type`."""
    number, unit = text[:-1], text[-1:]
    if unit not in _SECONDS or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"not a duration: {text!r} (write 90s, 10m, 2h, 7d or 1w)")
    return float(int(number) * _SECONDS[unit])


def size(text: str) -> int:
    """Return bytes for `1000`, `64K`, `512M`, `8G`; for argparse's `type`."""
    unit = text[-1:] if text[-1:].isalpha() else ""
    number = text[: len(text) - len(unit)]
    if unit.upper() not in _BYTES or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"not a size: {text!r} (write 1000, 64K, 512M or 8G)")
    return int(number) * _BYTES[unit.upper()]
