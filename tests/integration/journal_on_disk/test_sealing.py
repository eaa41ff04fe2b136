"""Sealed files: each entry once and in order, whenever it was sealed and wherever the process died."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.errors import JournalCorrupt, JournalTruncated
from jobwire.journal.history import History, load_sealed, sealed_batches
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.seal import SCHEMA, SEAL_LOCK, seal
from jobwire.journal.writer import JournalWriter
from jobwire.storage.file_lock import AlreadyRunningError, sole
from jobwire.testing import ManualClock
from jobwire.testing.rehearsal import Rehearsal

ENTRIES = list(Rehearsal(seed=12, jobs=6))[:48]
TOPICS = Topics()


def write(directory: Path, entries: list[Entry], *, segment_bytes: int = 2000) -> str:
    """Append the entries by fours; return the journal's identity."""
    with JournalWriter(directory, clock=ManualClock(), segment_bytes=segment_bytes) as writer:
        for start in range(0, len(entries), 4):
            writer.append(entries[start : start + 4])
    with JournalReader(directory) as reader:
        return reader.identity


def sealed(directory: Path, place: Path, *, files: Any = None, **options: Any) -> int:
    """Seal what is due; return the offset that was reached."""
    history = History(str(place), files=files)
    ends = list(seal(directory, history, clock=ManualClock(), topics=TOPICS, files=files, **options))
    return ends[-1] if ends else 0


def rows(place: Path) -> list[dict[str, Any]]:
    """Read the folder as any reader of Parquet does: all files that are not hidden."""
    table = pyarrow.dataset.dataset(place, partitioning="hive").to_table()
    found: list[dict[str, Any]] = table.sort_by("offset").to_pylist()
    return found


def check(place: Path, end: int, entries: list[Entry] = ENTRIES) -> None:
    """Hold that the folder has exactly the entries below `end`, byte for byte."""
    found = rows(place)
    assert [row["offset"] for row in found] == list(range(end))
    for row, entry in zip(found, entries, strict=False):
        assert (row["payload"], row["topic"], row["verdict"]) == (entry.payload, entry.topic, entry.verdict)
        assert row["received_at"].timestamp() * 1e6 == pytest.approx(entry.received_at_us, abs=1)
        assert (row["seq"] is not None) == (entry.verdict == "accepted")


def test_a_folder_of_sealed_files_is_the_journal(tmp_path: Path) -> None:
    """Pyarrow reads the folder as it is: raw bytes, verdicts, parsed columns; a second seal adds nothing."""
    identity = write(tmp_path / "journal", ENTRIES)
    assert sealed(tmp_path / "journal", tmp_path / "history") == len(ENTRIES)
    check(tmp_path / "history", len(ENTRIES))
    files = History(str(tmp_path / "history")).sealed(identity)
    assert len(files) > 3
    assert sealed(tmp_path / "journal", tmp_path / "history") == 0
    assert History(str(tmp_path / "history")).sealed(identity) == files
    assert {row["journal"] for row in rows(tmp_path / "history")} == {identity}
    assert Path(files[0].place).stat().st_mode & 0o777 == 0o600
    batches = pyarrow.dataset.dataset(files[0].place).to_table()
    assert batches.schema.names == SCHEMA.names


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "closed", "all"])), max_size=12),
    segment_bytes=st.integers(600, 6000),
)
def test_whenever_it_is_sealed_each_entry_is_there_once(
    memory_path: Path, steps: list[tuple[int, str]], segment_bytes: int
) -> None:
    """Appends and seals in any order: the files are the entries, without a gap and without a repetition."""
    with tempfile.TemporaryDirectory(dir=memory_path) as name:
        journal, place = Path(name) / "journal", Path(name) / "history"
        written = 0
        with JournalWriter(journal, clock=ManualClock(), segment_bytes=segment_bytes) as writer:
            for batches, what in [*steps, (0, "all")]:
                for _ in range(batches):
                    part = ENTRIES[written : written + 3]
                    written = writer.append(part) if part else written
                if what:
                    sealed(journal, place, closed_only=what == "closed")
        if written:
            check(place, written)


def test_the_growing_segment_is_left_alone_where_that_is_asked(tmp_path: Path) -> None:
    """Closed segments only: the sealed end is where the last segment begins, which then becomes one file."""
    identity = write(tmp_path / "journal", ENTRIES)
    reached = sealed(tmp_path / "journal", tmp_path / "history", closed_only=True)
    assert reached == int(max(path.stem for path in (tmp_path / "journal").glob("*.seg")))
    assert sealed(tmp_path / "journal", tmp_path / "history") == len(ENTRIES)
    last = History(str(tmp_path / "history")).sealed(identity)[-1]
    assert (last.first_offset, last.end_offset) == (reached, len(ENTRIES))


@pytest.mark.parametrize("case", ["killed", "torn", "power cut"])
def test_every_call_may_be_the_last_of_a_seal(
    case: str, dying_files: Callable[..., Any], crash: type[BaseException], memory_path: Path
) -> None:
    """Wherever it dies: whole files only, all that was told, and after the next seal the rest."""
    journal = memory_path / "journal"
    identity = write(journal, ENTRIES[:20])
    whole = dying_files()
    sealed(journal, memory_path / "whole", files=whole)
    assert len(whole.calls) > 10
    for dies_at in range(1, len(whole.calls) + 1):
        with tempfile.TemporaryDirectory(dir=memory_path) as name:
            place = Path(name) / "history"
            files, told = dying_files(dies_at=dies_at, torn=case == "torn"), 0
            try:
                history = History(str(place), files=files)
                for end in seal(journal, history, clock=ManualClock(), topics=TOPICS, files=files):
                    told = end
            except crash:
                pass
            assert files.dead
            if case == "power cut":
                files.power_cut()
            found = History(str(place)).sealed(identity)
            end = found[-1].end_offset if found else 0
            assert end >= told
            if found:
                check(place, end)
            sealed(journal, place)
            check(place, 20)


def test_one_process_seals_at_a_time(tmp_path: Path) -> None:
    """A second one is told who is at it, and writes nothing."""
    write(tmp_path / "journal", ENTRIES)
    lock = tmp_path / "journal" / SEAL_LOCK
    with sole(lock, clock=ManualClock(), what="tests"), pytest.raises(AlreadyRunningError):
        sealed(tmp_path / "journal", tmp_path / "history")
    assert not (tmp_path / "history").exists()


def test_what_was_pruned_unsealed_is_told_once_and_skipped_where_allowed(tmp_path: Path) -> None:
    """Entries that nobody sealed leave a hole that is named, never one that is passed over in silence."""
    journal, place = tmp_path / "journal", tmp_path / "history"
    identity = write(journal, ENTRIES[:8])
    assert sealed(journal, place) == 8
    write(journal, ENTRIES[8:])
    clock = ManualClock()
    Retention(journal, clock=clock, limits=RetentionPolicy(0, 0)).prune()
    with pytest.raises(JournalTruncated):
        sealed(journal, place)
    assert sealed(journal, place, skip_lost=True) == len(ENTRIES)
    history = History(str(place))
    with JournalReader(journal) as reader:
        first = reader.first_offset
    assert first > 8
    assert history.reaching(identity, len(ENTRIES)) == first
    assert [span.end_offset for span in history.scan(identity, 2, 8)][-1] == 8
    with pytest.raises(JournalTruncated):
        list(history.scan(identity, 2, len(ENTRIES)))


def test_a_part_of_a_file_is_read_by_its_offsets(tmp_path: Path) -> None:
    """A scan cuts the first and the last file to the offsets that were asked for, columns as asked."""
    identity = write(tmp_path / "journal", ENTRIES)
    sealed(tmp_path / "journal", tmp_path / "history")
    spans = list(History(str(tmp_path / "history")).scan(identity, 5, 31))
    read = [
        batch for span in spans for batch in sealed_batches(load_sealed(span), span, ["payload", "offset"])
    ]
    assert {tuple(batch.schema.names) for batch in read} == {("payload", "offset")}
    assert [n for batch in read for n in batch.column("offset").to_pylist()] == list(range(5, 31))
    payloads = [payload for batch in read for payload in batch.column("payload").to_pylist()]
    assert payloads == [entry.payload for entry in ENTRIES[5:31]]


def test_damage_is_told_and_never_read_as_rows(tmp_path: Path) -> None:
    """A flipped bit anywhere in a file, or a cut file, is JournalCorrupt with the file's name."""
    identity = write(tmp_path / "journal", ENTRIES)
    sealed(tmp_path / "journal", tmp_path / "history")
    span = next(History(str(tmp_path / "history")).scan(identity, 0, len(ENTRIES)))
    sound = load_sealed(span)
    for place in range(0, len(sound), len(sound) // 60):
        damaged = bytearray(sound)
        damaged[place] ^= 0x10
        Path(span.segment).write_bytes(damaged)
        with pytest.raises(JournalCorrupt, match=Path(span.segment).name):
            load_sealed(span)
    Path(span.segment).write_bytes(sound[: len(sound) // 2])
    with pytest.raises(JournalCorrupt):
        load_sealed(span)
