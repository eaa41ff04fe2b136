"""The reader: by offset and time, in bounds, following, and what it says when the journal changed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import InvalidInputError
from jobwire.journal.entry import Entry
from jobwire.journal.errors import JournalNotFound, JournalRecreated, JournalTruncated
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.scan import Block, load_span, loaded_blocks
from jobwire.journal.writer import JournalWriter
from jobwire.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZES = [1, 7, 1, 1, 50, 3, 20, 1, 9, 7]
_TOTAL = sum(_SIZES)


@pytest.fixture(scope="module")
def journal(make_folder: Callable[[], Path]) -> Path:
    """Give a journal of 100 entries in uneven batches over several segments; received_at = 1000 * offset."""
    directory = make_folder() / "j"
    with JournalWriter(directory, clock=ManualClock(), segment_bytes=1_200) as writer:
        for count in _SIZES:
            start = writer.next_offset
            writer.append(
                [
                    Entry(1000 * i, f"t/{i % 4}", b"p" * (i % 90), False, "ok")
                    for i in range(start, start + count)
                ]
            )
    return directory


def test_the_journal_has_several_segments(journal: Path) -> None:
    """The tests below cross segment borders."""
    assert len(list(journal.glob("*.seg"))) > 3


@given(start=st.integers(0, _TOTAL), rows=st.integers(1, 120), size=st.integers(1, 3_000))
def test_a_read_is_bounded_and_complete(journal: Path, start: int, rows: int, size: int) -> None:
    """A read gives the next entries without a gap, within both bounds, and at least one."""
    with JournalReader(journal) as reader:
        got = reader.read(start, max_rows=rows, max_bytes=size)
        following = reader.read(start + len(got), max_rows=1)
    assert [row.offset for row in got] == list(range(start, start + len(got)))
    assert all(row.received_at_us == 1000 * row.offset for row in got)
    if start == _TOTAL:
        assert got == []
        return
    assert 1 <= len(got) <= rows
    assert len(got) == 1 or sum(len(row.payload) for row in got) <= size
    if following and len(got) < rows:
        assert sum(len(row.payload) for row in [*got, *following]) > size, "it stopped before a bound"


@given(starts=st.lists(st.integers(0, _TOTAL - 1), max_size=8))
def test_jumping_about_reads_the_same(journal: Path, starts: list[int]) -> None:
    """What a reader remembers of its last place never changes what it reads."""
    with JournalReader(journal) as reader:
        for start in starts:
            rows = reader.read(start, max_rows=5)
            assert [row.offset for row in rows] == list(range(start, min(start + 5, _TOTAL)))


@given(start=st.integers(0, _TOTAL), length=st.integers(0, _TOTAL), size=st.integers(1, 5_000))
def test_spans_hold_exactly_the_range(journal: Path, start: int, length: int, size: int) -> None:
    """The spans of a range, loaded anywhere, hold its offsets once each."""
    end = min(_TOTAL, start + length)
    offsets: list[int] = []
    with JournalReader(journal) as reader:
        for span in reader.scan(start, end, max_bytes=size):
            for block in loaded_blocks(load_span(journal, span), span):
                assert isinstance(block, Block)
                rows = range(block.header.base_offset, block.header.end_offset)
                offsets.extend(row for row in rows if span.first_offset <= row < span.end_offset)
    assert offsets == list(range(start, end))


@given(start=st.integers(0, _TOTAL - 1), rows=st.integers(1, 200), size=st.integers(1, 100_000))
def test_a_limit_always_moves_on(journal: Path, start: int, rows: int, size: int) -> None:
    """Admission by rows and bytes gives a batch of at least one entry and never more rows than asked."""
    with JournalReader(journal) as reader:
        end = reader.limit(start, max_rows=rows, max_bytes=size)
    assert start < end <= min(_TOTAL, start + rows)


@pytest.mark.parametrize(
    ("received", "offset"), [(-5, 0), (0, 0), (1, 1), (56_000, 56), (56_001, 57), (10**9, _TOTAL)]
)
def test_a_time_is_found(journal: Path, received: int, offset: int) -> None:
    """The first entry received at that time or later."""
    with JournalReader(journal) as reader:
        assert reader.offset_at(received) == offset


def test_offsets_outside_are_named(journal: Path) -> None:
    """Past the end is truncation (somebody lost data), a negative offset is a mistake."""
    with JournalReader(journal) as reader:
        with pytest.raises(JournalTruncated) as error:
            reader.read(_TOTAL + 1)
        assert error.value.facts == {"wanted": 101, "first_offset": 0, "durable_offset": 100}
        with pytest.raises(InvalidInputError):
            reader.read(-1)
        with pytest.raises(JournalTruncated):
            list(reader.scan(0, _TOTAL + 1))


def test_no_journal_is_said_plainly(tmp_path: Path) -> None:
    """A directory that is missing or empty is not a corrupt journal."""
    for directory in (tmp_path, tmp_path / "none"):
        with pytest.raises(JournalNotFound) as error:
            JournalReader(directory)
        assert error.value.facts["directory"] == str(directory)


def test_a_journal_recreated_under_a_reader_is_noticed(tmp_path: Path) -> None:
    """An open reader does not silently go on in another journal, nor wait for ever on the old one."""
    directory = tmp_path / "j"
    with JournalWriter(directory, clock=ManualClock()) as writer:
        writer.append([Entry(1, "t", b"", False, "ok")])
    with JournalReader(directory) as reader:
        identity = reader.identity
        assert len(reader.read(0)) == 1
        shutil.rmtree(directory)
        with pytest.raises(JournalNotFound):
            reader.read(1)
        with JournalWriter(directory, clock=ManualClock()) as writer:
            writer.append([Entry(1, "t", b"", False, "ok")] * 5)
            recreated = str(writer.identity)
        with pytest.raises(JournalRecreated) as error:
            reader.read(1)
        assert error.value.facts == {"expected": identity, "found": recreated}


def test_a_pruned_offset_is_named_and_an_open_span_too(tmp_path: Path) -> None:
    """A reader that was overtaken by retention learns where the journal now begins."""
    directory = tmp_path / "j"
    clock = ManualClock()
    with JournalWriter(directory, clock=clock, segment_bytes=300) as writer, JournalReader(directory) as slow:
        for i in range(10):
            writer.append([Entry(i, "t", b"x" * 100, False, "ok")])
        (span,) = slow.scan(0, 1)
        clock.advance(1)
        Retention(directory, clock=clock, limits=RetentionPolicy(0, 0)).prune()
        first = slow.first_offset
        assert first > 0
        with pytest.raises(JournalTruncated) as error:
            slow.read(0)
        assert error.value.facts["first_offset"] == first
        assert slow.read(first)[0].offset == first
        with pytest.raises(JournalTruncated):
            load_span(directory, span)


def test_following_yields_each_entry_once_and_asks_whether_to_stop(tmp_path: Path) -> None:
    """A follower sees what was there and what comes, in order."""
    directory, clock = tmp_path / "j", ManualClock()
    seen: list[int] = []
    with JournalWriter(directory, clock=clock) as writer, JournalReader(directory, clock=clock) as reader:

        def stop() -> bool:
            if writer.next_offset < 50:
                writer.append([Entry(1, "t", b"", False, "ok")] * 10)
            return len(seen) >= 50

        batches: Iterator[list[int]] = (
            [row.offset for row in rows] for rows in reader.follow(0, stop=stop, max_rows=7)
        )
        for batch in batches:
            assert 0 < len(batch) <= 7
            seen.extend(batch)
    assert seen == list(range(50))
