"""The end of an event in canonical form (RFC 8785), read at fixed places instead of being parsed.

Sorted keys put `data` and `detail`, which may hold anything, first. After them an event ends in

    ,"event":"progress","job_id":"0a1b2c3d","schema_version":1,"seq":12,"timestamp":"2026-01-31T12:00:00.000Z"}

What ends like this, and is JSON at all, has these members in its outermost object: neither a time nor the
rest holds a quote, so each quote is the border of a string. A row that does not is for a parser.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobwire.jobs.event import EVENT_TYPES, EventType

_ANY = "\0"
_MIDDLE = f'","job_id":"{_ANY * 8}","schema_version":1,"seq":'
_BEFORE_NAME = b',"event":"'
# The commonest first: each is looked for in the rows that are left.
_NAMES = sorted(EVENT_TYPES, key=lambda name: (name != EventType.PROGRESS, name))
_NAME_BYTES = len(_BEFORE_NAME) + max(map(len, _NAMES))
# A seq of more digits would not fit 64 bits.
_MAX_DIGITS = 18
# What a time may look like (core.fields): nearly always in milliseconds.
_SECONDS = "{0}{0}-{0}-{0}T{0}:{0}:{0}".format(_ANY * 2)
_STAMPS = (f"{_SECONDS}.{_ANY * 3}Z", f"{_SECONDS}.{_ANY * 6}Z", f"{_SECONDS}Z", f"{_SECONDS}.{_ANY * 9}Z")
_Bytes = npt.NDArray[np.uint8]


class Ends(NamedTuple):
    """Columns of the rows that end as they should; `found` tells which rows these are."""

    found: npt.NDArray[np.bool_]
    columns: dict[str, Any]


class _Pattern:
    """A text with places for anything, compared eight bytes at a time."""

    def __init__(self, text: str) -> None:
        wanted = np.frombuffer(text.encode(), np.uint8)
        # In front of it as many bytes as make whole words.
        self.width = -(-len(wanted) // 8) * 8
        padded = np.zeros(self.width, np.uint8)
        padded[self.width - len(wanted) :] = wanted
        self._wanted = padded.view(np.uint64)
        self._mask = np.where(padded == 0, 0, 0xFF).astype(np.uint8).view(np.uint64)

    def matches(self, rows: _Bytes) -> npt.NDArray[np.bool_]:
        """Tell which rows, of `width` bytes each, end in the text."""
        words = rows.view(np.uint64)
        wrong = np.zeros(len(rows), np.uint64)
        for place in np.flatnonzero(self._mask).tolist():
            wrong |= (words[:, place] & self._mask[place]) ^ self._wanted[place]
        found: npt.NDArray[np.bool_] = wrong == 0
        return found


_MIDDLE_PATTERN = _Pattern(_MIDDLE)
_STAMP_PATTERNS = [(len(stamp), _Pattern(f',"timestamp":"{stamp}"}}')) for stamp in _STAMPS]
_NAME_PATTERNS = [_Pattern(_BEFORE_NAME.decode() + name) for name in _NAMES]
_AROUND_STAMP = len(',"timestamp":""}')
_LONGEST = _MIDDLE_PATTERN.width + _NAME_BYTES + _MAX_DIGITS + max(p.width for _, p in _STAMP_PATTERNS) + 8


def ends_of(payloads: Any) -> Ends:
    """Return seq, event and timestamp of the payloads (Arrow's `binary`) that end in canonical form."""
    _, places, values = payloads.buffers()
    limits = np.frombuffer(places, "<i4")[payloads.offset : payloads.offset + len(payloads) + 1]
    text = np.frombuffer(values if values is not None else b"", np.uint8)
    found = np.diff(limits) >= _LONGEST
    rows = np.flatnonzero(found)
    at = limits[1:][rows].astype(np.int64)
    width, at, kept = _stamps(text, at)
    rows, stamp_at = rows[kept], at
    seq, at, kept = _numbers(text, at - width - _AROUND_STAMP)
    kept &= _MIDDLE_PATTERN.matches(_before(text, at, _MIDDLE_PATTERN.width))
    event, known = _names(text, at - len(_MIDDLE))
    kept &= known
    found[:] = False
    found[rows[kept]] = True
    stamps = _before(text, stamp_at[kept] - 2, width)
    limits = np.arange(len(stamps) + 1, dtype="<i4") * np.int32(width)
    buffers = [None, pa.py_buffer(limits), pa.py_buffer(np.ascontiguousarray(stamps))]
    return Ends(
        found,
        {
            "seq": pa.array(seq[kept]),
            "event": pa.array(_NAMES, pa.string()).take(pa.array(event[kept])),
            "timestamp": pa.Array.from_buffers(pa.string(), len(stamps), buffers),
        },
    )


def _before(text: _Bytes, at: npt.NDArray[np.int64], width: int) -> _Bytes:
    """Return the `width` bytes that end at each place, a row each."""
    if not len(at):
        return np.empty((0, width), np.uint8)
    # As records that overlap: indexing copies each at once (`take` would first copy them all).
    records = np.ndarray((len(text) - width + 1,), f"V{width}", text.data, strides=(1,))
    return records[at - width].view(np.uint8).reshape(-1, width)


def _stamps(
    text: _Bytes, at: npt.NDArray[np.int64]
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the commonest length of a time, the ends of the rows with it, and which these are."""
    best = 0, at[:0], np.zeros(len(at), np.bool_)
    for width, pattern in _STAMP_PATTERNS:
        kept = pattern.matches(_before(text, at, pattern.width))
        ends = at[kept]
        if len(ends) > len(best[1]):
            best = width, ends, kept
        if 2 * len(best[1]) >= len(at):
            break
    return best


def _numbers(
    text: _Bytes, at: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the number that ends at each place, where it begins, and whether it is one."""
    value, begin = np.zeros(len(at), np.int64), at.copy()
    going = np.ones(len(at), np.bool_)
    for power in range(_MAX_DIGITS):
        # What is below "0" is far above 9 without a sign.
        digit = text[begin - 1] - np.uint8(ord("0"))
        going &= digit < len("0123456789")
        if not going.any():
            break
        value += np.where(going, digit, 0).astype(np.int64) * 10**power
        begin -= going
    return value, begin, begin < at


def _names(text: _Bytes, at: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the number of the event's name that ends at each place, and whether it is one."""
    number, known = np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
    for place, pattern in enumerate(_NAME_PATTERNS):
        rest = np.flatnonzero(~known)
        found = rest[pattern.matches(_before(text, at[rest], pattern.width))]
        number[found], known[found] = place, True
    return number, known
