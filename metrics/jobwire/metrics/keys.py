"""The keys file for `--verify`: every token that this registry ever gave a job."""

import json
import os
from pathlib import Path

from jobwire.core.record import RecordFormatError, decode_record
from jobwire.metrics.errors import SinkError


def write_keys(home: Path, out: Path) -> int:
    """Write {"job id": [tokens]} to `out`, mode 0600, and return the number of jobs.

    A record that cannot be read is left out: its events count as unknown_job. Raises SinkError.
    """
    keys: dict[str, list[str]] = {}
    for path in sorted((home / "jobs").glob("*.json")):
        try:
            record = decode_record(path.read_bytes())
        except (OSError, RecordFormatError):
            continue
        keys[record.job_id] = [*record.previous_tokens, record.auth_token]
    temporary = out.with_name(out.name + ".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(keys, file)
        temporary.rename(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SinkError(f"cannot write {out}: {error.strerror}") from error
    return len(keys)
