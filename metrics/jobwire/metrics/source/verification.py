"""Checking signatures where the journal was recorded without keys (`option("verify", "true")`).

What can be said of one message by itself is said here, by the same rules as at the recorder: form,
fields, topic, signature. What needs the job's history (replayed, late, after a terminal event)
cannot be said in a worker that sees a part of it; the pipeline drops a seq that it has seen before.
"""

import functools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobwire.core.envelope import open_sealed
from jobwire.core.errors import ConfigError
from jobwire.core.topics import Topics
from jobwire.jobs.admission import ACCEPTED, JobView, Reason, Rejected, judge, parse
from jobwire.journal.admission import UNDECIDED, UNVERIFIED
from jobwire.journal.entry import STATE_VERDICT
from jobwire.metrics.session import KEYS_FILE_VARIABLE
from jobwire.storage.named_files import read_named_file

# A million jobs with a few tokens each.
_MAX_KEYS = 256 * 1024 * 1024
# Verdicts that say nothing about the signature, or whose yes is asked for again.
_OPEN_VERDICTS = frozenset({ACCEPTED, UNVERIFIED, UNDECIDED, "", str(Reason.UNKNOWN_JOB)})


def load_keys() -> dict[str, tuple[str, ...]]:
    """Return job id -> tokens of its attempts, from the file that the environment names.

    The file is a JSON object {"job id": ["token", ...]}, readable by its owner only
    (`jobwire metrics keys` writes one). It is read once a process, and again when it was replaced or
    changed. Raises ConfigError.
    """
    name = os.environ.get(KEYS_FILE_VARIABLE, "")
    if not name:
        raise ConfigError(
            f"verify=true needs the environment variable {KEYS_FILE_VARIABLE}",
            hint="`jobwire metrics keys --out FILE` writes the file; name it in every executor's environment",
        )
    try:
        found = Path(name).stat()
        return _read_keys(name, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
    except OSError as error:
        raise ConfigError(f"cannot read the keys file {name}: {error.strerror}") from error


@functools.lru_cache(maxsize=1)
def _read_keys(name: str, _version: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    try:
        document = json.loads(read_named_file(name, "keys file", limit=_MAX_KEYS, private=True))
        return {str(job): tuple(map(str, tokens)) for job, tokens in document.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"cannot read the keys file {name}: {type(error).__name__}") from error


class Judge:
    """Gives a verdict from topic and payload alone."""

    def __init__(self, *, topics: Topics, keys: Mapping[str, Iterable[str]]) -> None:
        self._topics = topics
        self._keys = keys

    def verdicts(self, batch: Any) -> Any:
        """Return the batch's verdict column, judged anew where the signature decides."""
        columns = (batch.column(name).to_pylist() for name in ("verdict", "topic", "payload", "retained"))
        judged = [
            self._judge(topic, payload, retained=retained) if verdict in _OPEN_VERDICTS else verdict
            for verdict, topic, payload, retained in zip(*columns, strict=True)
        ]
        return pa.array(judged, pa.string())

    def _judge(self, topic: str, payload: bytes, *, retained: bool) -> str:
        address = self._topics.parse(topic)
        if address is not None and address.kind == "state":
            return self._judge_state(address.job_id, payload)
        parsed = parse(self._topics, topic, payload)
        if isinstance(parsed, Rejected):
            return str(parsed.reason)
        reason = Reason.UNKNOWN_JOB
        for token in self._keys.get(parsed.job_id, ()):
            # A view that saw nothing refuses only for what the message itself shows.
            view = JobView(token=token, joined_late=True)
            verdict = judge(parsed, payload, retained=retained, job=view)
            if not isinstance(verdict, Rejected):
                return ACCEPTED
            reason = verdict.reason
            if reason is not Reason.BAD_SIGNATURE:
                break
        return str(reason)

    def _judge_state(self, job_id: str, payload: bytes) -> str:
        """Judge the registry's word: sealed for the holder of any attempt (jobs/snapshot.py)."""
        if not payload:
            return STATE_VERDICT  # the broker forgets the retained one (MQTT 5, 3.3.1.3)
        tokens = tuple(self._keys.get(job_id, ()))
        # The latest last: most states are signed with it.
        if any(open_sealed(payload, token, about={"job_id": job_id}) for token in reversed(tokens)):
            return STATE_VERDICT
        return str(Reason.BAD_SIGNATURE if tokens else Reason.UNKNOWN_JOB)
