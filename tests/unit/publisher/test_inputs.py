"""From words to details and data: scalars, limits, and one answer for what is given twice."""

import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.canonical import canonical_json
from jobwire.core.errors import InvalidInputError, NotFoundError
from jobwire.core.override import override
from jobwire.jobs.event import MAX_DETAIL, MAX_PAYLOAD
from jobwire.publisher.inputs import read_data, read_detail, scalar


class Stdin:
    """Stands for sys.stdin with these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40", 40),
        ("-1.5", -1.5),
        ("true", True),
        ("null", None),
        ('"40"', "40"),
        ("", ""),
        ("done", "done"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("9007199254740993", "9007199254740993"),
        ("[1]", "[1]"),
        ('{"a":1}', '{"a":1}'),
        ("0x10", "0x10"),
        ("1e17", "1e17"),
        ('"\\ud800"', '"\\ud800"'),
        ("a=b", "a=b"),
    ],
)
def test_scalars_are_json_where_they_parse(text: str, value: object) -> None:
    """A value is a JSON scalar where every language reads it alike, otherwise text."""
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


@given(st.text(st.characters(codec="utf-8")))
def test_any_value_can_be_sent(text: str) -> None:
    """Whatever a value is, it has a canonical form."""
    canonical_json({"value": scalar(text)})


def test_pairs_lie_over_the_file(tmp_path: Path) -> None:
    """A pair on the command line outranks the same key of the file."""
    source = tmp_path / "data.json"
    source.write_text('{"a": 1, "b": [2]}')
    assert read_data(["a=3", "c=x=y"], str(source)) == {"a": 3, "b": [2], "c": "x=y"}


@pytest.mark.parametrize("pairs", [["a"], ["=1"], ["a=1", "a=2"], ["a=\udcff"], ["\udcff=1"]])
def test_bad_pairs_are_refused(pairs: list[str]) -> None:
    """What is no KEY=VALUE, is given twice, or is not UTF-8, is refused."""
    with pytest.raises(InvalidInputError):
        read_data(pairs, None)


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff", b"{}x", b"\xef\xbb\xbf{}"]
)
def test_a_bad_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """Data must be one JSON object that every language reads alike."""
    source = tmp_path / "data.json"
    source.write_bytes(content)
    with pytest.raises(InvalidInputError):
        read_data([], str(source))


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    """A missing file is told apart from a bad one."""
    with pytest.raises(NotFoundError):
        read_data([], str(tmp_path / "missing.json"))
    with pytest.raises(InvalidInputError):
        read_data([], str(tmp_path))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """Where a file is named and a pipe stands, the way to read one is named."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidInputError, match="is a pipe") as refused:
        read_data([], str(tmp_path / "fifo"))
    assert "- for stdin" in refused.value.hint


def test_endless_input_is_refused_without_reading_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """From an endless stream no more than the limit is read."""

    class Endless(io.RawIOBase):
        taken = 0

        @override
        def readable(self) -> bool:
            return True

        @override
        def read(self, size: int = -1) -> bytes:
            assert size >= 0
            self.taken += size
            return b"x" * size

    for read, limit in (
        (lambda: read_detail("-"), 5 * MAX_DETAIL),
        (lambda: read_data([], "-"), MAX_PAYLOAD + 1),
    ):
        stream = Stdin(b"")
        endless = Endless()
        stream.buffer = endless  # type: ignore[assignment]  # raw is enough for read
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(InvalidInputError):
            read()
        assert endless.taken <= limit


def test_detail_and_data_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash reads stdin; the final line break is the shell's."""
    monkeypatch.setattr("sys.stdin", Stdin("fünf\nDateien\r\n".encode()))
    assert read_detail("-") == "fünf\nDateien"
    monkeypatch.setattr("sys.stdin", Stdin(json.dumps({"a": 1}).encode()))
    assert read_data([], "-") == {"a": 1}
    monkeypatch.setattr("sys.stdin", Stdin(b"caf\xe9"))
    assert read_detail("-") == os.fsdecode(b"caf\xe9")
