"""The index: always what the records say, whatever happened to it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobwire.registry import pending_tables
from jobwire.registry.pending import POSITION
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.sql_packages import plans


@pytest.fixture
def index_path(store: RecordStore) -> Path:
    """Give the index's file."""
    return Path(store.queue_path(pending_tables.FILE))


# What "older" leaves is the index as it was before it had numbered migrations.
_CHANGES = {
    "records": "UPDATE made SET records = 0",
    "newer": "PRAGMA user_version = 99; DROP TABLE made",
    "older": "PRAGMA user_version = 0; PRAGMA application_id = 0; PRAGMA journal_mode = TRUNCATE;"
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
}


def _order(queue: JobQueue) -> list[str]:
    return [record.job_id for record in queue.list()]


def test_marks_are_used_up(queue: JobQueue, store: RecordStore) -> None:
    """A refresh reads the marked records and removes the marks."""
    job_id = queue.register(JobSpec()).record.job_id
    touched = Path(store.queue_path("touched"))
    assert [path.name for path in touched.iterdir()] == [job_id]
    assert _order(queue) == [job_id]
    assert list(touched.iterdir()) == []


def test_mark_of_a_crashed_refresh_is_read(queue: JobQueue, store: RecordStore) -> None:
    """A mark that a dying process had already taken up is read by the next one."""
    with queue.index():
        pass
    job_id = queue.register(JobSpec()).record.job_id
    mark = Path(store.queue_path("touched")) / job_id
    mark.rename(mark.with_suffix(".seen"))
    assert _order(queue) == [job_id]


@pytest.mark.parametrize(
    "damage", ["missing", "garbage", "empty", "truncated", "boot", "records", "older", "newer"]
)
def test_rebuilt_after_damage(
    queue: JobQueue,
    store: RecordStore,
    index_path: Path,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing, damaged, outdated or untrusted index is made again from the records."""
    ids = [queue.register(JobSpec(title=str(number))).record.job_id for number in range(3)]
    assert _order(queue) == ids[::-1]
    queue.close()
    if damage == "missing":
        index_path.unlink()
    elif damage == "boot":
        monkeypatch.setattr(pending_tables, "_boot_id", lambda: "another boot")
    elif damage in _CHANGES:
        with closing(sqlite3.connect(index_path)) as connection:
            connection.executescript(_CHANGES[damage])
    else:
        content = index_path.read_bytes()
        index_path.write_bytes(
            {"garbage": b"x" * 8192, "empty": b"", "truncated": content[: len(content) // 2]}[damage]
        )
    assert _order(queue) == ids[::-1]
    assert queue.register(JobSpec(title="after")).created


def test_rebuild_by_another_process_is_noticed(
    queue: JobQueue, store: RecordStore, warnings: list[str]
) -> None:
    """An open connection does not go on with the file that another process replaced."""
    queue.register(JobSpec())
    other = JobQueue(store, warn=warnings.append)
    other.reindex()
    job_id = other.register(JobSpec()).record.job_id
    assert _order(queue)[0] == job_id


def test_unreadable_record_is_reported(queue: JobQueue, store: RecordStore, warnings: list[str]) -> None:
    """A torn record is reported by a rebuild and does not stop it."""
    keep, torn = (queue.register(JobSpec()).record.job_id for _ in range(2))
    Path(store.record_path(torn)).write_bytes(b"{")
    assert queue.reindex() == 1
    assert _order(queue) == [keep]
    assert len(warnings) == 1
    assert torn in warnings[0]


def test_hostile_records_are_nobodys_to_index(
    queue: JobQueue, store: RecordStore, warnings: list[str]
) -> None:
    """Numbers and texts that no database takes stop no rebuild: the record is checked, and reported."""
    done = queue.register(JobSpec(title="done")).record
    queue.cancel(done.job_id)
    sound = Path(store.record_path(done.job_id)).read_text()
    others = [queue.register(JobSpec()).record.job_id for _ in range(4)]
    for job_id, (old, new) in zip(
        others,
        [
            (f'"{POSITION}": {done.extra[POSITION]}', f'"{POSITION}": {10**30}'),
            ('"agent_session": null', '"agent_session": "\\ud800"'),
            ('"idempotency_key": null', '"idempotency_key": {}'),
            ('"agent_session": null', '"agent_session": 7'),
        ],
        strict=True,
    ):
        assert old in sound
        Path(store.record_path(job_id)).write_text(sound.replace(done.job_id, job_id).replace(old, new))
    queue.reindex()
    assert done.job_id in _order(queue)
    assert len(_order(queue)) + len({word for line in warnings for word in others if word in line}) == 5


def test_queries_use_an_index(tmp_path: Path) -> None:
    """Every query is compiled against the tables, and few of them look at all jobs or sort them."""
    found = plans(pending_tables.TABLES, tmp_path / "a.sqlite")
    slow = {
        name for name, plan in found.items() if any("SCAN jobs" in one or "TEMP B" in one for one in plan)
    }
    # One walks along an index from its first entry, up to a limit; the others are for people.
    assert slow == {"next_of_any", "counts", "failures", "finished_since"}
    assert found["next_of_any"] == ["SCAN jobs USING INDEX jobs_to_pick_any"]
    assert "(session=?)" in " ".join(found["open_of_session"])
