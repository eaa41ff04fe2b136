"""The outbox beside a ticket: what was appended is there, whatever happened to the end of the file."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.canonical import canonical_json
from jobwire.core.errors import StorageError
from jobwire.core.override import override
from jobwire.delivery.outbox import SentMark, SignedEvent
from jobwire.delivery.outbox_file import REWRITE_BYTES, OutboxFile, decode_entry, encode_entry
from jobwire.storage.files import SystemFiles


def _entry(seq: int, *, attempt: int = 1, detail: str = "x") -> SignedEvent:
    return SignedEvent(seq, attempt, "progress", False, canonical_json({"seq": seq, "detail": detail}))


def _filled(folder: Path, count: int) -> OutboxFile:
    outbox = OutboxFile(folder / "0a1b2c3d.ndjson")
    for seq in range(1, count + 1):
        outbox.append(_entry(seq))
    return outbox


@given(
    st.integers(1, 2**53 - 1),
    st.integers(1, 99),
    st.sampled_from(["started", "completed"]),
    st.booleans(),
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), st.text(st.characters(codec="utf-8"))),
)
def test_entry_round_trip(seq: int, attempt: int, event: str, retain: bool, data: dict[str, str]) -> None:
    """An entry is one line, and its payload comes back byte for byte."""
    entry = SignedEvent(seq, attempt, event, retain, canonical_json(data))
    line = encode_entry(entry)
    assert line.count(b"\n") == 1
    assert decode_entry(line) == entry


@given(st.binary(max_size=120))
def test_any_line_is_an_entry_or_none(line: bytes) -> None:
    """Whatever a line holds, decoding it never raises."""
    decode_entry(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"seq":true,"attempt":1,"event":"error","retain":false,"payload":""}',
        b'{"seq":1,"attempt":1,"event":"shout","retain":false,"payload":""}',
        b'{"seq":0,"attempt":1,"event":"error","retain":false,"payload":""}',
        b'{"seq":1,"attempt":1,"event":"error","retain":0,"payload":""}',
        b'{"seq":1,"attempt":1,"event":"error","retain":false,"payload":7}',
        b"[" * 100_000,
    ],
)
def test_a_line_of_other_types_is_no_entry(line: bytes) -> None:
    """Only the exact types make an entry."""
    assert decode_entry(line) is None


def test_an_absent_outbox_is_empty(tmp_path: Path) -> None:
    """A job that never published has no entries and no mark."""
    outbox = OutboxFile(tmp_path / "0a1b2c3d.ndjson")
    assert (outbox.entries(), outbox.last_seq, outbox.mark.read()) == ([], 0, SentMark())
    outbox.trim(5)
    outbox.remove()


def test_truncation_at_every_byte_loses_only_the_torn_line(tmp_path: Path) -> None:
    """However much of the last line a crash left, the whole ones are read and the next append is clean."""
    whole = [encode_entry(_entry(seq, detail="ä€𝄞")) for seq in (1, 2, 3)]
    content = b"".join(whole)
    path = tmp_path / "0a1b2c3d.ndjson"
    # Every byte of the last line, and of its neighbour some: each length costs a write to the disk.
    last = len(content) - len(whole[-1])
    for length in [*range(0, last, 7), *range(last, len(content) + 1)]:
        path.write_bytes(content[:length])
        kept = content[:length].count(b"\n")
        outbox = OutboxFile(path)
        assert [entry.seq for entry in outbox.entries()] == list(range(1, kept + 1))
        assert outbox.last_seq == kept
        outbox.append(_entry(kept + 1))
        assert [entry.seq for entry in outbox.entries()] == list(range(1, kept + 2))


def test_a_damaged_line_does_not_hold_up_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line that cannot be read is reported with its place and left out."""
    outbox = _filled(tmp_path, 3)
    path = Path(outbox.path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0\0\0garbage\n" + lines[2])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert [entry.seq for entry in outbox.entries()] == [1, 3]
    assert [record.getMessage() for record in caplog.records] == [
        f"line 2 of {path} cannot be read and is left out"
    ]


def test_damage_is_set_aside_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The lines that cannot be read lie beside the outbox, the others stay as they were, byte for byte."""
    outbox = _filled(tmp_path, 3)
    path = Path(outbox.path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0\0garbage\n" + lines[2] + b"{}\n" + b"torn")
    with caplog.at_level(logging.WARNING):
        assert [outbox.set_aside(), outbox.set_aside()] == [2, 0]
    assert path.read_bytes() == lines[0] + lines[2]
    assert Path(f"{path}.damaged").read_bytes() == b"\0\0garbage\n{}\n"
    assert len(caplog.records) == 1
    outbox.remove()
    assert [file.name for file in tmp_path.iterdir()] == ["0a1b2c3d.ndjson.damaged"]


def test_the_last_entry_is_found_behind_much_else(tmp_path: Path) -> None:
    """Reading the end of a large outbox finds the newest entry, also where it is of the largest size."""
    outbox = _filled(tmp_path, 1)
    Path(outbox.path).write_bytes(b"".join(encode_entry(_entry(seq)) for seq in range(1, 2500)))
    outbox.append(_entry(2500, detail='"' * 32_000))
    assert outbox.last_seq == 2500
    outbox.append(_entry(2501))
    assert outbox.last_seq == 2501


def test_each_seq_comes_once_and_in_order(tmp_path: Path) -> None:
    """A rewritten seq counts as its last line says."""
    outbox = OutboxFile(tmp_path / "0a1b2c3d.ndjson")
    for seq in (2, 1, 2):
        outbox.append(_entry(seq))
    assert [entry.seq for entry in outbox.entries()] == [1, 2]
    assert [entry.seq for entry in outbox.entries(after=1)] == [2]


def test_trimming_beside_a_ticket_keeps_the_last_entry(tmp_path: Path) -> None:
    """Beside a ticket the last entry is the memory of the job's seq."""
    outbox = OutboxFile(tmp_path / "ticket.outbox")
    for seq in range(1, 4):
        outbox.append(_entry(seq, detail="x" * REWRITE_BYTES))
    outbox.trim(3)
    assert [entry.seq for entry in outbox.entries()] == [3]


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=6), st.integers(0, 7))
def test_trimming_never_loses_an_unconfirmed_entry(
    make_folder: Callable[[], Path], sizes: list[int], through: int
) -> None:
    """Whatever is trimmed, what comes after it stays."""
    outbox = OutboxFile(make_folder() / "0a1b2c3d.ndjson")
    for seq, size in enumerate(sizes, 1):
        outbox.append(_entry(seq, detail="d" * size))
    outbox.trim(through)
    assert [entry.seq for entry in outbox.entries(after=through)] == list(range(through + 1, len(sizes) + 1))


def test_a_full_disk_leaves_nothing_of_the_entry(tmp_path: Path) -> None:
    """An append that fails half-way is taken back and says so."""

    class FullDisk(SystemFiles):
        @override
        def write(self, descriptor: int, data: bytes) -> None:
            super().write(descriptor, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

    outbox = _filled(tmp_path, 2)
    with pytest.raises(StorageError) as failed:
        OutboxFile(outbox.path, files=FullDisk()).append(_entry(3))
    assert failed.value.facts["disk_full"]
    assert [entry.seq for entry in outbox.entries()] == [1, 2]
    assert Path(outbox.path).read_bytes().endswith(b"\n")


@given(st.integers(0, 2**53 - 1), st.floats(0, 2e9), st.integers(0, 50), st.floats(0, 1e9))
def test_the_mark_round_trips(
    make_folder: Callable[[], Path], seq: int, sent_at: float, repeats: int, failed_at: float
) -> None:
    """The sent mark reads back as noted, also over a longer one."""
    outbox = OutboxFile(make_folder() / "0a1b2c3d.ndjson")
    outbox.mark.write(SentMark(2**53 - 1, 1.23456789e9, 50, 1.23456789e8, "a-rather-long-host.example:8883"))
    mark = SentMark(seq, sent_at, repeats, failed_at, "b:1")
    outbox.mark.write(mark)
    assert outbox.mark.read() == mark


@pytest.mark.parametrize("content", [b"", b"[1", b"[1,2]", b"null", b'["x",1,2,3,""]', b"\xff"])
def test_a_damaged_mark_counts_as_none(tmp_path: Path, content: bytes) -> None:
    """Without a readable mark everything is sent once more, which is harmless."""
    outbox = OutboxFile(tmp_path / "0a1b2c3d.ndjson")
    (tmp_path / "0a1b2c3d.sent").write_bytes(content)
    assert outbox.mark.read() == SentMark()


def test_a_mark_that_cannot_be_written_is_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Losing the mark costs a redelivery, so it is no error."""
    outbox = OutboxFile(tmp_path / "missing" / "0a1b2c3d.ndjson")
    outbox.mark.write(SentMark(1))
    assert "cannot note" in caplog.text
