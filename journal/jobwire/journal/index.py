"""The sparse index of a segment: a cache that makes finding an offset or a time quick.

One 32-byte entry about every 64 KiB of segment: offset u64, position u64, received_before i64
(highest receive time of everything before the entry), zero u32, crc32c u32. It is written without
fsync and never trusted: each entry used is checked, then compared with the block it points at; a
missing or wrong index costs a longer scan, nothing else.
"""

import contextlib
import logging
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.journal.block import HEADER_BYTES, parse_header
from jobwire.journal.checksum import crc32c
from jobwire.journal.errors import BadBlockError
from jobwire.journal.segment import index_name
from jobwire.storage.files import FILE_MODE, FileSystem

INDEX_STRIDE_BYTES = 64 << 10
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

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.count = len(data) // ENTRY_BYTES

    @classmethod
    def load(cls, directory: Path, base_offset: int) -> "SegmentIndex":
        """Read the file; a missing or unreadable one is an empty index."""
        try:
            return cls((directory / index_name(base_offset)).read_bytes())
        except OSError:
            return cls(b"")

    def entry(self, number: int) -> IndexEntry | None:
        """Return entry `number`, or None where its checksum differs."""
        at = number * ENTRY_BYTES
        raw = self._data[at : at + _ENTRY.size]
        if _CRC.unpack_from(self._data, at + _ENTRY.size)[0] != crc32c(raw):
            return None
        offset, position, before, _ = _ENTRY.unpack(raw)
        return IndexEntry(offset, position, before)

    def passed(self, holds: Callable[[IndexEntry], bool]) -> int:
        """Return how many entries from the first on satisfy `holds` (first true, then false).

        A damaged entry counts as false: what the search then finds lies too early, never too late.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is not None and holds(entry):
                low = middle + 1
            else:
                high = middle
        return low

    def last_where(self, holds: Callable[[IndexEntry], bool]) -> IndexEntry | None:
        """Return the last entry that satisfies `holds`, or None; see `passed`."""
        passed = self.passed(holds)
        return self.entry(passed - 1) if passed else None

    def resume(self, bad: int, limit: int, read: Callable[[int, int], bytes]) -> IndexEntry | None:
        """Return the next place after `bad`, before `limit`, where a block certainly begins.

        `read(position, size)` gives bytes of the segment.
        """
        for number in range(self.passed(lambda entry: entry.position <= bad), self.count):
            entry = self.entry(number)
            if entry is None or entry.position >= limit:
                continue
            try:
                header = parse_header(read(entry.position, HEADER_BYTES))
            except BadBlockError:
                continue
            if header.base_offset == entry.offset:
                return entry
        return None

    def valid_prefix(self) -> list[IndexEntry]:
        """Return the entries up to the first damaged one."""
        entries = []
        for number in range(self.count):
            entry = self.entry(number)
            if entry is None:
                break
            entries.append(entry)
        return entries


def index_due(last: IndexEntry | None, position: int) -> bool:
    """Tell whether a block at `position` gets an index entry."""
    return position - (last.position if last is not None else 0) >= INDEX_STRIDE_BYTES


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
