"""Locks between processes."""

import subprocess
import sys
from pathlib import Path

from jobwire.storage import file_lock


def test_other_process_is_named(tmp_path: Path) -> None:
    """The pid is that of the process that has the lock, not of one that has the file open."""
    path = tmp_path / "x.lock"
    code = (
        "import sys; from jobwire.storage import file_lock; file_lock.try_acquire(sys.argv[1]);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with (
        path.open("ab"),
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert file_lock.holder_pid(path) == holder.pid
        holder.communicate()
    assert file_lock.holder_pid(path) is None
