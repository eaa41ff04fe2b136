"""Whatever happens to the files, a reader gets the stored entries or a named error, never wrong data."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobwire.core.errors import StorageError
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.errors import JournalCorrupt, JournalRecreated, JournalTruncated
from jobwire.journal.reader import JournalReader
from jobwire.journal.verify import verify
from jobwire.journal.writer import JournalWriter
from jobwire.testing import ManualClock

_ENTRIES = [Entry(10 * i, f"t/{i % 3}", b"%05d" % i * (i % 40), False, "accepted") for i in range(60)]
_NAMED = (JournalCorrupt, JournalTruncated, JournalRecreated)


def _write(directory: Path) -> None:
    with JournalWriter(directory, clock=ManualClock(), segment_bytes=3000) as writer:
        for start in range(0, 60, 6):
            writer.append(_ENTRIES[start : start + 6])


def _read(directory: Path) -> list[Stored]:
    rows: list[Stored] = []
    with JournalReader(directory) as reader:
        while batch := reader.read(len(rows), max_rows=25):
            rows.extend(batch)
    return rows


def _files(directory: Path) -> list[Path]:
    return sorted(
        path for path in directory.iterdir() if path.suffix in {".seg", ".idx"} or path.name == "head"
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_anywhere(memory_path: Path, data: st.DataObject) -> None:
    """One wrong byte in any file gives the entries before it and a named error, or changes nothing."""
    directory = memory_path / "journal"
    shutil.rmtree(directory, ignore_errors=True)
    _write(directory)
    path = data.draw(st.sampled_from(_files(directory)))
    content = bytearray(path.read_bytes())
    if content:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
    _only_true_rows(directory)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_cut_anywhere(memory_path: Path, data: st.DataObject) -> None:
    """A file that lost its end gives the entries before it and a named error."""
    directory = memory_path / "journal"
    shutil.rmtree(directory, ignore_errors=True)
    _write(directory)
    path = data.draw(st.sampled_from(_files(directory)))
    with path.open("r+b") as file:
        file.truncate(data.draw(st.integers(0, path.stat().st_size)))
    _only_true_rows(directory)


def _only_true_rows(directory: Path) -> None:
    rows: list[Stored] = []
    with contextlib.suppress(*_NAMED), JournalReader(directory) as reader:
        while batch := reader.read(len(rows), max_rows=7):
            rows.extend(batch)
    assert [row[1:] for row in rows] == [tuple(entry) for entry in _ENTRIES[: len(rows)]]
    with contextlib.suppress(StorageError):
        report = verify(directory)
        lost = [(damage.first_offset, damage.end_offset) for damage in report.damage]
        assert report.entries == _readable(report.durable_offset, lost)
    with contextlib.suppress(StorageError), JournalWriter(directory, clock=ManualClock()) as writer:
        assert writer.next_offset <= 60


def _readable(end: int, lost: list[tuple[int, int]]) -> int:
    return sum(1 for offset in range(end) if not any(a <= offset < b for a, b in lost))


def test_verify_names_the_lost_offsets_and_reading_goes_on_behind(memory_path: Path) -> None:
    """The report tells what damage took; the entries behind it are still read."""
    directory = memory_path / "journal"
    with JournalWriter(directory, clock=ManualClock()) as writer:
        for start in range(400):
            writer.append([Entry(start, "t", b"x" * 1000, False, "accepted")])
    path = directory / "00000000000000000000.seg"
    content = bytearray(path.read_bytes())
    content[5_000] ^= 1
    path.write_bytes(content)
    report = verify(directory)
    (damage,) = report.damage
    assert (damage.first_offset, damage.end_offset) == (4, 5)
    assert report.entries == 400 - (damage.end_offset - damage.first_offset)
    with JournalReader(directory) as reader:
        assert reader.read(damage.end_offset)[0].offset == damage.end_offset
        with pytest.raises(JournalCorrupt) as error:
            reader.read(damage.first_offset)
    assert error.value.facts["offset"] == damage.first_offset
    assert error.value.facts["segment"] == path.name


@pytest.mark.parametrize("lose", [lambda head: head.write_bytes(b"\0" * 1024), lambda head: head.unlink()])
def test_a_lost_head_file_is_rebuilt_with_the_same_identity(
    memory_path: Path, lose: Callable[[Path], object]
) -> None:
    """A reader says that it is lost and what brings it back: opening for writing makes it anew."""
    directory = memory_path / "journal"
    _write(directory)
    with JournalReader(directory) as reader:
        identity = reader.identity
    lose(directory / "head")
    with pytest.raises(JournalCorrupt, match="head file") as caught:
        JournalReader(directory)
    assert "jobwire serve" in caught.value.hint
    with JournalWriter(directory, clock=ManualClock()) as writer:
        assert (writer.identity, writer.next_offset) == (identity, 60)
    assert len(_read(directory)) == 60


@pytest.mark.parametrize(
    "harm",
    [
        lambda index: index.unlink(),
        lambda index: index.write_bytes(b""),
        lambda index: index.write_bytes(b"\xff" * 320),
        lambda index: index.write_bytes(index.read_bytes()[:50]),
    ],
)
def test_the_index_is_only_a_cache(harm: Callable[[Path], None], memory_path: Path) -> None:
    """Without, or with a damaged, index every offset and time is found all the same."""
    directory = memory_path / "journal"
    with JournalWriter(directory, clock=ManualClock()) as writer:
        for start in range(0, 400, 2):
            writer.append([Entry(start + i, "t", b"x" * 1000, False, "accepted") for i in range(2)])
    harm(directory / "00000000000000000000.idx")
    for offset in (0, 1, 211, 399):
        with JournalReader(directory) as reader:
            assert reader.read(offset, max_rows=1)[0].offset == offset
            assert reader.offset_at(offset) == offset
            spans = list(reader.scan(offset, 400, max_bytes=100_000))
            assert (spans[0].first_offset, spans[-1].end_offset) == (offset, 400)


def test_missing_durable_segments_stop_the_writer(memory_path: Path) -> None:
    """A writer does not go on over a hole: it names the missing file."""
    directory = memory_path / "journal"
    _write(directory)
    last = max(directory.glob("*.seg"))
    last.unlink()
    with pytest.raises(JournalCorrupt) as error:
        JournalWriter(directory, clock=ManualClock())
    assert error.value.facts["segment"] == last.name


def test_a_damaged_segment_header_takes_no_entry(memory_path: Path) -> None:
    """All is read, by offset and by time, and the next entry begins another segment."""
    directory = memory_path / "journal"
    _write(directory)
    last = max(directory.glob("*.seg"))
    for path in sorted(directory.glob("*.seg")):
        content = bytearray(path.read_bytes())
        content[20] ^= 1
        path.write_bytes(content)
    assert [row[1:] for row in _read(directory)] == [tuple(entry) for entry in _ENTRIES]
    with JournalReader(directory) as reader:
        assert [reader.offset_at(10 * number) for number in range(60)] == list(range(60))
    report = verify(directory)
    assert report.entries == 60
    assert [damage.reason for damage in report.damage] == ["segment header is damaged"] * report.segments
    with JournalWriter(directory, clock=ManualClock()) as writer:
        writer.append(_ENTRIES[:1])
    assert max(directory.glob("*.seg")) > last
    assert len(_read(directory)) == 61
