"""Durations and sizes as people write them on a command line."""

import argparse
import re

# What is kept of a journal where nobody says otherwise.
KEEP_SECONDS = 7 * 86400.0
KEEP_BYTES = 8 << 30
# A consumer that is further behind is told, and no longer waited for.
LAG_SECONDS = 30 * 86400.0
LAG_BYTES = 32 << 30
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Twelve digits are some thirty thousand years, or an exbibyte: more is a slip, and would not fit a float.
_QUANTITY = re.compile("([0-9]{1,12})([a-zA-Z]?)")


def duration(text: str) -> float:
    """Return seconds for `90s`, `10m`, `2h`, `7d`, `1w`; for argparse's `type`."""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in _SECONDS:
        raise argparse.ArgumentTypeError(f"not a duration: {text!r} (write 90s, 10m, 2h, 7d or 1w)")
    return float(int(found[1]) * _SECONDS[found[2]])


def size(text: str) -> int:
    """Return bytes for `1000`, `64K`, `512M`, `8G`; for argparse's `type`."""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2].upper() not in _BYTES:
        raise argparse.ArgumentTypeError(f"not a size: {text!r} (write 1000, 64K, 512M or 8G)")
    return int(found[1]) * _BYTES[found[2].upper()]
