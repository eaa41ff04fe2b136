"""The export of all messages: no line lost, none twice, whatever is killed."""

import json
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from jobwire.coordination import sending
from jobwire.coordination.export import export_messages
from jobwire.coordination.message import NewMessage
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import ConflictError, StorageError
from jobwire.storage import file_lock
from jobwire.testing.broken_disks import Crash, StoppingFiles
from jobwire.testing.memory import memory_directory


def _store(home: Path, messages: int) -> CoordinationStore:
    store = CoordinationStore(str(home))
    for number in range(messages):
        sending.send(store, NewMessage("a", ("b",), summary=f"message {number}"))
    return store


def _seqs(home: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in (home / "bus.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("torn", [False, True])
def test_an_export_that_was_killed_goes_on_where_it_was(tmp_path: Path, torn: bool) -> None:
    """Killed before any system call, the next export adds exactly what is missing; gaps are no matter."""
    store = _store(tmp_path, 2)
    export_messages(store)
    with store.changing() as change:
        change.event("thing", source="a")  # a number that is no message's
    sending.send(store, NewMessage("a", ("b",), summary="last"))
    store.close()
    step, stopped = 0, True
    while stopped:
        with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
            home = shutil.copytree(tmp_path, Path(folder, "home"))
            again = CoordinationStore(str(home))
            try:
                export_messages(again, files=StoppingFiles(stop_at=step, torn=torn))
                stopped = False
            except Crash:
                step += 1
            export_messages(again)
            assert _seqs(home) == [1, 2, 4]
            again.close()
    assert step > 2


def test_one_exports_at_a_time(tmp_path: Path) -> None:
    """A second exporter is told so, 20 locked; another file than an export is left alone."""
    store = _store(tmp_path, 1)
    export_messages(store)
    held = file_lock.try_acquire(str(tmp_path / "locks" / "export.lock"))
    assert held is not None
    with pytest.raises(ConflictError) as caught:
        export_messages(store)
    assert caught.value.facts["code"] == "locked"
    file_lock.release(held)
    other = tmp_path / "other"
    other.write_text("no export\n")
    with pytest.raises(StorageError):
        export_messages(store, str(other))
    assert other.read_text() == "no export\n"
    store.close()


def test_other_programs_messages_are_exported_with_their_references(tmp_path: Path) -> None:
    """A line has seq first, and names large bodies instead of quoting them."""
    store = _store(tmp_path, 0)
    sending.send(store, NewMessage("a", ("b",), body="b" * 5000))
    with sqlite3.connect(store.path) as connection:
        connection.execute(
            "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type) VALUES ('f', 1, 'x', 'b', 'note')"
        )
    connection.close()
    assert export_messages(store).messages == 2
    first, second = (tmp_path / "bus.jsonl").read_text().splitlines()
    assert first.startswith('{"seq":1,')
    assert json.loads(first)["body_ref"].startswith("sha256-")
    assert json.loads(second)["message_id"] == "f"
    store.close()
