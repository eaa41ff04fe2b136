"""What the system refuses to read, for real: another user's record, and no descriptors left."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore

_BEGIN = """
import json, resource, sys
from pathlib import Path
from jobwire.core.clock import SystemClock, utc_timestamp
from jobwire.jobs.event import compose, encode_signed
from jobwire.core.ports import Message
from jobwire.core.topics import Topics
from jobwire.journal.entry import Entry
from jobwire.journal.reader import JournalReader
from jobwire.journal.writer import JournalWriter
from jobwire.journal.consumers import Consumers
from jobwire.registry.folding import Folder
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.registry.views import Views
from jobwire.registry.wire import WireAdmission

home, job, token = sys.argv[1:]
store = RecordStore(home)
queue = JobQueue(store, warn=lambda text: None)
topics, clock = Topics(), SystemClock()
writer = JournalWriter(Path(home, "journal"), clock=clock)
views = Views(store)
folder = Folder(store=store, views=views, topics=topics, reader=JournalReader(writer.directory),
                durable_offset=lambda: writer.next_offset, consumers=Consumers(writer.directory),
                journal=writer.append, on_folded=lambda *_: None)
admit = WireAdmission(topics=topics, views=views)

def say(seq, kind):
    event = compose(seq=seq, job_id=job, event=kind, timestamp=utc_timestamp(0.0), detail="", data={})
    return encode_signed(event, token)

def hear(seq, kind):
    judged = admit(Message(topics.events(job), say(seq, kind), False, 1, 1))
    return [judged.verdict, judged.keep]
"""

_FORBIDDEN = (
    _BEGIN
    + """
heard = hear(1, "started")
writer.append([Entry(0, topics.events(job), say(1, "started"), False, heard[0])])
folder.step(hurry=True)
registered = queue.register(JobSpec()).created
print(json.dumps({"heard": heard, "put_off": list(folder.put_off()), "registered": registered}))
"""
)

_EXHAUSTED = (
    _BEGIN
    + """
hear(1, "completed")  # what is imported late is imported by now
limit = resource.getrlimit(resource.RLIMIT_NOFILE)
views = Views(store)
admit = WireAdmission(topics=topics, views=views)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
heard = hear(1, "started")
writer.append([Entry(0, topics.events(job), say(1, "started"), False, heard[0])])
try:
    folder.step(hurry=True)
except OSError as error:
    print(error, file=sys.stderr)
resource.setrlimit(resource.RLIMIT_NOFILE, limit)
while not folder.caught_up() or folder.put_off():
    folder.step(hurry=True)
record = store.get(job)
print(json.dumps({"heard": heard, "last_seq": record.last_seq, "confirmed": record.confirmed_seq}))
"""
)


def _run(script: str, home: Path, *before: str) -> dict[str, object]:
    store = RecordStore(home)
    job = JobQueue(store, warn=pytest.fail).register(JobSpec()).record
    if before:
        for path in (home, *home.rglob("*")):
            os.chown(path, 65534, 65534)
        os.chown(store.record_path(job.job_id), 0, 0)
    result = subprocess.run(
        [*before, sys.executable, "-c", script, str(home), job.job_id, job.auth_token],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return {**answer, "job": job.job_id}


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv to be somebody else"
)
def test_record_of_another_user() -> None:
    """A record that we may not read (EACCES) is not an unknown job, and keeps nobody else."""
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        Path(folder).chmod(0o755)
        answer = _run(_FORBIDDEN, Path(folder, "home"), *nobody)
    assert answer["heard"] == ["undecided", True]
    assert answer["put_off"] == [answer["job"]]
    assert answer["registered"] is True


def test_no_descriptors_left(tmp_path: Path) -> None:
    """A genuine event that comes when no file can be opened (EMFILE) is kept, and counts afterwards."""
    answer = _run(_EXHAUSTED, tmp_path / "home")
    assert (answer["heard"], answer["last_seq"], answer["confirmed"]) == (["undecided", True], 1, 1)
