"""The history's file: lines, tail, damage."""

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from jobwire.registry.audit import AuditLog, event_line, status_line


def _log(path: Path) -> AuditLog:
    return AuditLog(str(path / "logs"))


def _line(cause: str) -> bytes:
    return status_line(at="t", source="s", attempt=1, before="pending", after="running", cause=cause)[0]


def test_payload_survives_byte_for_byte(tmp_path: Path) -> None:
    """The signed message stands in the line as it was sent, so its signature can be checked again."""
    payload = b'{"seq":1,"detail":"gr\xc3\xbcn \\u00e9",  "data":{}}'
    line, _ = event_line(
        at="t", source="wire", verdict="accepted", attempt=1, seq=1, digest=b"\1", payload=payload
    )
    assert payload in line
    assert json.loads(line)["event"] == json.loads(payload)


def test_indented_payload_becomes_one_line(tmp_path: Path) -> None:
    """A foreign sender's line breaks do not break the file's."""
    payload = b'{\n  "seq": 1,\r\n  "detail": "a\\nb"\n}'
    line, _ = event_line(
        at="t", source="wire", verdict="accepted", attempt=1, seq=1, digest=b"\1", payload=payload
    )
    assert line.count(b"\n") == 1
    assert json.loads(line)["event"] == json.loads(payload)


def test_garbage_is_kept_in_part(tmp_path: Path) -> None:
    """What is not an event is kept as bounded text."""
    line, _ = event_line(
        at="t",
        source="wire",
        verdict="malformed",
        attempt=1,
        seq=None,
        digest=b"\1",
        payload=b"\xff\n" * 5000,
        why="not JSON",
    )
    assert len(line) < 4096
    assert json.loads(line)["why"] == "not JSON"


@given(lengths=st.lists(st.integers(0, 3000), max_size=30), wanted=st.integers(1, 40))
def test_tail_is_the_end_of_lines(make_folder: Callable[[], Path], lengths: list[int], wanted: int) -> None:
    """The last lines read from the end are those of reading everything, torn end or not."""
    log = _log(make_folder())
    Path(log.directory).mkdir()
    lines = [_line(f"{number} " + "x" * length) for number, length in enumerate(lengths)]
    Path(log.events_path).write_bytes(b"".join(lines) + b'{"torn')
    everything = list(log.lines())
    assert len(everything) == len(lengths)
    assert log.tail(wanted) == everything[-wanted:]


def test_damaged_line_is_marked(tmp_path: Path) -> None:
    """A whole line that is no JSON, or nests too deeply, does not hide the others."""
    log = _log(tmp_path)
    Path(log.directory).mkdir()
    Path(log.events_path).write_bytes(_line("a") + b"garbage\n" + b"[" * 4000 + b"\n" + _line("b"))
    assert [line["kind"] for line in log.lines()] == ["status", "damaged", "damaged", "status"]


def test_missing_history_is_empty(tmp_path: Path) -> None:
    """No file is no line."""
    log = _log(tmp_path)
    assert (list(log.lines()), log.tail(3), log.last()) == ([], [], None)
