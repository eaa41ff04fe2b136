"""What `jobwire up` says of its parts, as others read it."""

import json
from pathlib import Path

import pytest

from jobwire.storage import file_lock
from jobwire.storage.running_parts import STATE_FILE, RunningPart, address_in, running_parts
from jobwire.testing import ManualClock


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ({"host": "127.0.0.1", "port": 8883}, "127.0.0.1:8883"),
        ({"url": "http://127.0.0.1:8470/?token=secret", "port": 8470}, "http://127.0.0.1:8470/"),
        ({"broker": "localhost:8883"}, ""),
    ],
)
def test_an_address_is_without_its_token(line: dict[str, object], address: str) -> None:
    """Where a part is reached is told, what opens it is not."""
    assert address_in(line) == address


def test_parts_are_those_of_a_host_that_runs(tmp_path: Path) -> None:
    """While its lock is held the file is believed; what is no such file says nothing, and nothing fails."""
    (tmp_path / "locks").mkdir()
    (tmp_path / "up").mkdir()
    state = tmp_path / STATE_FILE
    page = {"state": "ready", "pid": 1, "address": "http://127.0.0.1:1/", "log": "up/page.log"}
    state.write_text(json.dumps({"parts": {"page": page}}))
    assert not running_parts(tmp_path)
    lock = file_lock.held(
        tmp_path / "locks" / "up.lock", clock=ManualClock(), deadline_seconds=1, what="the host"
    )
    with lock:
        assert running_parts(tmp_path) == [RunningPart("page", "ready", "http://127.0.0.1:1/", "up/page.log")]
        for damaged in ("", "[]", "{}", '{"parts": {"page": 3}}', "x" * 70_000):
            state.write_text(damaged)
            assert not running_parts(tmp_path)
        state.unlink()
        assert not running_parts(tmp_path)
