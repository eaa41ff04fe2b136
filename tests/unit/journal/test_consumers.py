"""Consumers and retention: nothing is removed that somebody registered still needs."""

import logging
import os
import shutil
from pathlib import Path

import pytest

from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry
from jobwire.journal.errors import JournalCorrupt, JournalRecreated
from jobwire.journal.index import IndexEntry, encode_index_entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.writer import JournalWriter
from jobwire.testing import ManualClock

_DAY = 86400.0


@pytest.fixture
def clock() -> ManualClock:
    """Give the one clock of a test."""
    return ManualClock()


@pytest.fixture
def directory(tmp_path: Path, clock: ManualClock) -> Path:
    """Give a journal of ten segments of two entries, closed an hour apart."""
    with JournalWriter(tmp_path / "j", clock=clock, segment_bytes=300) as writer:
        for i in range(10):
            writer.append([Entry(i, "t", b"x" * 60, False, "accepted")] * 2)
            clock.advance(3600)
    assert len(list((tmp_path / "j").glob("*.seg"))) == 10
    return tmp_path / "j"


def test_a_consumer_keeps_its_place(directory: Path, clock: ManualClock) -> None:
    """Registering again changes nothing; a commit moves forward only."""
    consumers = Consumers(directory, clock=clock)
    assert consumers.all() == []
    assert consumers.register("fold") == 0
    assert consumers.commit("fold", 5) == 5
    assert consumers.commit("fold", 3) == 5
    assert consumers.register("fold", 0) == 5
    assert consumers.register("metrics", 2) == 2
    assert [(c.name, c.offset) for c in consumers.all()] == [("fold", 5), ("metrics", 2)]
    assert Consumers(directory).register("fold") == 5
    assert consumers.remove("fold").offset == 5
    with pytest.raises(NotFoundError):
        consumers.commit("fold", 5)


def test_unusable_commits_are_refused(directory: Path) -> None:
    """A place past the end, an unknown consumer and a name that is no file name are mistakes."""
    consumers = Consumers(directory)
    with pytest.raises(NotFoundError):
        consumers.commit("fold", 1)
    with pytest.raises(InvalidInputError):
        consumers.register("../evil")
    consumers.register("fold")
    for offset in (21, 10**12):
        with pytest.raises(InvalidInputError):
            consumers.commit("fold", offset)
    assert consumers.commit("fold", 20) == 20


def test_a_place_in_another_journal_is_not_believed(directory: Path, clock: ManualClock) -> None:
    """After the journal was recreated, a kept consumer file raises instead of skipping entries."""
    consumers = Consumers(directory, clock=clock)
    consumers.register("fold")
    kept = (directory / "consumers" / "fold.json").read_bytes()
    shutil.rmtree(directory)
    with JournalWriter(directory, clock=clock) as writer:
        writer.append([Entry(1, "t", b"", False, "accepted")] * 30)
    (directory / "consumers").mkdir()
    (directory / "consumers" / "fold.json").write_bytes(kept)
    for use in (consumers.register, lambda name: consumers.commit(name, 9)):
        with pytest.raises(JournalRecreated):
            use("fold")
    consumers.remove("fold")
    assert consumers.register("fold") == 0


def test_an_unreadable_place_is_reported(directory: Path) -> None:
    """A damaged file is an error with the file's name, not offset 0."""
    consumers = Consumers(directory)
    consumers.register("fold")
    path = directory / "consumers" / "fold.json"
    for content in (b"", b"{", b"[]", b'{"offset": "x"}'):
        path.write_bytes(content)
        with pytest.raises(JournalCorrupt) as error:
            consumers.register("fold")
        assert error.value.facts["segment"] == str(path)


def test_age_prunes_what_everybody_has_read(directory: Path, clock: ManualClock) -> None:
    """Segments closed longer ago than the limit go, the others stay."""
    report = Retention(directory, clock=clock, limits=RetentionPolicy(keep_seconds=4.5 * 3600)).prune()
    assert (len(report.segments), report.first_offset) == (5, 10)
    with JournalReader(directory) as reader:
        assert reader.first_offset == 10
        assert reader.read(10)[0].offset == 10


@pytest.mark.parametrize("indexed", [True, False], ids=["by the index", "by the file's time"])
def test_a_damaged_header_does_not_stop_pruning(
    directory: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, *, indexed: bool
) -> None:
    """Its age is known from the index, else from the file, so that nothing goes too soon; it is counted."""
    limits = RetentionPolicy(keep_seconds=4.5 * 3600)
    closed_at_us = int((clock.now() - 4.6 * 3600) * 1e6)
    path = directory / "00000000000000000010.seg"
    with path.open("r+b") as file:
        file.seek(20)
        file.write(b"\xff\xff\xff")
    if indexed:
        path.with_suffix(".idx").write_bytes(encode_index_entry(IndexEntry(11, 100, closed_at_us)))
    else:
        os.utime(path, ns=(0, closed_at_us * 1000))
    report = Retention(directory, clock=clock, limits=limits).prune()
    assert (report.first_offset, report.damaged) == (10, 1)
    assert "its age" in caplog.text
    clock.advance(100 * 3600)
    again = Retention(directory, clock=clock, limits=limits).prune()
    assert (again.first_offset, again.damaged) == (18, 0)


def test_size_prunes_the_oldest(directory: Path, clock: ManualClock) -> None:
    """Above the size limit the oldest go until it holds; the last segment always stays."""
    size = sum(p.stat().st_size for p in directory.glob("*.seg"))
    report = Retention(directory, clock=clock, limits=RetentionPolicy(_DAY, size // 2)).prune()
    assert report.kept_bytes <= size // 2
    assert report.bytes + report.kept_bytes == size
    Retention(directory, clock=clock, limits=RetentionPolicy(0, 0)).prune()
    assert [p.name for p in directory.glob("*.seg")] == ["00000000000000000018.seg"]
    assert len(list(directory.glob("*.idx"))) == 1


def test_the_slowest_consumer_holds_retention_back(
    directory: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the limits say, unread segments stay, and the log names who holds them."""
    consumers = Consumers(directory, clock=clock)
    consumers.register("fast", 20)
    consumers.register("slow", 7)
    retention = Retention(directory, clock=clock, limits=RetentionPolicy(0, 0))
    assert len(retention.prune(dry_run=True).segments) == 3
    report = retention.prune()
    assert (report.first_offset, report.held_by, report.lost) == (6, "slow", {})
    assert "slow" in caplog.text
    consumers.commit("slow", 20)
    assert retention.prune().first_offset == 18


@pytest.mark.parametrize("policy", [RetentionPolicy(0, 0, 4.5 * 3600), RetentionPolicy(0, 0, lag_bytes=1700)])
def test_a_consumer_is_not_waited_for_without_end(
    policy: RetentionPolicy, directory: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond its lag unread segments go, each consumer's loss is told, and within it they stay."""
    consumers = Consumers(directory, clock=clock)
    consumers.register("gone", 1)
    consumers.register("slow", 7)
    consumers.register("fast", 20)
    retention = Retention(directory, clock=clock, limits=policy)
    assert retention.prune(dry_run=True).lost == {"gone": 9, "slow": 3}
    report = retention.prune()
    assert (report.first_offset, report.held_by, report.lost) == (10, "gone", {"gone": 9, "slow": 3})
    told = [record for record in caplog.records if "taken unread" in record.message]
    assert [record.levelno for record in told] == [logging.ERROR]
    assert retention.prune().segments == []
    consumers.commit("gone", 15)
    assert retention.prune(dry_run=True).held_by == "slow"


def test_force_takes_unread_segments_and_says_from_whom(
    directory: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Forced pruning is loud: an error in the log, and the number of entries each consumer loses."""
    consumers = Consumers(directory, clock=clock)
    consumers.register("fast", 20)
    consumers.register("slow", 7)
    report = Retention(directory, clock=clock, limits=RetentionPolicy(0, 0)).prune(force=True)
    assert (report.first_offset, report.lost) == (18, {"slow": 11})
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
