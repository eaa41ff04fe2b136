"""`jobwire journal`: what the commands print and how they end."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobwire.cli.main import main
from jobwire.core.clock import SystemClock
from jobwire.core.topics import Topics
from jobwire.journal.consumers import Consumers
from jobwire.journal.entry import Entry, Stored
from jobwire.journal.quantities import duration, size
from jobwire.journal.render import as_json, as_line
from jobwire.journal.writer import JournalWriter
from jobwire.testing import new_home

_EVENT = b'{"seq": 7, "event": "progress", "detail": "half \\u001b[2J done"}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home whose journal has 30 entries of two jobs, one second apart up to now."""
    home = new_home(tmp_path / "home")
    now_us = int(SystemClock().now() * 1e6)
    with JournalWriter(home / "journal", clock=SystemClock(), segment_bytes=1500) as writer:
        for i in range(30):
            verdict = "bad_signature" if i % 10 == 3 else "accepted"
            topic = f"python/mqtt/jobs/{i % 2:08x}/events"
            writer.append([Entry(now_us - (29 - i) * 1_000_000, topic, _EVENT, i % 6 == 0, verdict)])
    return home


def _rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _run(home: Path, *words: str) -> int:
    return main(["--home", str(home), "journal", *words])


SELECTIONS: list[tuple[str, Sequence[int]]] = [
    ("tail", range(20, 30)),
    ("tail -n 2", [28, 29]),
    ("tail -n 0", []),
    ("tail --from 27", [27, 28, 29]),
    ("tail -n 2 --verdict bad_signature", [13, 23]),
    ("tail -n 99 --verdict none", []),
    ("cat --from 5 --job 00000001", range(5, 30, 2)),
    ("cat --topic python/+/jobs/00000000/#", range(0, 30, 2)),
    ("cat --since 1w", range(30)),
    ("cat", range(30)),
]


def test_selections(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each selection prints exactly its entries, in order, as JSON lines on a pipe."""
    for words, offsets in SELECTIONS:
        assert _run(home, *words.split()) == 0, words
        assert [row["offset"] for row in _rows(capsys)] == list(offsets), words


def test_since_counts_back_from_now(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what arrived within the given age."""
    assert _run(home, "tail", "--since", "10s") == 0
    assert 5 <= len(_rows(capsys)) <= 11


def test_a_json_line_has_everything(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Offset, time, verdict, job, topic, flags and the payload as it was."""
    assert _run(home, "cat", "--from", "6", "--json") == 0
    row = _rows(capsys)[0]
    received = row.pop("received_at")
    assert isinstance(received, str)
    assert received.endswith("Z")
    assert row == {
        "offset": 6,
        "verdict": "accepted",
        "job_id": "00000000",
        "topic": "python/mqtt/jobs/00000000/events",
        "retained": True,
        "redelivered": False,
        "payload": _EVENT.decode(),
    }


def test_binary_payloads_are_not_lost() -> None:
    """What is not UTF-8 stands as base64."""
    row = json.loads(as_json(Stored(1, 2, "t", b"\xff\x00", False, "malformed"), Topics()))
    assert row["payload_base64"] == "/wA="
    assert "payload" not in row


@pytest.mark.parametrize(
    "payload",
    [_EVENT, b"\x1b]0;owned\x07\r\n", "\u202egnp.exe \u2028 \x9b31m".encode(), b"\xff\x9b", b"[" * 5000],
)
def test_a_line_for_people_is_one_safe_line(payload: bytes) -> None:
    """Nothing that a terminal obeys, no second line, no wider than the terminal."""
    line = as_line(Stored(1, 2_000_000, "t\x1b[1m", payload, True, "v\x07"), Topics(), 100)
    assert line.isprintable()
    assert len(line) <= 100


def test_a_readable_line_names_the_event() -> None:
    """Offset, time, verdict, flags, job and what was said."""
    row = Stored(12, 3_661_000_000, "python/mqtt/jobs/0000000a/events", _EVENT, True, "accepted")
    assert as_line(row, Topics(), 200).split() == [
        "12", "01:01:01.000", "accepted", "R-", "0000000a", "#7", "progress", "half", "\\x1b[2J", "done",
    ]  # fmt: skip


def test_an_absurd_time_does_not_break_the_listing() -> None:
    """A clock that was far off is shown as it was, as a date where there is one."""
    for received in (2**63 - 1, -(2**63), -1, 0):
        row = json.loads(as_json(Stored(1, received, "t", b"", False, "v"), Topics()))
        assert row["received_at"].endswith(("Z", "us"))


def test_verify_tells_sound_and_damaged_by_exit_code(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 and a summary; 50 with segment, byte and the offsets that cannot be read."""
    assert _run(home, "verify") == 0
    assert "sound: 30 entries" in capsys.readouterr().out
    segment = sorted((home / "journal").glob("*.seg"))[1]
    content = bytearray(segment.read_bytes())
    content[200] ^= 4
    segment.write_bytes(content)
    assert _run(home, "verify", "--json") == 50
    (report,) = _rows(capsys)
    assert report["damage"][0]["segment"] == segment.name  # type: ignore[index]  # JSON
    assert _run(home, "verify") == 50
    assert f"DAMAGED {segment.name} byte" in capsys.readouterr().out
    assert _run(home, "cat") == 50
    assert "is damaged at byte" in capsys.readouterr().err


def test_stat_counts_verdicts_and_names_the_slow(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures as JSON and for people."""
    Consumers(home / "journal").register("metrics", 12)
    assert _run(home, "stat", "--json") == 0
    (values,) = _rows(capsys)
    assert values["verdicts"] == {"accepted": 27, "bad_signature": 3}
    assert (values["entries"], values["first_offset"], values["durable_offset"]) == (30, 0, 30)
    consumers = values["consumers"]
    assert isinstance(consumers, list)
    assert [(c["name"], c["lag"]) for c in consumers] == [("metrics", 18)]
    assert _run(home, "stat") == 0
    text = capsys.readouterr().out
    assert "bad_signature" in text
    assert "18 behind" in text


def test_consumers_and_prune(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pruning stops at the slowest consumer until it is removed, or until it is forced."""
    consumers = Consumers(home / "journal")
    consumers.register("slow", 9)
    assert _run(home, "prune", "--keep", "0s", "--max-bytes", "0", "--dry-run", "--json") == 0
    (report,) = _rows(capsys)
    assert (report["held_by"], report["dry_run"]) == ("slow", True)
    assert _run(home, "prune", "--max-bytes", "0") == 0
    assert "consumer slow has not read further" in capsys.readouterr().out
    assert _run(home, "prune", "--max-bytes", "0", "--force") == 0
    assert "WARNING: consumer slow loses" in capsys.readouterr().err
    assert _run(home, "consumers", "list") == 0
    assert "slow" in capsys.readouterr().out
    assert _run(home, "consumers", "remove", "slow") == 0
    assert _run(home, "consumers", "remove", "slow") == 40
    assert "no consumer slow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["cat", "--job", "nonsense"], 30),
        (["cat", "--from", "-1"], 30),
        (["tail", "--from", "999"], 0),
        (["--journal", "x"], 30),
    ],
)
def test_mistakes_have_their_exit_code(home: Path, words: list[str], code: int) -> None:
    """Invalid input is 30, also where argparse finds it."""
    if words[0] == "--journal" or "-1" in words:
        with pytest.raises(SystemExit) as error:
            _run(home, *words)
        assert error.value.code == code
        return
    assert _run(home, *words) == code


def test_no_journal_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 40, with the directory and what would make one."""
    assert _run(new_home(tmp_path), "stat", "--json") == 40
    assert json.loads(capsys.readouterr().err)["exit_code"] == 40
    assert not (tmp_path / "journal").exists()


def test_quantities() -> None:
    """Durations and sizes as people write them, and a refusal of everything else."""
    assert [duration(text) for text in ("90s", "10m", "2h", "7d", "1w")] == [90, 600, 7200, 604800, 604800]
    assert [size(text) for text in ("1000", "64K", "512m", "8G")] == [1000, 65536, 512 << 20, 8 << 30]
    for wrong in ("", "m", "10", "-1s", "1.5h", "10y", "\u0661s\u0661", "\u0661s", "9" * 400 + "d"):
        with pytest.raises(argparse.ArgumentTypeError):
            duration(wrong)
    for wrong in ("", "K", "-1", "1.5G", "10X", "9" * 5000):
        with pytest.raises(argparse.ArgumentTypeError):
            size(wrong)
