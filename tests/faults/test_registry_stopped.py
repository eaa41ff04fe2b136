"""Every change of the registry, stopped after each system call of its sequence.

Three ways: by an exception that no handler sees, by SIGKILL of a real child, and by a power cut that
takes everything that was not flushed. Afterwards the directory opens clean: the record is the old or
the new one, nothing acknowledged is gone, and repeating the change gives what one run would have.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.core.errors import ConflictError, NoWorkError, StoppedError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.event import compose, encode_signed
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import Priority
from jobwire.registry.quarantine import QuarantinedRecordError
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import Change, JobSpec
from jobwire.registry.store import RecordStore
from jobwire.storage.files import FileSystem, SystemFiles
from jobwire.testing.broken_disks import Crash, PowerCutFiles, StoppingFiles


def _queue(home: Path, files: FileSystem | None = None) -> JobQueue:
    return JobQueue(RecordStore(home, files=files), warn=lambda _: None)


def _prepare(home: Path, files: FileSystem | None = None) -> str:
    """Make a home with one running and one pending job; return the running one's id."""
    queue = _queue(home, files)
    job = queue.register(JobSpec(title="first", idempotency_key="first")).record.job_id
    queue.pick(LeaseGrant("me", 3600))
    queue.register(JobSpec(title="second", idempotency_key="second"))
    queue.close()
    return job


def _say(home: Path, job: str, files: FileSystem | None) -> None:
    store = RecordStore(home, files=files)
    record = store.get(job)
    event = compose(
        seq=1, job_id=job, event="started", timestamp=record.created_at, detail="here", data={"a": 1}
    )
    store.apply(job, event, encode_signed(event, record.auth_token), source="test")


def _register(home: Path, job: str, files: FileSystem | None) -> None:
    _queue(home, files).register(JobSpec(title="third", idempotency_key="third"))


def _pick(home: Path, job: str, files: FileSystem | None) -> None:
    _queue(home, files).pick(LeaseGrant("you", 3600))


def _claim(home: Path, job: str, files: FileSystem | None) -> None:
    queue = _queue(home, files)
    queue.claim(queue.register(JobSpec(idempotency_key="second")).record.job_id, LeaseGrant("you", 3600))


def _cancel(home: Path, job: str, files: FileSystem | None) -> None:
    _queue(home, files).cancel(job, reason="no")


def _release(home: Path, job: str, files: FileSystem | None) -> None:
    _queue(home, files).release(job, attempt=1)


def _update(home: Path, job: str, files: FileSystem | None) -> None:
    _queue(home, files).update(job, Change(priority=Priority.HIGH))


def _set_aside(home: Path, job: str, files: FileSystem | None) -> None:
    store = RecordStore(home, files=files)
    path = Path(store.record_path(job))
    if path.exists():
        path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(QuarantinedRecordError):
        store.repair(job)


Operation = Callable[[Path, str, FileSystem | None], None]
OPERATIONS: dict[str, Operation] = {
    "say": _say,
    "register": _register,
    "pick": _pick,
    "claim": _claim,
    "cancel": _cancel,
    "release": _release,
    "update": _update,
    "set_aside": _set_aside,
}
# Whoever repeats these is told that they were done already.
_DONE_BEFORE: dict[str, type[Exception]] = {
    "pick": NoWorkError,
    "claim": ConflictError,
    "release": StoppedError,
}


def _calls(home: Path, name: str) -> int:
    """Return how many calls the operation makes when nothing stops it."""
    files = StoppingFiles()
    OPERATIONS[name](home, _prepare(home), files)
    return len(files.calls)


class Row(NamedTuple):
    """What the directory says of one job, without what differs between runs."""

    title: str
    status: str
    attempt: int
    last_seq: int
    owner: str
    history: list[str]


def _snapshot(home: Path) -> list[Row]:
    """Return what the directory says of all jobs."""
    store = RecordStore(home)
    rows = []
    for job_id in store.job_ids():
        record = store.get(job_id)
        history = [
            f"{line['kind']} {line.get('before')} {line.get('after')} {line.get('seq')}"
            for line in store.audit(job_id).lines()
        ]
        owner = record.lease.owner if record.lease else None
        rows.append(
            Row(record.title, str(record.status), record.attempt, record.last_seq, owner or "", history)
        )
    return sorted(rows)


def _expected(home: Path, name: str) -> list[Row]:
    job = _prepare(home)
    OPERATIONS[name](home, job, None)
    return _snapshot(home)


def _check(home: Path, job: str, name: str, expected: list[Row]) -> None:
    """Repeat the operation on what a stop left, and hold the result against an undisturbed run."""
    queue = _queue(home)
    queue.list()  # opens clean
    try:
        OPERATIONS[name](home, job, None)
    except _DONE_BEFORE.get(name, AssertionError):
        pass
    assert _snapshot(home) == expected
    leftovers = [path for path in home.rglob(".*.tmp") if name != "set_aside"]
    assert [path for path in leftovers if path.parent.name == "jobs"] == []
    picked = 0
    while True:
        try:
            queue.pick(LeaseGrant("last", 3600))
        except NoWorkError:
            break
        picked += 1
    assert picked == [row.status for row in expected].count("pending")


@pytest.mark.parametrize("name", OPERATIONS)
def test_stopped_by_exception(tmp_path: Path, name: str) -> None:
    """Stopped before each call, with the write torn or not, an operation is repeated without harm."""
    expected = _expected(tmp_path / "undisturbed", name)
    for stop_at in range(_calls(tmp_path / "counted", name)):
        for torn in (False, True):
            home = tmp_path / f"{stop_at}-{torn}"
            job = _prepare(home)
            with pytest.raises(Crash):
                OPERATIONS[name](home, job, StoppingFiles(stop_at=stop_at, torn=torn))
            _check(home, job, name, expected)


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_registry_stopped as cases
from jobwire.testing.broken_disks import StoppingFiles

files = StoppingFiles(stop_at=int(sys.argv[5]), act=lambda: os.kill(os.getpid(), signal.SIGKILL), torn=True)
cases.OPERATIONS[sys.argv[2]](Path(sys.argv[3]), sys.argv[4], files)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_child(tmp_path: Path, name: str) -> None:
    """A child that is really killed before each call leaves its locks free and its change repeatable."""
    expected = _expected(tmp_path / "undisturbed", name)
    calls = _calls(tmp_path / "counted", name)
    for stop_at in range(calls):
        home = tmp_path / str(stop_at)
        job = _prepare(home)
        child = subprocess.run(
            [sys.executable, "-c", CHILD, str(Path(__file__).parent), name, str(home), job, str(stop_at)],
            check=False,
            capture_output=True,
        )
        assert child.returncode == -signal.SIGKILL, child.stderr.decode()
        _check(home, job, name, expected)


@pytest.mark.parametrize("name", OPERATIONS)
def test_power_cut(tmp_path: Path, name: str) -> None:
    """What an operation acknowledged is there after a power cut right behind it, history included."""
    if name == "set_aside":
        pytest.skip("the record it damages does not go through the port")
    home, after = tmp_path / "home", tmp_path / "after"
    files = PowerCutFiles()
    job = _prepare(home, files)
    OPERATIONS[name](home, job, files)
    promised = _snapshot(home)
    files.materialise(home, after)
    assert _snapshot(after) == promised
    assert len(_queue(after).list()) == len(promised)


@pytest.mark.parametrize("name", ["say", "register", "pick", "cancel", "release"])
def test_power_cut_in_between(tmp_path: Path, name: str) -> None:
    """After a power cut before any call the earlier promises hold, and the change can be repeated."""
    expected = _expected(tmp_path / "undisturbed", name)
    for stop_at in range(_calls(tmp_path / "counted", name)):
        home, after = tmp_path / f"{stop_at}", tmp_path / f"{stop_at}-after"
        disk = PowerCutFiles()
        job = _prepare(home, disk)
        with pytest.raises(Crash):
            OPERATIONS[name](home, job, StoppingFiles(stop_at=stop_at, inner=disk))
        disk.materialise(home, after)
        _check(after, job, name, expected)


def test_status_json_is_made_again(tmp_path: Path) -> None:
    """status.json, which is not flushed, follows with the next change of status."""
    home = tmp_path / "home"
    job = _prepare(home)
    path = Path(RecordStore(home).log_dir(job)) / "status.json"
    path.write_bytes(b"")
    _cancel(home, job, SystemFiles())
    assert json.loads(path.read_text())["status"] == "cancelled"


def test_finished_jobs_stay_finished(tmp_path: Path) -> None:
    """A cancelled job stays cancelled when the process dies in the release of its old worker."""
    home = tmp_path / "home"
    job = _prepare(home)
    _cancel(home, job, None)
    with pytest.raises((StoppedError, ConflictError)):
        _release(home, job, None)
    assert RecordStore(home).get(job).status is Status.CANCELLED
