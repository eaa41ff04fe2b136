"""The one writer of a journal: append a batch, make it durable with one fsync, publish it.

Order of an append: write the blocks at the end of the segment, fdatasync, overwrite one slot of the
head file (now readers see it), note the place in the index. A kill between any two of these leaves
either nothing visible or the whole batch; see recovery.py for what opening does then.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Self
from uuid import uuid4

from jobwire.core.clock import Clock
from jobwire.core.errors import InvalidInputError, StorageError
from jobwire.journal.block import MAX_PAYLOAD_BYTES, encode_block
from jobwire.journal.entry import Entry
from jobwire.journal.errors import BadBlockError, corrupt
from jobwire.journal.head import HEAD_NAME, SLOT_BYTES, Head, create_head, decode_head, publish_head
from jobwire.journal.index import IndexEntry, IndexWriter, SegmentIndex
from jobwire.journal.recovery import Repair, check_against_head, find_tail, repair_tail
from jobwire.journal.segment import (
    NEVER_US,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    SegmentReader,
    encode_segment_header,
    index_name,
    list_segments,
    parse_segment_header,
    segment_name,
)
from jobwire.storage.durable import make_directories, remove_temporaries, replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.file_lock import acquire_sole, release
from jobwire.storage.files import FileSystem, SystemFiles

LOCK_NAME = "writer.lock"
SEGMENT_BYTES = 64 << 20
SEGMENT_SECONDS = 3600.0
# A block is the unit of checking and of a reader's memory: large enough that its fixed cost
# vanishes, small enough that one flipped bit costs little.
_BLOCK_BYTES = 1 << 20
_BLOCK_ROWS = 1 << 16
_MICROSECONDS = 1_000_000
_log = logging.getLogger(__name__)


class JournalWriter:
    """Appends to the journal in `directory`, which it creates; one at a time on each directory.

    Opening blocks for the repair of the last segment's end (`repair` tells what was done) and raises
    AlreadyRunningError (naming the writer's pid), JournalCorrupt (durable data is gone) or StorageError.
    Several threads may append; closing is for when they have ended. A segment is rolled when it would
    outgrow `segment_bytes` or is older than `segment_seconds`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        segment_bytes: int = SEGMENT_BYTES,
        segment_seconds: float = SEGMENT_SECONDS,
        files: FileSystem | None = None,
    ) -> None:
        self.directory = directory
        self.repair: Repair | None = None
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._segment_seconds = segment_seconds
        self._files = files if files is not None else SystemFiles()
        self._failed = ""
        self._guard = threading.Lock()
        self._descriptors: dict[str, int] = {}
        self._index: IndexWriter | None = None
        with _storage_errors("open the journal", directory):
            make_directories(directory, files=self._files)
            self._files.sync_directory(directory.absolute().parent)
        lock, what = directory / LOCK_NAME, f"writes the journal in {directory}"
        self._lock = acquire_sole(lock, clock=clock, what=what)
        try:
            with _storage_errors("open the journal", directory):
                self._open()
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> str:
        """Return the journal's UUID, made when the journal was."""
        return str(self._head.identity)

    @property
    def next_offset(self) -> int:
        """Return the offset that the next entry will get."""
        return self._head.end_offset

    def append(self, entries: Sequence[Entry]) -> int:
        """Store the batch and return the next offset; everything is on the disk on return.

        Blocks for one fsync. Raises InvalidInputError for an entry that cannot be stored, and
        StorageError when the disk refused: then nothing of the batch is visible, and the same append
        may be repeated once the cause is gone (`facts["disk_full"]`). Never partly visible; a batch
        of several megabytes may after a kill be found as a prefix of itself.
        """
        with self._guard:
            return self._append(entries)

    def _append(self, entries: Sequence[Entry]) -> int:
        self._check_usable()
        if not entries:
            return self.next_offset
        blocks, offset = [], self.next_offset
        for part in _split(entries):
            blocks.append(encode_block(offset, part))
            offset += len(part)
        data = b"".join(blocks)
        self._roll_before(len(data))
        position = self._head.durable_bytes
        descriptor = self._descriptors["segment"]
        try:
            self._files.write_at(descriptor, data, position)
            self._files.sync_all([descriptor])
        except OSError as error:
            self._take_back(error, position)
        received_before = self._head.received_max
        highest = max(received_before, *(entry.received_at_us for entry in entries))
        self._publish(self._head.segment_base, position + len(data), offset, highest)
        if self._index is not None:
            self._index.note(IndexEntry(offset - len(entries), position, received_before))
        return offset

    def roll_if_due(self) -> bool:
        """Begin a new segment if the present one is too old; for idle times, so that retention can work."""
        with self._guard:
            self._check_usable()
            return self._roll_before(0)

    def close(self) -> None:
        """Release the lock and all files; idempotent. Everything appended is durable already."""
        for descriptor in self._descriptors.values():
            with contextlib.suppress(OSError):
                self._files.close(descriptor)
        self._descriptors.clear()
        index, self._index = self._index, None
        try:
            if index is not None:
                index.close()
        finally:
            if self._lock >= 0:
                release(self._lock)
                self._lock = -1
            self._failed = self._failed or "it is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Opening

    def _open(self) -> None:
        remove_temporaries(self.directory, files=self._files)
        head = self._read_head()
        segments = list_segments(self.directory)
        if head is None:
            head = self._make_head(segments)
        check_against_head(head, segments, self.directory)
        if not segments:
            self._create_segment(head)
            segments = [head.end_offset]
        base = segments[-1]
        self._descriptors["head"] = self._files.open(self.directory / HEAD_NAME)
        self._descriptors["segment"] = self._files.open(self.directory / segment_name(base))
        with SegmentReader(self.directory, base, identity=head.identity) as segment:
            tail = find_tail(segment, SegmentIndex.load(self.directory, base), head)
            if tail.repair is not None:
                repair_tail(self._files, self._descriptors["segment"], segment, head, tail)
            # A damaged one is as good as old: the next entry begins another segment.
            self._created_us = 0 if segment.damage else segment.header.created_at_us
        self._index = IndexWriter(self._files, self.directory / index_name(base), tail.entries)
        self._head = head
        # A writer that was killed may have given names that are not on the disk yet.
        self._files.sync_directory(self.directory)
        self._publish(base, tail.position, tail.end_offset, tail.received_max)
        if tail.repair is not None:
            self.repair = tail.repair
            _log.warning("journal repaired: %s", tail.repair)

    def _read_head(self) -> Head | None:
        try:
            data = (self.directory / HEAD_NAME).read_bytes()
        except FileNotFoundError:
            return None
        return decode_head(data[: 2 * SLOT_BYTES])

    def _make_head(self, segments: list[int]) -> Head:
        """Make a new journal's head, or a lost one's from what the last segment says."""
        head = Head(uuid4(), 0, 0, 0, 0, NEVER_US)
        if segments:
            header = self._header_of(segments[-1])
            base = header.base_offset
            head = Head(header.identity, 0, base, 0, base, header.received_before)
            _log.warning("journal head file rebuilt from segment %s", segment_name(base))
        create_head(self._files, self.directory, head)
        return head

    def _header_of(self, base: int) -> SegmentHeader:
        path = self.directory / segment_name(base)
        try:
            with path.open("rb") as file:
                header = parse_segment_header(file.read(SEGMENT_HEADER_BYTES))
        except BadBlockError as error:
            raise corrupt(path.name, 0, error.reason) from error
        if header.base_offset != base:
            raise corrupt(path.name, 0, f"header says it begins at offset {header.base_offset}")
        return header

    # Segments

    def _roll_before(self, coming_bytes: int) -> bool:
        size = self._head.durable_bytes
        age_seconds = self._clock.now() - self._created_us / _MICROSECONDS
        if size == SEGMENT_HEADER_BYTES or (
            size + coming_bytes <= self._segment_bytes and age_seconds < self._segment_seconds
        ):
            return False
        try:
            self._create_segment(self._head)
        except StorageError as error:
            if (self.directory / segment_name(self.next_offset)).exists():
                # Only the directory's fsync failed: appending to the old segment would now give the
                # new one's offsets twice.
                self._failed = f"a new segment could not be made ({error.message})"
            raise
        self._switch_segment()
        return True

    def _create_segment(self, head: Head) -> None:
        header = SegmentHeader(
            head.identity, head.end_offset, int(self._clock.now() * _MICROSECONDS), head.received_max
        )
        path = self.directory / segment_name(head.end_offset)
        replace_durably(path, encode_segment_header(header), files=self._files)
        self._created_us = header.created_at_us

    def _switch_segment(self) -> None:
        base = self.next_offset
        try:
            self._files.close(self._descriptors.pop("segment"))
            self._descriptors["segment"] = self._files.open(self.directory / segment_name(base))
            if self._index is not None:
                self._index.close()
            self._index = IndexWriter(self._files, self.directory / index_name(base), [])
        except OSError as error:
            self._failed = f"the new segment could not be opened ({error.strerror})"
            raise storage_failure("open", self.directory / segment_name(base), error) from error
        self._publish(base, SEGMENT_HEADER_BYTES, base, self._head.received_max)

    # One append

    def _publish(self, segment_base: int, durable_bytes: int, end_offset: int, received_max: int) -> None:
        head = Head(
            self._head.identity,
            self._head.generation + 1,
            segment_base,
            durable_bytes,
            end_offset,
            received_max,
        )
        if head._replace(generation=self._head.generation) == self._head:
            return
        try:
            publish_head(self._files, self._descriptors["head"], head)
        except OSError as error:
            # The batch is durable yet invisible: going on would hide or double it.
            self._failed = f"the durable length could not be published ({error.strerror})"
            raise storage_failure("publish to", self.directory / HEAD_NAME, error) from error
        self._head = head

    def _take_back(self, cause: OSError, position: int) -> NoReturn:
        """Cut a failed write off again and raise StorageError."""
        path = self.directory / segment_name(self._head.segment_base)
        try:
            self._files.truncate(self._descriptors["segment"], position)
        except OSError as error:
            self._failed = f"a failed write could not be taken back ({error.strerror})"
        raise storage_failure("append to", path, cause) from cause

    def _check_usable(self) -> None:
        if self._failed:
            raise StorageError(
                f"the journal in {self.directory} cannot be written: {self._failed}",
                hint="open it again; opening repairs its end",
                directory=str(self.directory),
            )


@contextlib.contextmanager
def _storage_errors(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_failure(action, path, error) from error


def _split(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cut a batch into blocks by rows and bytes; one large entry is a block of its own."""
    start = size = 0
    for number, entry in enumerate(entries):
        length = len(entry.payload) + len(entry.topic)
        if length > MAX_PAYLOAD_BYTES:
            raise InvalidInputError(
                f"an entry of {length} bytes cannot be journaled",
                hint=f"the limit is {MAX_PAYLOAD_BYTES} bytes of topic and payload",
                length=length,
                limit=MAX_PAYLOAD_BYTES,
            )
        if number > start and (size + length > _BLOCK_BYTES or number - start >= _BLOCK_ROWS):
            yield entries[start:number]
            start, size = number, 0
        size += length
    yield entries[start:]
