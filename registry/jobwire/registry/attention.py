"""`on_attention`: a command of the user's own that is run once for each new request."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobwire.core.errors import StorageError
from jobwire.core.terminal_text import safe
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Request, open_requests
from jobwire.registry.hook_runner import HOOK_SECONDS, HookRunner
from jobwire.registry.requests import AskedJob, command_for
from jobwire.registry.store import RecordStore
from jobwire.storage.durable import replace_atomically

# Requests that were told of, of which the newest are kept over a restart.
_KEPT = 4096
_TOLD = "told-requests"
_log = logging.getLogger("jobwire.registry")


class AttentionHook:
    """Runs `words` for each request that was not told of, one at a time, each for HOOK_SECONDS at most.

    The command gets JOBWIRE_REQUEST, and JOBWIRE_REQUEST_JOB, _KIND, _TEXT, _TITLE and _COMMAND. It is run
    once at most: the request is noted before. `look` may be called from any thread, and never waits for it.
    """

    def __init__(
        self,
        store: RecordStore,
        words: Sequence[str],
        *,
        environ: Mapping[str, str],
        seconds: float = HOOK_SECONDS,
    ) -> None:
        self._store = store
        self._path = Path(store.queue_path(_TOLD))
        self._guard = threading.Lock()
        self._told = dict.fromkeys(self._read()) if words else {}
        self._runner = None
        if words:
            self._runner = HookRunner(
                words, name="on_attention", environ=environ, seconds=seconds, warn=_log.warning
            )

    def look(self, record: JobRecord) -> None:
        """Take note of what a job asks now. Never raises a JobwireError."""
        if self._runner is None or not record.attention:
            return
        with self._guard:
            new = [one for one in open_requests(record.requests) if _name(record, one) not in self._told]
            if not new:
                return
            self._told |= dict.fromkeys(_name(record, one) for one in new)
            self._told = dict.fromkeys(list(self._told)[-_KEPT:])
            try:
                replace_atomically(
                    [(str(self._path), json.dumps(list(self._told)).encode())], files=self._store.files
                )
            except StorageError as error:
                _log.warning("%s; after a restart on_attention may run again", error.message)
        for one in new:
            self._runner.run_soon(one.id, _variables(AskedJob(record, one)))

    def close(self) -> None:
        """End after what runs; what waits is left out."""
        if self._runner is not None:
            self._runner.close(0.0)

    def _read(self) -> list[str]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return []
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _name(record: JobRecord, request: Request) -> str:
    # Ids come back in a later attempt, and are another question there.
    return f"{record.job_id}/{request.attempt}/{request.id}"


def _variables(asked: AskedJob) -> dict[str, str]:
    record, request = asked
    return {
        "JOBWIRE_REQUEST": request.id,
        "JOBWIRE_REQUEST_JOB": record.job_id,
        "JOBWIRE_REQUEST_KIND": str(request.kind),
        "JOBWIRE_REQUEST_TEXT": safe(request.text),
        "JOBWIRE_REQUEST_TITLE": safe(record.title),
        "JOBWIRE_REQUEST_COMMAND": command_for(asked),
    }
