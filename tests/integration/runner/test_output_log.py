"""The file with a command's output: its last lines, what is added, and what is there now."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.runner import output_log
from jobwire.runner.output_log import OutputReader, start_of_last_lines
from jobwire.testing import wait_for


def last(text: bytes, count: int, path: Path) -> bytes:
    """Return the last lines of a file with this text."""
    path.write_bytes(text)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return text[start_of_last_lines(descriptor, count) :]
    finally:
        os.close(descriptor)


@given(st.text(alphabet="a\n", max_size=40), st.integers(0, 12))
def test_the_last_lines(tmp_path_factory: pytest.TempPathFactory, text: str, count: int) -> None:
    """The end of any file, in whatever blocks it is read, is what splitting all of it into lines gives."""
    raw = text.encode()
    expected = b"".join(raw.splitlines(keepends=True)[-count:]) if count else b""
    path = tmp_path_factory.getbasetemp() / "text"
    for size in (1, 3, 1 << 16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(output_log, "_CHUNK", size)
            assert last(raw, count, path) == expected


def test_following_copies_everything_until_the_end(tmp_path: Path) -> None:
    """What is written before and while somebody follows comes once and in order, also in many pieces."""
    path, got, over = tmp_path / "output.log", bytearray(), threading.Event()
    with OutputReader(path, got.extend, lines=1) as reader:
        follower = threading.Thread(target=reader.follow, args=(over.is_set, over.wait))
        follower.start()
        with path.open("wb", buffering=0) as log:
            log.write(b"old\n" * 9 + b"last\n")
            wait_for(lambda: bytes(got) == b"last\n", what="the last line")
            log.write(b"x" * (1 << 20))
            over.set()
        follower.join()
    assert bytes(got) == b"last\n" + b"x" * (1 << 20)


def test_a_fast_writer_does_not_keep_a_reader(tmp_path: Path) -> None:
    """Reading what is there ends although every piece that is read adds another."""
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * 100)
    got = bytearray()

    def take(piece: bytes) -> None:
        got.extend(piece)
        with path.open("ab") as log:
            log.write(b"y" * 100)

    with OutputReader(path, take) as reader:
        reader.rest()
        assert reader.found
    assert got.startswith(b"x" * 100)


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    """Nothing is copied and nothing is found where there is no output."""
    got = bytearray()
    with OutputReader(tmp_path / "none", got.extend) as reader:
        reader.rest()
        assert not reader.found
    assert not got
