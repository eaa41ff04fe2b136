"""A file that somebody named is read at once, or refused with its cause: nothing is waited for."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.storage.named_files import (
    check_named_file,
    check_target,
    exposure,
    read_named_file,
    read_named_text,
)


def _read(path: Path | str, *, private: bool = False) -> bytes:
    return read_named_file(path, "settings file", limit=1000, private=private)


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """All of it, also through a link; one byte too many is an error."""
    path = tmp_path / "x"
    path.write_bytes(b"a" * 1000)
    (tmp_path / "link").symlink_to(path)
    assert _read(tmp_path / "link") == b"a" * 1000
    path.write_bytes(b"a" * 1001)
    with pytest.raises(ConfigError, match="more than 1000 bytes"):
        _read(path)


def test_a_missing_file_is_the_callers_to_judge(tmp_path: Path) -> None:
    """No file is no error of its own: settings may be absent, a ticket may not."""
    with pytest.raises(FileNotFoundError):
        _read(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="cannot read the settings file"):
        check_named_file(tmp_path / "nothing", "settings file")


def test_a_text_comes_from_a_file_or_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way it is bounded and in UTF-8, and what is wrong with it is said with a remedy."""
    path = tmp_path / "x"
    for raw, word in ((b"gr\xc3\xbcn", ""), (b"x" * 11, "more than 10 bytes"), (b"\xff", "not UTF-8")):
        path.write_bytes(raw)
        for name in (str(path), "-"):
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
            if not word:
                assert read_named_text(name, "plan", limit=10) == "grün"
                continue
            with pytest.raises(InvalidInputError, match=word) as caught:
                read_named_text(name, "plan", limit=10)
            assert caught.value.hint
    with pytest.raises(InvalidInputError, match="no such file"):
        read_named_text(str(tmp_path / "nothing"), "plan", limit=10)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """A pipe without a writer, a device without an end, a directory, a name with a NUL."""
    os.mkfifo(tmp_path / "fifo", 0o600)
    for path, word in ((tmp_path / "fifo", "pipe"), ("/dev/zero", "device"), (tmp_path, "directory")):
        with pytest.raises(ConfigError, match=f"is a {word}"):
            _read(path, private=True)
        with pytest.raises(ConfigError, match=f"is a {word}"):
            check_named_file(path, "private key")
    with pytest.raises(ConfigError, match="cannot read"):
        _read("a\0b")


def test_what_is_written_replaces_files_only(tmp_path: Path) -> None:
    """A new name and a file are fine; a pipe would be waited for, a device or folder is no place to write."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "new", "no/way"):
        check_target(tmp_path / name, "keys file")
    for path in (tmp_path / "pipe", Path("/dev/null"), tmp_path, Path(), tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="keys file"):
            check_target(path, "keys file")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o610])
def test_a_secret_is_read_from_a_private_file_only(tmp_path: Path, mode: int) -> None:
    """Any right of group or others is refused, with the command that takes it away."""
    path = tmp_path / "x"
    assert exposure(path) is None
    path.touch(mode=0o600)
    assert _read(path, private=True) == b""
    assert exposure(path) is None
    path.chmod(mode)
    for read in (
        lambda: _read(path, private=True),
        lambda: check_named_file(path, "private key", private=True),
    ):
        with pytest.raises(ConfigError, match="open to other users") as caught:
            read()
        assert f"chmod 600 {path}" in caught.value.hint
    assert str(exposure(path)).startswith(f"the secret file {path} is open")


def test_folders_and_what_others_may_change(tmp_path: Path) -> None:
    """A folder of secrets is its owner's alone; what others may read they still may not change."""
    tmp_path.chmod(0o700)
    assert exposure(tmp_path) is None
    tmp_path.chmod(0o750)
    found = exposure(tmp_path)
    assert found is not None
    assert (found.message, found.hint) == (
        f"{tmp_path} is open to other users (mode 0750)",
        f"chmod 700 {tmp_path}",
    )
    assert exposure(tmp_path, to_write=True) is None
    tmp_path.chmod(0o770)
    assert "chmod go-w" in str(exposure(tmp_path, to_write=True))
    assert exposure(tmp_path / "nothing") is None
