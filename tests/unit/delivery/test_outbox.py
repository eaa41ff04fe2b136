"""What is due is one rule, and every outbox keeps one contract: the ticket's file and the home's history."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from jobwire.core.canonical import canonical_json
from jobwire.core.clock import utc_timestamp
from jobwire.delivery.outbox import (
    RESEND_SECONDS,
    Outbox,
    Position,
    SentMark,
    SentMarkFile,
    SignedEvent,
    due_entries,
    mark_after,
)
from jobwire.delivery.outbox_file import OutboxFile
from jobwire.registry.audit import PUBLISHER, AuditLog, event_line, payload_digest, status_line
from jobwire.registry.history_outbox import HistoryOutbox
from jobwire.storage.durable import append_durably
from jobwire.storage.files import SystemFiles

AT = utc_timestamp(1.8e9)


def _entry(seq: int, *, attempt: int = 1, detail: str = "x") -> SignedEvent:
    body = {"seq": seq, "event": "progress", "detail": detail, "data": {"b": 1, "a": "é€\u2028𝄞"}}
    return SignedEvent(seq, attempt, "progress", False, canonical_json(body))


class InFile:
    """The outbox beside a ticket."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "job.ticket.outbox"
        self.outbox = OutboxFile(self.file)

    def add(self, *entries: SignedEvent, source: str = PUBLISHER) -> None:
        """Append the events; those of others never stand in this one."""
        for entry in entries:
            if source == PUBLISHER:
                self.outbox.append(entry)


class InHistory:
    """The outbox in a home."""

    def __init__(self, folder: Path) -> None:
        self.log = AuditLog(str(folder / "logs"))
        self.file = Path(self.log.events_path)
        self.outbox = HistoryOutbox(self.log, str(folder / "0a1b2c3d.sent"))

    def add(self, *entries: SignedEvent, source: str = PUBLISHER, verdict: str = "accepted") -> None:
        """Append the events' lines, the first of which changes the state."""
        append_durably(
            self.log.events_path,
            b"".join(self.line(entry, source, verdict) for entry in entries),
            files=SystemFiles(),
        )

    @staticmethod
    def line(entry: SignedEvent, source: str = PUBLISHER, verdict: str = "accepted") -> bytes:
        """Return an event's line."""
        return event_line(
            at=AT,
            source=source,
            verdict=verdict,
            attempt=entry.attempt,
            seq=entry.seq,
            digest=payload_digest(entry.payload),
            payload=entry.payload,
            change=("pending", "running") if entry.seq == 1 else None,
        )[0]


Kind = Callable[[Path], InFile | InHistory]
BOTH = pytest.mark.parametrize("kind", [InFile, InHistory])


def _seqs(outbox: Outbox, after: int = 0) -> list[int]:
    return [entry.seq for entry in outbox.entries(after=after)]


@BOTH
def test_events_come_back_byte_for_byte(kind: Kind, tmp_path: Path) -> None:
    """What was signed is what is sent, in the order of seq, whatever the bytes are."""
    said = [_entry(seq, detail=text) for seq, text in enumerate(("", '"}\n', ',"event":{', "é" * 1024), 1)]
    said.append(_entry(5, detail="x" * 60_000))
    kept = kind(tmp_path)
    kept.add(*said)
    assert list(kept.outbox.entries()) == said
    assert kept.outbox.last() == said[-1]
    assert [_seqs(kept.outbox, after) for after in (1, 4, 5, 9)] == [[2, 3, 4, 5], [5], [], []]


@BOTH
def test_an_empty_outbox_has_nothing(kind: Kind, tmp_path: Path) -> None:
    """A job that never spoke has no events and no mark."""
    outbox = kind(tmp_path).outbox
    assert (list(outbox.entries()), outbox.last(), outbox.last_seq) == ([], None, 0)
    assert outbox.mark.read() == SentMark()


@BOTH
def test_a_torn_line_is_not_there(kind: Kind, tmp_path: Path) -> None:
    """However much of the last line a crash left, the whole ones are read and the next append is clean."""
    kept = kind(tmp_path)
    kept.add(_entry(1), _entry(2))
    content = kept.file.read_bytes()
    for length in range(content.index(b"\n") + 1, len(content)):
        kept.file.write_bytes(content[:length])
        assert (_seqs(kept.outbox), kept.outbox.last_seq) == ([1], 1)
    kept.add(_entry(2))
    assert _seqs(kept.outbox) == [1, 2]


@BOTH
def test_damage_is_left_out_and_said_once(
    kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An event that cannot be read holds up no other, and fills no log."""
    kept = kind(tmp_path)
    kept.add(_entry(1), _entry(2), _entry(3))
    lines = kept.file.read_bytes().splitlines(keepends=True)
    kept.file.write_bytes(lines[0] + lines[1].replace(b'"progress"', b'"pr\xff\x00ress"') + lines[2])
    with caplog.at_level(logging.WARNING):
        assert [_seqs(kept.outbox) for _ in range(3)] == [[1, 3]] * 3
    assert kept.outbox.damaged
    assert len(caplog.records) == 1


@BOTH
def test_the_last_event_is_found_behind_much_else(kind: Kind, tmp_path: Path) -> None:
    """Reading the end finds the newest event, also where it is of the largest size."""
    kept = kind(tmp_path)
    kept.add(*map(_entry, range(1, 500)))
    kept.add(_entry(500, detail='"' * 32_000))
    assert kept.outbox.last_seq == 500
    kept.add(_entry(501))
    assert kept.outbox.last_seq == 501


@BOTH
def test_the_mark_is_one_hint(kind: Kind, tmp_path: Path) -> None:
    """The sent mark reads back as noted."""
    outbox = kind(tmp_path).outbox
    mark = SentMark(7, 1.5, 2, 3.5, "b:1", 6, 1.25)
    outbox.mark.write(mark)
    assert outbox.mark.read() == mark


class TestHistory:
    """What only a history holds."""

    @pytest.fixture
    def kept(self, tmp_path: Path) -> InHistory:
        """Give the outbox in a home."""
        return InHistory(tmp_path)

    def test_only_what_a_worker_here_said_is_sent(self, kept: InHistory) -> None:
        """What came over the wire, was refused or is no event stays out, also at the end."""
        kept.add(_entry(1))
        kept.add(_entry(2), source="wire")
        kept.add(_entry(3))
        kept.add(_entry(3, detail="other"), source="wire", verdict="replayed")
        line, _ = status_line(at=AT, source="us", attempt=1, before="running", after="cancelled", cause="x")
        append_durably(kept.file, line, files=SystemFiles())
        assert (_seqs(kept.outbox), kept.outbox.last_seq) == ([1, 3], 3)

    def test_a_foreign_event_cannot_pass_for_a_line(self, kept: InHistory) -> None:
        """Whatever an event holds, what stands inside it is no line of the history."""
        inner = InHistory.line(_entry(900)).decode()
        kept.add(_entry(1, detail=inner[:1000]))
        kept.add(*map(_entry, range(2, 60)))
        assert _seqs(kept.outbox, 57) == [58, 59]

    @pytest.mark.parametrize("refused", [0, 3000])
    def test_a_long_history_is_not_read(
        self, kept: InHistory, monkeypatch: pytest.MonkeyPatch, refused: int
    ) -> None:
        """What is unsent of 100,000 events costs a few blocks from the end, not the history."""
        before, _, after = InHistory.line(_entry(2)).partition(b'"seq":2')
        kept.file.parent.mkdir()
        kept.file.write_bytes(b"".join(b'%s"seq":%d%s' % (before, seq, after) for seq in range(1, 100_001)))
        length = kept.file.stat().st_size
        kept.add(*[_entry(100_000, detail="no")] * refused, source="wire", verdict="replayed")
        behind = kept.file.stat().st_size - length
        read = _counted(monkeypatch)
        assert _seqs(kept.outbox, 100_000) == []
        assert _seqs(kept.outbox, 99_998) == [99_999, 100_000]
        assert kept.outbox.last_seq == 100_000
        assert sum(read) < (64 << 10) + 16 * behind < length // 2

    def test_reading_on_is_lazy(self, kept: InHistory, monkeypatch: pytest.MonkeyPatch) -> None:
        """A backlog is read as it is sent: memory does not grow with it."""
        kept.add(*map(_entry, range(1, 5001)))
        read = _counted(monkeypatch)
        entries = kept.outbox.entries()
        assert [next(entries).seq for _ in range(10)] == list(range(1, 11))
        assert sum(read) < kept.file.stat().st_size // 4


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    read: list[int] = []
    pread = os.pread

    def counting(descriptor: int, length: int, offset: int) -> bytes:
        raw = pread(descriptor, length, offset)
        read.append(len(raw))
        return raw

    monkeypatch.setattr(os, "pread", counting)
    return read


class Kept:
    """An outbox in memory."""

    path, damaged = "memory", False

    mark = SentMarkFile("/dev/null")

    def __init__(self, entries: Iterable[SignedEvent]) -> None:
        self._entries = list(entries)

    def entries(self, *, after: int = 0) -> Iterator[SignedEvent]:
        """See `Outbox.entries`."""
        return (entry for entry in self._entries if entry.seq > after)

    def last(self) -> SignedEvent | None:
        """See `Outbox.last`."""
        return self._entries[-1]

    @property
    def last_seq(self) -> int:
        """See `Outbox.last_seq`."""
        return self._entries[-1].seq


_ENTRIES = [_entry(1), _entry(2), _entry(3, attempt=2), _entry(4, attempt=2), _entry(5, attempt=2)]


@pytest.mark.parametrize(
    ("mark", "position", "now", "repeat", "seqs"),
    [
        pytest.param(SentMark(), Position(2, 5, None), 0.0, False, [3, 4, 5], id="own attempt only"),
        pytest.param(SentMark(), Position(1, 2, None), 0.0, False, [1, 2], id="nothing beyond the record"),
        pytest.param(SentMark(4, 100.0), Position(2, 5, None), 9e9, False, [5], id="puback is enough alone"),
        pytest.param(SentMark(4, 100.0), Position(2, 5, 3), 101.0, False, [5], id="confirmation may come"),
        pytest.param(
            SentMark(4, 100.0), Position(2, 5, 3), 100.0 + RESEND_SECONDS, False, [4, 5], id="it did not"
        ),
        pytest.param(
            SentMark(4, 100.0, 3, waiting_seq=4, waiting_at=100.0),
            Position(2, 5, 3),
            100.0 + RESEND_SECONDS * 4,
            False,
            [5],
            id="doubled",
        ),
        pytest.param(SentMark(4, 100.0), Position(2, 5, 3), 99.0, False, [4, 5], id="clock set back"),
        pytest.param(SentMark(5, 100.0), Position(2, 5, 3), 101.0, True, [4, 5], id="asked for"),
        pytest.param(SentMark(5, 100.0), Position(2, 5, 5), 101.0, True, [], id="all confirmed"),
        pytest.param(
            SentMark(5, 200.0, waiting_seq=4, waiting_at=200.0 - RESEND_SECONDS),
            Position(2, 5, 3),
            200.0,
            False,
            [4, 5],
            id="newer ones were sent meanwhile",
        ),
        pytest.param(
            SentMark(5, 200.0, 3, waiting_seq=3, waiting_at=1.0),
            Position(2, 5, 3),
            200.0 + RESEND_SECONDS,
            False,
            [4, 5],
            id="older ones were confirmed meanwhile",
        ),
        pytest.param(
            SentMark(5, 1.0, 10**9, waiting_seq=5, waiting_at=1.0),
            Position(2, 5, 3),
            2.0,
            False,
            [],
            id="no overflow",
        ),
    ],
)
def test_what_is_due(mark: SentMark, position: Position, now: float, repeat: bool, seqs: list[int]) -> None:
    """Due is what no PUBACK came for, and what the registry does not confirm in time."""
    due = due_entries(Kept(_ENTRIES), mark, position, now=now, repeat=repeat)
    assert [entry.seq for entry in due] == seqs


def test_nothing_waits_where_nobody_confirms() -> None:
    """Without a registry process the broker's word is all, so the mark notes no confirmation to wait for."""
    alone = mark_after(SentMark(), Position(1, 3, None), first_seq=1, acked_seq=3, now=5.0)
    assert (alone.acked_seq, alone.waiting_seq) == (3, 0)
    attended = mark_after(SentMark(), Position(1, 3, 0), first_seq=1, acked_seq=3, now=5.0)
    assert attended.waiting_seq == 3
