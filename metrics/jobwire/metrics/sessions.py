"""Which session works on a job: not in its events, so it is looked up in the registry's records.

Asked once a job, when its first event is counted, and stored with the job's totals: a record that is
purged or changed later does not change old windows, and a rebuild uses what was stored. Where the
registry's directory is not on this host, the session is empty.
"""

from pathlib import Path

from jobwire.core.terminal_text import safe
from jobwire.core.topics import check_job_id
from jobwire.jobs.record import RecordFormatError, decode_record
from jobwire.storage.home_paths import HomePaths

_LONGEST = 64


class SessionLookup:
    """Finds a job's session by its record file below `home`. About 60 µs a job; never raises."""

    def __init__(self, home: Path) -> None:
        self._jobs = Path(HomePaths(home).jobs_path())

    def __call__(self, job_id: str) -> str:
        """Return the session's name, or "" where nobody knows it."""
        try:
            record = decode_record((self._jobs / f"{check_job_id(job_id)}.json").read_bytes())
        except (OSError, RecordFormatError):
            return ""
        return safe(record.agent_session or "")[:_LONGEST]
