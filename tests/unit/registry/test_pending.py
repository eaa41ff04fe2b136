"""The index: always what the records say, whatever happened to it."""

import sqlite3
from pathlib import Path

import pytest

from jobwire.jobs.record import Priority
from jobwire.registry import pending
from jobwire.registry.pending import PendingIndex
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore


@pytest.fixture
def index_path(store: RecordStore) -> Path:
    """Give the index's file."""
    return Path(store.queue_path(pending.FILE))


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


@pytest.mark.parametrize("damage", ["missing", "garbage", "empty", "truncated", "boot", "version"])
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
        monkeypatch.setattr(pending, "_boot_id", lambda: "another boot")
    elif damage == "version":
        with sqlite3.connect(index_path) as connection:
            connection.execute("UPDATE about SET value = '0' WHERE name = 'version'")
        connection.close()
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


def test_queries_use_an_index(queue: JobQueue) -> None:
    """What register and pick ask is answered without a scan: their cost does not grow with the jobs."""
    queue.register(JobSpec(agent_session="a", priority=Priority.HIGH, idempotency_key="k"))
    with queue.index() as index:
        plans: list[str] = []
        connection = index._use()
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        _ask_everything(index)
        connection.set_trace_callback(None)
        for statement in asked:
            rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            plans += [row[3] for row in rows]
    assert asked
    # Walking along an index from its first entry, up to a limit of one, is no scan of the table.
    walked = {"SCAN jobs USING INDEX jobs_to_pick_any"}
    assert [plan for plan in plans if "SCAN" in plan or "TEMP B-TREE" in plan] == [*walked]
    assert "(session=?)" in " ".join(plan for plan in plans if "jobs_open" in plan)


def _ask_everything(index: PendingIndex) -> None:
    index.next_pending("a", any_session=False, now=0.0)
    index.next_pending(None, any_session=False, now=0.0)
    index.next_pending(None, any_session=True, now=0.0)
    index.resting()
    index.by_key("k")
    index.open_of_session("a")
    index.due(0.0, 10)
    index.next_position(0.0)
