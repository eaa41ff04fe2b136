"""The durable write: its order of calls, and what a failure at each of them leaves."""

import errno
import os
from pathlib import Path

import pytest

from jobwire.core.errors import StorageError
from jobwire.storage.durable import (
    append_durably,
    change_durably,
    create_durably,
    make_directories,
    remove_durably,
    remove_temporaries,
    replace_atomically,
    replace_durably,
)
from jobwire.storage.files import SystemFiles, read_whole
from jobwire.testing.broken_disks import StoppingFiles

SEQUENCE = ["create .r.json.tmp", "write .r.json.tmp", "sync .r.json.tmp", "rename r.json"]


def _fail(number: int = errno.ENOSPC) -> None:
    raise OSError(number, "No space left on device")


def test_order_of_calls(tmp_path: Path) -> None:
    """Bytes are flushed before the rename, the directory after it."""
    files = StoppingFiles()
    replace_durably(tmp_path / "r.json", b"new", files=files)
    assert files.calls == [*SEQUENCE, f"sync_directory {tmp_path.name}"]
    assert (tmp_path / "r.json").read_bytes() == b"new"
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("stop_at", range(len(SEQUENCE)))
def test_failure_before_the_rename(tmp_path: Path, stop_at: int) -> None:
    """Whatever fails up to the rename, the old bytes stay, no temporary file does, and the error says why."""
    path = tmp_path / "r.json"
    path.write_bytes(b"old")
    with pytest.raises(StorageError) as caught:
        replace_durably(path, b"new", files=StoppingFiles(stop_at=stop_at, act=_fail, torn=True))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    assert caught.value.facts["disk_full"] is True
    assert "free disk space" in caught.value.hint
    assert str(path) in caught.value.message


def test_read_only_hint(tmp_path: Path) -> None:
    """A read-only file system is named as such, with the remedy."""
    files = StoppingFiles(stop_at=0, act=lambda: _fail(errno.EROFS))
    with pytest.raises(StorageError, match=r"r[.]json") as caught:
        replace_durably(tmp_path / "r.json", b"new", files=files)
    assert "writable" in caught.value.hint
    assert caught.value.facts["disk_full"] is False


def test_stale_temporary_is_replaced(tmp_path: Path) -> None:
    """What a crash left under the temporary name does not stop the next writer."""
    (tmp_path / ".r.json.tmp").write_bytes(b"stale")
    replace_durably(tmp_path / "r.json", b"new", files=SystemFiles())
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_planted_link_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link under the temporary name is removed, its target left alone."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".r.json.tmp").symlink_to(victim)
    replace_durably(tmp_path / "r.json", b"new", files=SystemFiles())
    assert victim.read_bytes() == b"precious"


def test_many_share_the_directory_flush(tmp_path: Path) -> None:
    """Several files are all flushed before the first rename, and their directory once."""
    files = StoppingFiles()
    change_durably(replace=[(tmp_path / name, b"x") for name in "abc"], files=files)
    kinds = [call.split()[0] for call in files.calls]
    assert kinds == ["create", "write"] * 3 + ["sync"] * 3 + ["rename"] * 3 + ["sync_directory"]


def _open_below(folder: Path) -> list[str]:
    """Return what this process holds open in `folder`, be it removed meanwhile."""
    places = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names only
    # The listing's own descriptor is gone by now.
    return [link for place in places if os.path.lexists(place) and (link := _target(place, folder))]


def _target(place: str, folder: Path) -> str:
    try:
        link = os.readlink(place)  # noqa: PTH115 - a removed file's link is no path
    except FileNotFoundError:  # another thread closed it
        return ""
    return link if link.startswith(str(folder)) else ""


def test_many_at_once(tmp_path: Path) -> None:
    """The operating system puts every line and every file in place, and nothing stays open."""
    names = [f"{number:02}" for number in range(40)]
    for turn in (b"1", b"2"):
        change_durably(
            append=[(tmp_path / f"{name}.log", turn + b"\n") for name in names],
            replace=[(tmp_path / name, turn) for name in names],
            files=SystemFiles(),
        )
    assert all((tmp_path / name).read_bytes() == b"2" for name in names)
    assert all((tmp_path / f"{name}.log").read_bytes() == b"1\n2\n" for name in names)
    assert len(list(tmp_path.iterdir())) == 80
    assert _open_below(tmp_path) == []


def test_failure_among_many(tmp_path: Path) -> None:
    """Where one of several cannot be replaced, each is new or old, and nothing is left over."""
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b" / "in the way").mkdir(parents=True)
    (tmp_path / "c").write_bytes(b"old")
    with pytest.raises(StorageError):
        change_durably(
            append=[(tmp_path / "log", b"line\n")],
            replace=[(tmp_path / name, b"new") for name in "abc"],
            files=SystemFiles(),
        )
    assert [(tmp_path / name).read_bytes() for name in "ac"] == [b"new", b"old"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "log"]
    assert (tmp_path / "log").read_bytes() == b"line\n"
    assert _open_below(tmp_path) == []


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 200_000])
def test_read_whole(tmp_path: Path, size: int) -> None:
    """A file is read to its end, whatever its length."""
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "r").write_bytes(content)
    assert read_whole(tmp_path / "r") == content


def test_lines_are_flushed_before_a_file_is_replaced(tmp_path: Path) -> None:
    """A record's history is on the disk before the record says so, and both wait for the disk together."""
    (tmp_path / "log").write_bytes(b"one\n")
    files = StoppingFiles()
    change_durably(append=[(tmp_path / "log", b"two\n")], replace=[(tmp_path / "r", b"x")], files=files)
    assert files.calls == [
        "open_append log",
        "write log",
        "sync log",
        "create .r.tmp",
        "write .r.tmp",
        "sync .r.tmp",
        "rename r",
        f"sync_directory {tmp_path.name}",
    ]


def test_what_comes_before(tmp_path: Path) -> None:
    """A new folder, its log and its other files are on the disk, by name too, before a file is replaced."""
    files = StoppingFiles()
    change_durably(
        append=[(tmp_path / "new" / "log", b"one\n")],
        before=[(tmp_path / "new" / "meta", b"m")],
        replace=[(tmp_path / "r", b"x")],
        files=files,
    )
    assert files.calls[:2] == ["open_append log", "make_directory new"]
    assert files.calls[3:] == [
        "write log",
        "sync log",
        "create .meta.tmp",
        "write .meta.tmp",
        "create .r.tmp",
        "write .r.tmp",
        "sync .meta.tmp",
        "sync .r.tmp",
        "rename meta",
        "sync_directory new",
        f"sync_directory {tmp_path.name}",
        "rename r",
        f"sync_directory {tmp_path.name}",
    ]


@pytest.mark.parametrize("stop_at", range(1, 7))
def test_failed_change_takes_the_lines_back(tmp_path: Path, stop_at: int) -> None:
    """Where the record cannot be replaced, the history does not keep the line of it."""
    (tmp_path / "log").write_bytes(b"one\n")
    files = StoppingFiles(stop_at=stop_at, act=_fail, torn=True)
    with pytest.raises(StorageError):
        change_durably(append=[(tmp_path / "log", b"two\n")], replace=[(tmp_path / "r", b"x")], files=files)
    assert (tmp_path / "log").read_bytes() == b"one\n"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_replace_atomically_does_not_flush(tmp_path: Path) -> None:
    """What can be derived again costs no flush, and is still replaced in one step."""
    files = StoppingFiles()
    replace_atomically([(tmp_path / "r.json", b"new")], files=files)
    assert files.calls == [SEQUENCE[0], SEQUENCE[1], SEQUENCE[3]]


def test_append_flushes(tmp_path: Path) -> None:
    """A line is flushed before the call returns; a new file's name before its first line is written."""
    files = StoppingFiles()
    append_durably(tmp_path / "log", b"one\n", files=files)
    assert files.calls == ["open_append log", f"sync_directory {tmp_path.name}", "write log", "sync log"]
    files = StoppingFiles()
    append_durably(tmp_path / "log", b"two\n", files=files)
    assert files.calls == ["open_append log", "write log", "sync log"]
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("torn", [b"{", b"x" * 5000, b'{"a": 1}'])
def test_append_repairs_a_torn_line(tmp_path: Path, torn: bytes) -> None:
    """What follows the last line break was never acknowledged and is cut."""
    (tmp_path / "log").write_bytes(b"one\n" + torn)
    append_durably(tmp_path / "log", b"two\n", files=SystemFiles())
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_append_repairs_a_file_of_one_torn_line(tmp_path: Path) -> None:
    """A file without any line break becomes empty first."""
    (tmp_path / "log").write_bytes(b"x" * 9000)
    append_durably(tmp_path / "log", b"one\n", files=SystemFiles())
    assert (tmp_path / "log").read_bytes() == b"one\n"


@pytest.mark.parametrize("stop_at", [1, 2])
def test_failed_append_is_taken_back(tmp_path: Path, stop_at: int) -> None:
    """A full disk leaves the log as it was."""
    (tmp_path / "log").write_bytes(b"one\n")
    with pytest.raises(StorageError):
        append_durably(tmp_path / "log", b"two\n", files=StoppingFiles(stop_at=stop_at, act=_fail, torn=True))
    assert (tmp_path / "log").read_bytes() == b"one\n"


def test_created_files_replace_nothing(tmp_path: Path) -> None:
    """A name that is taken is refused by the file system itself, and no temporary file stays."""
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(FileExistsError) as caught:
        create_durably([(tmp_path / "a", b"new"), (tmp_path / "b", b"new")], files=SystemFiles())
    assert caught.value.filename == str(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("stop_at", range(6))
def test_a_creation_that_fails_leaves_no_name(tmp_path: Path, stop_at: int) -> None:
    """Up to the first name nothing of several new files stays."""
    files = StoppingFiles(stop_at=stop_at, act=_fail, torn=True)
    with pytest.raises(StorageError):
        create_durably([(tmp_path / name, b"new") for name in "ab"], files=files)
    assert list(tmp_path.iterdir()) == []


def test_rights_for_others_are_kept_under_any_umask(tmp_path: Path) -> None:
    """What a broker's user must read is readable, whatever the caller's umask is."""
    before = os.umask(0o077)
    try:
        replace_durably(tmp_path / "acl", b"x", mode=0o644, files=SystemFiles())
    finally:
        os.umask(before)
    assert (tmp_path / "acl").stat().st_mode & 0o777 == 0o644


def test_removed_files_are_gone_from_the_disk(tmp_path: Path) -> None:
    """Removing flushes the folder once; what is missing already is fine."""
    (tmp_path / "a").touch()
    files = StoppingFiles()
    remove_durably([tmp_path / "a", tmp_path / "b"], files=files)
    assert files.calls == ["unlink a", "unlink b", f"sync_directory {tmp_path.name}"]
    assert list(tmp_path.iterdir()) == []


def test_only_temporary_files_are_swept(tmp_path: Path) -> None:
    """What a crash left goes, everything else stays."""
    for name in (".a.json.tmp", "a.json", "a.tmp"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path, files=SystemFiles())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.tmp"]


def test_missing_parents_are_private(tmp_path: Path) -> None:
    """Every folder made on the way is 0700."""
    make_directories(tmp_path / "a" / "b", files=SystemFiles())
    assert {(tmp_path / part).stat().st_mode & 0o777 for part in ("a", "a/b")} == {0o700}
