"""Starting the recorder from a query (`option("ingest", "embedded")`).

The recorder is a process of its own: Spark kills its source runner without notice, and a client that
must acknowledge in order does not belong where it can be killed at any time. It lives as long as the
query that started it; the broker keeps its persistent session meanwhile, so the next query's recorder
continues without a gap. One per journal: the journal's writer lock decides, and whoever comes second
reads what the first records.
"""

import json
import subprocess
import sys
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.core.errors import UnreachableError
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.metrics.source.options import SourceOptions

LOG_NAME = "recorder.log"
_START_SECONDS = 30.0
_STEP_SECONDS = 0.05
_AGAIN_SECONDS = 2.0
_END_SECONDS = 10.0


class Ingest:
    """The recorder process of one journal, as seen from the query."""

    def __init__(self, options: SourceOptions, *, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def start(self) -> None:
        """Start the recorder and wait until the journal is there (30 s at most).

        Raises UnreachableError, with the end of the recorder's log, when there is none by then.
        """
        self.keep_alive()
        give_up = self._clock.monotonic() + _START_SECONDS
        while not self._is_there():
            if self._clock.monotonic() >= give_up:
                raise UnreachableError(
                    f"no journal from the embedded recorder in {_START_SECONDS:.0f} s: {self._log_tail()}",
                    hint=f"check the broker's address and this user's rights; the whole log: {self.log_file}",
                )
            self._clock.sleep(_STEP_SECONDS)
            self.keep_alive()

    @property
    def log_file(self) -> Path:
        """Return where the recorder's own words go."""
        return self._options.journal.with_name(f"{self._options.journal.name}-{LOG_NAME}")

    def keep_alive(self) -> None:
        """Start the recorder (again) where it does not run; every two seconds at most."""
        if self._process is not None and self._process.poll() is None:
            return
        now = self._clock.monotonic()
        if self._process is not None and now < self._started_at + _AGAIN_SECONDS:
            return
        self._started_at = now
        log = self.log_file
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Its standard input is our end of a pipe: it ends when we do, however that happens.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jobwire.metrics.source.recorder_main", self._words()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def close(self) -> None:
        """End the recorder and wait for it; what it holds is acknowledged or stays with the broker."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _words(self) -> str:
        options = self._options
        return json.dumps(
            {
                "journal": str(options.journal),
                "home": str(options.home) if options.home is not None else None,
                "topics": list(options.topics),
                "topic_root": options.topic_root,
                "broker": dict(options.broker),
                "share_group": options.share_group,
            }
        )

    def _is_there(self) -> bool:
        try:
            JournalReader(self._options.journal).close()
        except JournalNotFound:
            return False
        return True

    def _log_tail(self) -> str:
        try:
            lines = self.log_file.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "it left no log"
        return lines[-1][:300] if lines else "it said nothing"
