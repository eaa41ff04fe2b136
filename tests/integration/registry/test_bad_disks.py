"""Full and read-only file systems, mounted for real in a private mount namespace."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare"),
]


def _in_namespace(mount: str, script: str, home: Path) -> dict[str, object]:
    """Run `mount` in a private mount namespace, then `script`; return the JSON that it prints."""
    result = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f'{mount}\nexec "$PYTHON" -c "$SCRIPT" "$HOME_DIR"'],
        env={**os.environ, "PYTHON": sys.executable, "SCRIPT": script, "HOME_DIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


FULL = """
import json, sys
from jobwire.core.errors import StorageError
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.registry.spec import Change
from pathlib import Path

store = RecordStore(sys.argv[1])
queue = JobQueue(store, warn=print)
made = [queue.register(JobSpec(title=str(number))).record.job_id for number in range(5)]
filler = Path(sys.argv[1]) / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(b"x" * 4096):
            pass
    except OSError:
        pass
errors = []
for job in made:
    try:
        queue.update(job, Change(title="new" * 50))
    except StorageError as error:
        errors.append([error.hint, bool(error.facts.get("disk_full"))])
try:
    queue.register(JobSpec(instructions="x" * 20000))
except StorageError as error:
    errors.append([error.hint, True])
readable = [store.get(job).title for job in made]
leftovers = [path.name for path in Path(store.jobs_path()).iterdir() if path.name.startswith(".")]
filler.unlink()
after = queue.update(made[0], Change(title="new"))
print(json.dumps({"errors": errors, "readable": readable, "leftovers": leftovers, "after": after.title,
                  "jobs": len(queue.list())}))
"""


def test_full_disk(tmp_path: Path) -> None:
    """On a full disk every change is refused with the remedy, nothing is half-written, and space heals it."""
    home = tmp_path / "home"
    home.mkdir()
    answer = _in_namespace('mount -t tmpfs -o size=512k tmpfs "$HOME_DIR"', FULL, home)
    errors = answer["errors"]
    assert isinstance(errors, list)
    assert errors
    assert all("free disk space" in hint and full for hint, full in errors)
    assert answer["readable"] == ["0", "1", "2", "3", "4"]
    assert answer["leftovers"] == []
    assert (answer["after"], answer["jobs"]) == ("new", 5)


READ_ONLY = """
import json, sys
from jobwire.core.errors import JobwireError
from jobwire.registry.spec import Change
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore

store = RecordStore(sys.argv[1])
queue = JobQueue(store, warn=print)
job = next(iter(store.job_ids()))
answer = {"title": store.get(job).title, "listed": len(queue.list())}
for name, call in (("register", lambda: queue.register(JobSpec())), ("cancel", lambda: queue.cancel(job))):
    try:
        call()
    except JobwireError as error:
        answer[name] = [int(error.exit_code), error.hint]
print(json.dumps(answer))
"""


def test_read_only_directory(tmp_path: Path) -> None:
    """A read-only directory can be read; every change is refused with code 50 and the remedy."""
    home = tmp_path / "home"
    JobQueue(RecordStore(home), warn=pytest.fail).register(JobSpec(title="here"))
    mount = 'mount --bind "$HOME_DIR" "$HOME_DIR"; mount -o remount,ro,bind "$HOME_DIR"'
    answer = _in_namespace(mount, READ_ONLY, home)
    assert (answer["title"], answer["listed"]) == ("here", 1)
    for name in ("register", "cancel"):
        refusal = answer[name]
        assert isinstance(refusal, list)
        assert refusal[0] == 50
        assert "writable" in refusal[1]
