"""The file `head`: whose journal this is and how far it is on the disk.

The writer publishes here after each fsync, so a reader never sees a byte that a power cut could
take back. Two slots of 512 bytes are written in turn, each with a rising generation and a checksum:
a reader that catches one half-written has the other. The slot itself is not fsync'd (that would
double the price of a batch): after a power cut it may tell an older length, never a longer one, and
the next writer corrects it.
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from jobwire.journal.block import crc32c
from jobwire.journal.errors import JournalCorrupt, not_found
from jobwire.journal.segment import list_segments
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import FileSystem

HEAD_NAME = "head"
SLOT_BYTES = 512
_MAGIC = b"JWHEAD1\0"
_SLOT = struct.Struct("<8s16sQQQQq")
_CRC = struct.Struct("<I")
# A reader loses a try only when the writer publishes twice during one 1 kB copy.
_TRIES = 16


class Head(NamedTuple):
    """What is durable: all segments before `segment_base`, and `durable_bytes` of that one."""

    identity: UUID
    generation: int
    segment_base: int
    durable_bytes: int
    end_offset: int
    received_max: int


def encode_slot(head: Head) -> bytes:
    """Return the 512 bytes of one slot."""
    data = _SLOT.pack(
        _MAGIC,
        head.identity.bytes,
        head.generation,
        head.segment_base,
        head.durable_bytes,
        head.end_offset,
        head.received_max,
    )
    return (data + _CRC.pack(crc32c(data))).ljust(SLOT_BYTES, b"\0")


def decode_head(data: bytes) -> Head | None:
    """Return the newest valid slot of the file's bytes, or None where neither is whole."""
    valid = [slot for at in (0, SLOT_BYTES) if (slot := _decode_slot(data[at : at + SLOT_BYTES]))]
    return max(valid, key=lambda head: head.generation, default=None)


def _decode_slot(slot: bytes) -> Head | None:
    if len(slot) < _SLOT.size + _CRC.size or not slot.startswith(_MAGIC):
        return None
    data = slot[: _SLOT.size]
    if _CRC.unpack_from(slot, _SLOT.size)[0] != crc32c(data):
        return None
    _, identity, *numbers = _SLOT.unpack(data)
    return Head(UUID(bytes=identity), *numbers)


class HeadReader:
    """The published length, read again at each call (about 3 µs)."""

    def __init__(self, directory: Path) -> None:
        """Open. Raises JournalNotFound, or JournalCorrupt where only the head file is gone."""
        self._directory = directory
        try:
            self._descriptor = os.open(directory / HEAD_NAME, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError) as error:
            if directory.is_dir() and list_segments(directory):
                raise _unusable(directory, "missing") from error
            raise not_found(directory) from error

    def read(self) -> Head:
        """Return the newest state. Raises JournalCorrupt when neither slot is whole."""
        for _ in range(_TRIES):
            head = decode_head(os.pread(self._descriptor, 2 * SLOT_BYTES, 0))
            if head is not None:
                return head
        raise _unusable(self._directory, "damaged")

    def replaced(self) -> bool:
        """Tell whether the file was removed or replaced since it was opened."""
        return os.fstat(self._descriptor).st_nlink == 0

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _unusable(directory: Path, how: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"the journal's head file in {directory} is {how}",
        hint="opening the journal for writing rebuilds it: start `jobwire serve`",
        segment=HEAD_NAME,
        position=0,
        reason=f"it is {how}",
    )


def create_head(files: FileSystem, directory: Path, head: Head) -> None:
    """Write a new head file durably, in place of a damaged one if there is one. Raises StorageError."""
    slots = {head.generation % 2: encode_slot(head)}
    data = b"".join(slots.get(number, bytes(SLOT_BYTES)) for number in (0, 1))
    replace_durably(directory / HEAD_NAME, data, files=files)


def publish_head(files: FileSystem, descriptor: int, head: Head) -> None:
    """Overwrite the older slot. Raises OSError."""
    files.write_at(descriptor, encode_slot(head), head.generation % 2 * SLOT_BYTES)
