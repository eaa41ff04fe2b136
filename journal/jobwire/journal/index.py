"""The sparse index of a segment: a cache that makes finding an offset or a time quick.

One 32-byte entry about every 64 KiB of segment: offset u64, position u64, received_before i64
(highest receive time of everything before the entry), zero u32, crc32c u32. It is written without
fsync and never trusted: each entry used is checked, then compared with the block it points at; a
missing or wrong index costs a longer scan, nothing else.
"""

import contextlib
import logging
import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.journal.block import HEADER_BYTES, crc32c, parse_header
from jobwire.journal.errors import BadBlockError
from jobwire.journal.segment import NEVER_US, SEGMENT_HEADER_BYTES, index_name
from jobwire.storage.files import FILE_MODE, FileSystem

_STRIDE_BYTES = 64 << 10
ENTRY_BYTES = 32
_ENTRY = struct.Struct("<QQqI")
_CRC = struct.Struct("<I")
_log = logging.getLogger(__name__)


class IndexEntry(NamedTuple):
    """The block that begins with `offset` stands at `position`."""

    offset: int
    position: int
    received_before: int


def encode_index_entry(entry: IndexEntry) -> bytes:
    """Return the entry's 32 bytes."""
    data = _ENTRY.pack(*entry, 0)
    return data + _CRC.pack(crc32c(data))


class SegmentIndex:
    """An index file held in memory (about 32 kB for a 64 MiB segment)."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = len(data) // ENTRY_BYTES

    @classmethod
    def load(cls, directory: Path, base_offset: int) -> "SegmentIndex":
        """Read the file; a missing or unreadable one is an empty index."""
        try:
            return cls((directory / index_name(base_offset)).read_bytes(), base_offset)
        except OSError:
            return cls(b"", base_offset)

    def entry(self, number: int) -> IndexEntry | None:
        """Return entry `number`, or None where there is none or its checksum differs."""
        if not 0 <= number < self._count:
            return None
        at = number * ENTRY_BYTES
        raw = self._data[at : at + _ENTRY.size]
        if _CRC.unpack_from(self._data, at + _ENTRY.size)[0] != crc32c(raw):
            return None
        offset, position, before, _ = _ENTRY.unpack(raw)
        return IndexEntry(offset, position, before)

    def last_where(
        self, holds: Callable[[IndexEntry], bool], limit: int, read: Callable[[int, int], bytes]
    ) -> IndexEntry:
        """Return the last place before `limit` that satisfies `holds` (first true, then false).

        The segment's first block, where no such place is certain: what is returned may lie too early, never
        too late. `read(position, length)` gives bytes of the segment.
        """
        passed = self._passed(lambda entry: entry.position < limit and holds(entry))
        place = self.entry(passed - 1)
        if place is not None and _confirmed(place, read):
            return place
        return IndexEntry(self._base_offset, SEGMENT_HEADER_BYTES, NEVER_US)

    def first_from(
        self, position: int, offset: int, limit: int, read: Callable[[int, int], bytes]
    ) -> IndexEntry | None:
        """Return the first certain place from `position` and from `offset` on, before `limit`."""

        def before(entry: IndexEntry) -> bool:
            return entry.position < position or entry.offset < offset

        for number in range(self._passed(before), self._count):
            entry = self.entry(number)
            # Behind a damaged entry, which ends the search, some may still lie before the place.
            if entry is None or before(entry):
                continue
            if entry.position >= limit:
                break
            if _confirmed(entry, read):
                return entry
        return None

    def _passed(self, holds: Callable[[IndexEntry], bool]) -> int:
        """Return how many entries from the first on satisfy `holds`; a damaged one counts as false."""
        return bisect_left(range(self._count), True, key=lambda n: not self._holds(n, holds))

    def _holds(self, number: int, holds: Callable[[IndexEntry], bool]) -> bool:
        entry = self.entry(number)
        return entry is not None and holds(entry)

    def valid_prefix(self) -> list[IndexEntry]:
        """Return the entries up to the first damaged one."""
        entries: list[IndexEntry] = []
        while (entry := self.entry(len(entries))) is not None:
            entries.append(entry)
        return entries


def _confirmed(entry: IndexEntry, read: Callable[[int, int], bytes]) -> bool:
    """Compare the entry with the block that it points at: an index is never believed."""
    try:
        return parse_header(read(entry.position, HEADER_BYTES)).base_offset == entry.offset
    except BadBlockError:
        return False


def index_due(last: IndexEntry | None, position: int) -> bool:
    """Tell whether a block at `position` gets an index entry."""
    return position - (last.position if last is not None else 0) >= _STRIDE_BYTES


class IndexWriter:
    """Adds entries to the index of the segment being written; its failures are logged, never raised."""

    def __init__(self, files: FileSystem, path: Path, entries: Sequence[IndexEntry]) -> None:
        """Open the file, make it hold exactly `entries`. Raises OSError."""
        self._files = files
        self._count = len(entries)
        self._last = entries[-1] if entries else None
        self._descriptor = files.open(path) if path.exists() else files.create(path, FILE_MODE)
        files.write_at(self._descriptor, b"".join(map(encode_index_entry, entries)), 0)
        files.truncate(self._descriptor, len(entries) * ENTRY_BYTES)

    def note(self, entry: IndexEntry) -> None:
        """Add the entry if the last one lies far enough back."""
        if not index_due(self._last, entry.position):
            return
        try:
            self._files.write_at(self._descriptor, encode_index_entry(entry), self._count * ENTRY_BYTES)
        except OSError as error:
            _log.warning("journal index not written: %s", error)
            return
        self._last = entry
        self._count += 1

    def close(self) -> None:
        """Flush and close; idempotent."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._files.sync_all([self._descriptor])
            with contextlib.suppress(OSError):
                self._files.close(self._descriptor)
            self._descriptor = -1
