"""Real processes on one directory: each job goes to exactly one, and no change is lost."""

import collections
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.jobs.lifecycle import Status
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore

PICKER = """
import sys
from jobwire.core.errors import NoWorkError
from jobwire.core.lease import LeaseGrant
from jobwire.registry.queue import JobQueue
from jobwire.registry.store import RecordStore

queue = JobQueue(RecordStore(sys.argv[1]), warn=lambda message: sys.exit(message))
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        print(queue.pick(LeaseGrant(sys.argv[2])).job_id, flush=True)
except NoWorkError:
    pass
"""

REGISTRAR = """
import sys
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore

queue = JobQueue(RecordStore(sys.argv[1]), warn=lambda message: sys.exit(message))
print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    made = queue.register(JobSpec(title=sys.argv[2], idempotency_key=f"key-{number}"))
    print(made.record.job_id, int(made.created), flush=True)
"""

WRITER = """
import sys
from jobwire.registry.store import RecordStore

store, job_id = RecordStore(sys.argv[1]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(100):
    with store.locked(job_id, deadline_seconds=60) as locked:
        extra = {**locked.record.extra, sys.argv[2]: int(locked.record.extra.get(sys.argv[2], 0)) + 1}
        locked.replace(locked.record._replace(extra=extra), cause="count")
"""


def _race(script: str, home: Path, count: int, *arguments: str) -> list[list[str]]:
    """Start `count` processes, let them go together, and return each one's lines."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(home), f"worker-{number}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        lines = [process.communicate(timeout=120)[0].split("\n")[:-1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * count
    return lines


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """Give an empty home."""
    return RecordStore(tmp_path / "home")


def test_sixteen_pickers(store: RecordStore) -> None:
    """With 16 racing pickers each of 60 jobs goes to exactly one, and each record names its picker."""
    queue = JobQueue(store, warn=pytest.fail)
    jobs = [queue.register(JobSpec()).record.job_id for _ in range(60)]
    picked = _race(PICKER, Path(store.home), 16)
    owner = {job: f"worker-{number}" for number, lines in enumerate(picked) for job in lines}
    assert sorted(job for lines in picked for job in lines) == sorted(jobs)
    for job in jobs:
        record = store.get(job)
        assert record.lease is not None
        assert record.lease.owner == owner[job]
        assert record.attempt == 1


def test_registrars_share_their_keys(store: RecordStore) -> None:
    """Eight processes that register the same keys make one job a key, and all are told its id."""
    lines = [line.split() for lines in _race(REGISTRAR, Path(store.home), 8) for line in lines]
    made = [job for job, created in lines if created == "1"]
    assert len(made) == 10
    assert collections.Counter(job for job, _ in lines) == dict.fromkeys(made, 8)


def test_no_update_is_lost(store: RecordStore) -> None:
    """Two processes that each change a record a hundred times lose none of the changes."""
    job = JobQueue(store, warn=pytest.fail).register(JobSpec()).record.job_id
    _race(WRITER, Path(store.home), 2, job)
    extra = store.get(job).extra
    assert (extra["worker-0"], extra["worker-1"]) == (100, 100)


def test_lock_of_a_killed_process_is_free(store: RecordStore) -> None:
    """A lock goes with its process, also by SIGKILL; until then the error names it."""
    job = JobQueue(store, warn=pytest.fail).register(JobSpec()).record.job_id
    script = (
        "import sys; from jobwire.registry.store import RecordStore\n"
        "with RecordStore(sys.argv[1]).locked(sys.argv[2]): print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, store.home, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with (
            pytest.raises(Exception, match=f"process {process.pid}"),
            store.locked(job, deadline_seconds=0.05),
        ):
            pass
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with store.locked(job, deadline_seconds=5) as locked:
        assert locked.record.status is Status.PENDING


def test_store_imports_little(tmp_path: Path) -> None:
    """What every publish_event loads of the registry brings none of the slow libraries."""
    script = (
        "import json, sys, jobwire.registry.store, jobwire.delivery.outbox\n"
        "heavy = {'pydantic', 'dataclasses', 'asyncio', 'rich', 'pathlib', 'sqlite3', 'paho'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    # -S: the environment's own start-up files may import anything.
    paths = [path for path in sys.path if path]
    result = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout) == []
