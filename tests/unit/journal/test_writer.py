"""The writer: batches, rolling, errors, one at a time."""

import errno
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from jobwire.core.errors import InvalidInputError, StorageError
from jobwire.core.override import override
from jobwire.journal.block import MAX_PAYLOAD_BYTES
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.storage.file_lock import AlreadyRunningError
from jobwire.storage.files import StrPath, SystemFiles
from jobwire.testing import ManualClock


class FailingFiles(SystemFiles):
    """Fails the named call with `code` while `failing` is set."""

    def __init__(self, call: str, code: int = errno.ENOSPC) -> None:
        super().__init__()
        self._call = call
        self._code = code
        self.failing = False

    def _may(self, call: str) -> None:
        if self.failing and call == self._call:
            raise OSError(self._code, os.strerror(self._code))

    @override
    def write_at(self, descriptor: int, data: bytes, position: int) -> None:
        """Write half, as a disk that fills up does."""
        if self.failing and self._call == "write":
            super().write_at(descriptor, data[: len(data) // 2], position)
        self._may("write")
        super().write_at(descriptor, data, position)

    @override
    def sync_all(self, descriptors: Sequence[int]) -> None:
        """Sync, or fail."""
        self._may("sync")
        super().sync_all(descriptors)

    @override
    def truncate(self, descriptor: int, length: int) -> None:
        """Truncate, or fail."""
        self._may("truncate")
        super().truncate(descriptor, length)

    @override
    def create(self, path: StrPath, mode: int) -> int:
        """Create, or fail."""
        self._may("create")
        return super().create(path, mode)


def _entries(count: int, start: int = 0, size: int = 50) -> list[Entry]:
    return [Entry(start + i, "a/b", b"%d" % i + b"x" * size, False, "accepted") for i in range(count)]


def _open(directory: Path, **options: object) -> JournalWriter:
    return JournalWriter(directory, **{"clock": ManualClock(), **options})  # type: ignore[arg-type]  # options are checked at run time


def test_append_returns_the_next_offset_and_is_visible_at_once(tmp_path: Path) -> None:
    """What append returned is what a reader finds."""
    with _open(tmp_path / "j") as writer, JournalReader(tmp_path / "j") as reader:
        assert reader.read(0) == []
        assert writer.append(_entries(3)) == 3
        assert writer.append([]) == 3
        assert writer.append(_entries(2)) == 5
        assert reader.durable_offset == writer.next_offset == 5
        assert [row.offset for row in reader.read(0)] == [0, 1, 2, 3, 4]
        assert UUID(writer.identity) == UUID(reader.identity)


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    """Payloads are nobody else's business: directory 0700, files 0600."""
    with _open(tmp_path / "j") as writer:
        writer.append(_entries(1))
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "j").iterdir()} == {0o600}


def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """One writer on each directory, also within one process; closing frees it."""
    with _open(tmp_path / "j"):
        with pytest.raises(AlreadyRunningError) as error:
            _open(tmp_path / "j")
        assert error.value.facts["pid"] == os.getpid()
        assert str(os.getpid()) in error.value.message
    _open(tmp_path / "j").close()


def test_segments_roll_by_size(tmp_path: Path) -> None:
    """A batch that would outgrow the segment begins the next one."""
    with _open(tmp_path / "j", segment_bytes=1_000) as writer:
        for start in range(0, 40, 4):
            writer.append(_entries(4, start))
    names = sorted(p.name for p in (tmp_path / "j").glob("*.seg"))
    assert len(names) > 3
    assert all(p.stat().st_size <= 1_000 for p in (tmp_path / "j").glob("*.seg"))
    with JournalReader(tmp_path / "j") as reader:
        assert len(reader.read(0)) == 40


def test_segments_roll_by_age_also_after_a_restart(tmp_path: Path) -> None:
    """An old segment is closed at the next append, or when the idle writer is asked."""
    clock = ManualClock()
    with _open(tmp_path / "j", clock=clock, segment_seconds=60) as writer:
        assert writer.append(_entries(1)) == 1
        clock.advance(59)
        assert not writer.roll_if_due()
    with _open(tmp_path / "j", clock=clock, segment_seconds=60) as writer:
        clock.advance(2)
        assert writer.roll_if_due()
        assert not writer.roll_if_due(), "an empty segment is not rolled again"
        clock.advance(100)
        writer.append(_entries(1))
    assert len(list((tmp_path / "j").glob("*.seg"))) == 2


def test_a_large_batch_becomes_several_blocks(tmp_path: Path) -> None:
    """A block stays near a megabyte, whatever the batch."""
    with _open(tmp_path / "j") as writer:
        assert writer.append(_entries(30, size=100_000)) == 30
    with JournalReader(tmp_path / "j") as reader:
        assert [len(row.payload) > 100_000 for row in reader.read(0, max_bytes=1 << 30)] == [True] * 30


def test_an_oversized_entry_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    """The limit is told; the good entries of the same batch are not stored either."""
    with _open(tmp_path / "j") as writer:
        batch = [*_entries(2), Entry(1, "t", b"x" * (MAX_PAYLOAD_BYTES + 1), False, "accepted")]
        with pytest.raises(InvalidInputError) as error:
            writer.append(batch)
        assert error.value.facts["limit"] == MAX_PAYLOAD_BYTES
        assert writer.append(_entries(1)) == 1


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_full_disk_leaves_nothing_half_visible(call: str, tmp_path: Path) -> None:
    """A refused append can be repeated when there is room again; readers never saw a part of it."""
    files = FailingFiles(call)
    with _open(tmp_path / "j", files=files) as writer, JournalReader(tmp_path / "j") as reader:
        writer.append(_entries(2))
        files.failing = True
        for _ in range(2):
            with pytest.raises(StorageError) as error:
                writer.append(_entries(3, 100))
        assert error.value.facts["disk_full"] is True
        assert "free disk space" in error.value.hint
        assert (reader.durable_offset, len(reader.read(0))) == (2, 2)
        files.failing = False
        assert writer.append(_entries(3, 200)) == 5
        assert [row.received_at_us for row in reader.read(0)] == [0, 1, 200, 201, 202]


def test_a_full_disk_while_rolling_leaves_the_old_segment_in_use(tmp_path: Path) -> None:
    """Where no new segment can be made, the append fails and can be repeated."""
    files = FailingFiles("create")
    with _open(tmp_path / "j", files=files, segment_bytes=500) as writer:
        writer.append(_entries(5))
        files.failing = True
        with pytest.raises(StorageError):
            writer.append(_entries(5))
        files.failing = False
        assert writer.append(_entries(5)) == 10
    with JournalReader(tmp_path / "j") as reader:
        assert len(reader.read(0)) == 10


def test_a_write_that_cannot_be_taken_back_stops_the_writer(tmp_path: Path) -> None:
    """When even the truncation fails, the writer refuses until it is opened again."""

    class Worst(FailingFiles):
        @override
        def truncate(self, descriptor: int, length: int) -> None:
            self._call, before = "truncate", self._call
            try:
                super().truncate(descriptor, length)
            finally:
                self._call = before

    files = Worst("write", errno.EIO)
    with _open(tmp_path / "j", files=files) as writer:
        writer.append(_entries(2))
        files.failing = True
        with pytest.raises(StorageError):
            writer.append(_entries(3))
        files.failing = False
        with pytest.raises(StorageError, match="cannot be written"):
            writer.append(_entries(3))
    with _open(tmp_path / "j") as writer:
        assert writer.repair is not None
        assert writer.repair.discarded_bytes > 0
        assert writer.append(_entries(1)) == 3


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    """An append after close is an error, not a write."""
    writer = _open(tmp_path / "j")
    writer.close()
    writer.close()
    with pytest.raises(StorageError, match="closed"):
        writer.append(_entries(1))


def test_memory_does_not_grow_with_the_journal(tmp_path: Path) -> None:
    """Six times the entries take the writer no more memory."""
    batch = _entries(50)
    held = []
    with _open(tmp_path / "j", segment_bytes=200_000) as writer:
        tracemalloc.start()
        try:
            for appends in (20, 100):
                for _ in range(appends):
                    writer.append(batch)
                held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert writer.next_offset == 120 * len(batch)
    # An entry more would be 50 bytes, of 5,000 entries.
    assert held[1] - held[0] < 100_000, held


def test_a_clock_set_back_does_no_harm(tmp_path: Path) -> None:
    """Offsets rule: entries stay in the order of arrival, and a time is still found."""
    clock = ManualClock()
    with _open(tmp_path / "j", clock=clock, segment_bytes=400) as writer:
        for received in (100, 200, 50, 60, 300, 10):
            writer.append([Entry(received, "t", b"x" * 100, False, "accepted")])
            clock.set_wall(clock.now() - 1_000_000)
    with JournalReader(tmp_path / "j") as reader:
        assert [row.received_at_us for row in reader.read(0)] == [100, 200, 50, 60, 300, 10]
        assert [reader.offset_at(t) for t in (0, 100, 101, 201, 301)] == [0, 0, 1, 4, 6]
