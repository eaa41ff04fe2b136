"""What a path means as a file lock: one name for one file."""

import os
from pathlib import Path

import pytest

from jobwire.coordination.locks.targets import canonical
from jobwire.core.errors import InvalidInputError


def test_one_name_for_one_file(tmp_path: Path) -> None:
    """Links, `..`, trailing slashes and absolute forms of one file are the same lock, there or not."""
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("src")
    root, folder = str(tmp_path), str(tmp_path / "src")
    for wanted in ("app.py", "../src/app.py", "../link//app.py", str(tmp_path / "link" / "app.py")):
        assert canonical(wanted, root=root, folder=folder) == "src/app.py"
    assert canonical("..", root=root, folder=folder) == "."
    assert canonical("name:deploy", root=root, folder=folder) == "name:deploy"
    assert canonical("../name:deploy", root=root, folder=folder) == "./name:deploy"


@pytest.mark.parametrize(
    "wanted",
    [
        "/",
        "..",
        "/etc/passwd",
        "a\0b",
        "a\nb",
        "",
        "name:",
        "x" * 5000,
        os.fsdecode(b"\xff"),
        "loop/x",
        "out",
    ],
)
def test_what_is_no_target(tmp_path: Path, wanted: str) -> None:
    """What lies outside of the root, cannot be shown or is no path at all is refused before anything else."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/")
    if wanted == "loop/x":
        assert canonical(wanted, root=str(tmp_path), folder=str(tmp_path)) == "loop/x"
        return
    with pytest.raises(InvalidInputError):
        canonical(wanted, root=str(tmp_path), folder=str(tmp_path))


def test_a_disk_that_ignores_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk finds a file by any spelling, all spellings are one lock, there or not; else not."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").touch()
    os.link(tmp_path / "src" / "app.py", tmp_path / "src" / "APP.PY")
    root = str(tmp_path)

    def names(*wanted: str) -> set[str]:
        return {canonical(one, root=root, folder=root) for one in wanted}

    assert names("src/app.py", "src/APP.PY", "src/new", "src/New") == {
        "src/app.py",
        "src/APP.PY",
        "src/new",
        "src/New",
    }
    (tmp_path / "src" / "APP.PY").unlink()
    plain = os.lstat

    def folding(path: str) -> os.stat_result:
        inside = str(path).removeprefix(root)
        return plain(path if inside == str(path) else root + inside.casefold())

    monkeypatch.setattr(os, "lstat", folding)
    assert names("SRC/App.py", "src/app.py", "src/APP.PY") == {"src/app.py"}
    assert names("src/new/One", "Src/New/one") == {"src/new/one"}
    assert names("name:Deploy") == {"name:Deploy"}
