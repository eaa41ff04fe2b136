"""The keys file for `--verify`: every token that this registry ever gave a job."""

import json
from pathlib import Path

from jobwire.jobs.record import RecordFormatError, decode_record
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.named_files import check_target


def write_keys(home: Path, out: Path) -> int:
    """Write {"job id": [tokens]} to `out`, mode 0600, and return the number of jobs.

    A record that cannot be read is left out: its events count as unknown_job. Raises StorageError, and
    ConfigError where something else than a file stands at `out`.
    """
    check_target(out, "keys file")
    keys: dict[str, list[str]] = {}
    for path in sorted(Path(HomePaths(home).jobs_path()).glob("*.json")):
        try:
            record = decode_record(path.read_bytes())
        except (OSError, RecordFormatError):
            continue
        keys[record.job_id] = [*record.previous_tokens, record.auth_token]
    replace_durably(out, json.dumps(keys).encode(), files=SystemFiles())
    return len(keys)
