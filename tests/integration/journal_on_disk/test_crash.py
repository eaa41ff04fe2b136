"""Killed, or without power, at every single call: the journal opens clean and keeps what it promised."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.journal.retention import Retention, RetentionPolicy
from jobwire.journal.verify import verify
from jobwire.journal.writer import JournalWriter
from jobwire.testing import ManualClock

_ENTRIES = [
    Entry(1_000_000 + i, f"python/mqtt/jobs/{i % 3:08x}/events", b"%d" % i * 50, i % 5 == 0, "accepted")
    for i in range(24)
]


class _Promises:
    """What the journal has promised up to the crash."""

    def __init__(self) -> None:
        self.durable = 0
        self.committed = -1


class _Case(NamedTuple):
    torn: bool
    power_cut: bool


def _scenario(directory: Path, files: Any, promises: _Promises) -> Iterator[JournalWriter]:
    """Append over three segments, commit, prune, close, open again, append: yields each open writer."""
    clock = ManualClock()

    def writer() -> JournalWriter:
        return JournalWriter(directory, clock=clock, files=files, segment_bytes=1000)

    consumers = Consumers(directory, clock=clock, files=files)
    with writer() as first:
        yield first
        for start in range(0, 12, 4):
            promises.durable = first.append(_ENTRIES[start : start + 4])
        promises.committed = consumers.register("fold", 0)
        promises.committed = consumers.commit("fold", 9)
        Retention(directory, clock=clock, limits=RetentionPolicy(0, 0), files=files).prune()
    with writer() as second:
        yield second
        for start in range(12, 24, 4):
            promises.durable = second.append(_ENTRIES[start : start + 4])
        promises.committed = consumers.commit("fold", 20)
        clock.advance(10)
        Retention(directory, clock=clock, limits=RetentionPolicy(0, 0), files=files).prune()


def _run(directory: Path, files: Any, crash: type[BaseException]) -> _Promises:
    promises = _Promises()
    open_writers: list[JournalWriter] = []
    try:
        open_writers.extend(_scenario(directory, files, promises))
    except crash:
        pass
    finally:
        for writer in open_writers:
            writer.close()
    return promises


def _check(directory: Path, promises: _Promises) -> None:
    with JournalWriter(directory, clock=ManualClock(), segment_bytes=1000) as writer:
        assert writer.next_offset >= promises.durable
        end = writer.append([_ENTRIES[0]])
    assert not list(directory.glob("*.tmp"))
    assert not verify(directory).damage
    with JournalReader(directory) as reader:
        rows = reader.read(reader.first_offset, max_rows=1000)
        assert [row.offset for row in rows] == list(range(reader.first_offset, end))
        assert [row[1:] for row in rows[:-1]] == [tuple(_ENTRIES[row.offset]) for row in rows[:-1]]
        if promises.committed >= 0:
            place = {one.name: one.offset for one in Consumers(directory).all()}["fold"]
            assert place >= promises.committed
            assert reader.first_offset <= place


@pytest.mark.parametrize("case", [_Case(False, False), _Case(True, False), _Case(False, True)], ids=str)
def test_every_call_may_be_the_last(
    case: _Case, dying_files: Callable[..., Any], crash: type[BaseException], memory_path: Path
) -> None:
    """Nothing acknowledged is lost and nothing half-written is seen, wherever the process dies."""
    whole = dying_files()
    _check_whole(memory_path / "whole", whole, crash)
    for dies_at in range(1, len(whole.calls) + 1):
        with tempfile.TemporaryDirectory(dir=memory_path) as name:
            directory = Path(name) / "journal"
            files = dying_files(dies_at=dies_at, torn=case.torn)
            promises = _run(directory, files, crash)
            assert files.dead
            if case.power_cut:
                files.power_cut()
            _check(directory, promises)


def _check_whole(directory: Path, files: Any, crash: type[BaseException]) -> None:
    promises = _run(directory, files, crash)
    assert promises.durable == len(_ENTRIES)
    _check(directory, promises)


def test_a_reader_after_a_kill_sees_only_what_was_durable(
    dying_files: Callable[..., Any], crash: type[BaseException], memory_path: Path
) -> None:
    """Between a kill and the next writer a reader gets the acknowledged entries, no more and no fewer."""
    count = len(_calls(dying_files, crash, memory_path / "count"))
    for dies_at in range(1, count + 1):
        directory = memory_path / str(dies_at)
        promises = _run(directory, dying_files(dies_at=dies_at), crash)
        try:
            with JournalReader(directory) as reader:
                assert promises.durable <= reader.durable_offset <= promises.durable + 4
                rows = reader.read(reader.first_offset, max_rows=1000)
                assert len(rows) == reader.durable_offset - reader.first_offset
        except JournalNotFound:
            assert promises.durable == 0


def _calls(dying_files: Callable[..., Any], crash: type[BaseException], directory: Path) -> list[str]:
    files = dying_files()
    _run(directory, files, crash)
    return list(files.calls)


def test_kept_entries_are_synced_before_they_are_shown(
    dying_files: Callable[..., Any], crash: type[BaseException], memory_path: Path
) -> None:
    """What opening keeps of an unacknowledged batch survives a power cut right after the opening."""
    directory = memory_path / "journal"
    JournalWriter(directory, clock=ManualClock()).close()
    opening = dying_files()
    JournalWriter(directory, clock=ManualClock(), files=opening).close()
    before_append = opening.calls.index("sync")  # closing syncs the index
    files = dying_files(dies_at=before_append + 2)  # the append's write is done, its sync is not
    with JournalWriter(directory, clock=ManualClock(), files=files) as writer, pytest.raises(crash):
        writer.append(_ENTRIES[:3])
    files = dying_files()
    with JournalWriter(directory, clock=ManualClock(), files=files) as writer:
        assert writer.repair is not None
        assert (writer.repair.kept_entries, writer.repair.discarded_bytes) == (3, 0)
        shown = JournalReader(directory).durable_offset
    write, truncate, sync = (files.calls.index(name) for name in ("write", "truncate", "sync"))
    assert shown == 3
    assert write < truncate < sync
