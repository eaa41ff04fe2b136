"""`jobwire run` as a person starts it: a process of its own, and what it left in the home."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from jobwire.jobs.record import JobRecord
from jobwire.registry.quarantine import UnreadableRecordError
from jobwire.registry.store import RecordStore
from jobwire.testing.watching import bare_environment


def run_words(home: Path, *words: str | bytes) -> list[str | bytes]:
    """Return the command line of `jobwire run`."""
    return [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), "run", *words]


def run_to_its_end(
    home: Path,
    *words: str | bytes,
    seconds: float = 60.0,
    environ: Mapping[str, str] | None = None,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run `jobwire run` with `environ` and `more` in its environment; raises TimeoutExpired."""
    return subprocess.run(
        run_words(home, *words),
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=bare_environment(**more, **(environ or {})),
        timeout=seconds,
        check=False,
    )


def newest_record(home: Path) -> JobRecord:
    """Return the record of the job that was registered last; tests that share `home` may damage theirs."""
    store = RecordStore(home)
    records = []
    for job_id in store.job_ids():
        with contextlib.suppress(UnreadableRecordError):
            records.append(store.get(job_id))
    return max(records, key=lambda record: record.created_at)


def event_names(home: Path, job_id: str) -> list[str]:
    """Return the events of a job's history, in order."""
    lines = Path(RecordStore(home).log_dir(job_id), "events.ndjson").read_text().splitlines()
    return [line["event"]["event"] for line in map(json.loads, lines) if line["kind"] == "event"]


def runs(pid: int) -> bool:
    """Tell whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
