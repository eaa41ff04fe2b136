"""`jobwire bus verify` and `prune`: what is wrong with the store is named, what nobody needs goes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobwire.cli.main import main
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.testing import new_home

Bus = Callable[[str], tuple[int, dict[str, Any]]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home in which two large messages lie."""
    store = CoordinationStore(str(new_home(tmp_path)))
    for letter in "ab":
        send(store, NewMessage("lead", ("w",), kind="task", subject="read it", body=letter * 5000))
    store.close()
    return Path(store.home)


@pytest.fixture
def bus(home: Path, capfd: pytest.CaptureFixture[str]) -> Bus:
    """Give what runs a verb with --json, and returns its exit code and its object."""

    def call(verb: str) -> tuple[int, dict[str, Any]]:
        code = main(["bus", verb, "--home", str(home), "--json"])
        return code, json.loads(capfd.readouterr().out)

    return call


def test_a_changed_and_a_missing_blob_are_named(home: Path, bus: Bus) -> None:
    """What is whole is 0; each blob that is not what was written is named, with 50."""
    code, said = bus("verify")
    assert (code, said["ok"], said["command"], said["blobs"], said["problems"]) == (0, True, "verify", 2, [])
    changed, missing = sorted((home / "blobs").iterdir())
    changed.write_bytes(b"other")
    missing.unlink()
    code, said = bus("verify")
    assert (code, said["ok"], said["error"]["code"]) == (50, False, "storage")
    assert [changed.name in said["problems"][0], missing.name in said["problems"][1]] == [True, True]


def test_prune_removes_what_no_message_refers_to(home: Path, bus: Bus) -> None:
    """An old blob of nobody goes; a young one and those of messages stay."""
    used = sorted((home / "blobs").iterdir())
    left, young = (home / "blobs" / f"sha256-{letter * 64}" for letter in "0f")
    for path in (left, young):
        path.write_bytes(b"x")
    for path in (left, *used):
        os.utime(path, (0, 0))
    code, said = bus("prune")
    assert (code, said["ok"], said["command"], said["blobs_removed"]) == (0, True, "prune", 1)
    assert sorted((home / "blobs").iterdir()) == sorted([*used, young])
