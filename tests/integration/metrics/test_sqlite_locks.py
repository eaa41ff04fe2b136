"""Several connections of one process to the metric tables, and a reader in another process."""

import subprocess
import sys
from pathlib import Path

from jobwire.metrics.database import open_database

_READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM t").fetchone()[0])
connection.close()
"""


def read(path: Path) -> int:
    """Count the rows in a process that opens, reads and closes, as the shell `sqlite3` does."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(path)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_a_reader_that_ends_takes_no_commit_with_it(tmp_path: Path) -> None:
    """What is committed after another process has read and closed is seen by the next one."""
    path = tmp_path / "metrics.db"
    first = open_database(str(path))
    first.execute("CREATE TABLE t (n INTEGER)")
    second = open_database(str(path), durable=False)
    assert read(path) == 0
    first.execute("INSERT INTO t VALUES (1)")
    second.execute("INSERT INTO t VALUES (2)")
    assert read(path) == 2
    second.close()
    first.close()
    assert read(path) == 2
