"""Starting the recorder from a query (`option("ingest", "embedded")`).

The recorder is a process of its own: Spark kills its source runner without notice, and a client that
must acknowledge in order does not belong where it can be killed at any time. It lives as long as the
query that started it; the broker keeps its persistent session meanwhile, so the next query's recorder
continues without a gap. One per journal: the journal's writer lock decides, and whoever comes second
reads what the first records.
"""

import json
import select
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
        """Start the recorder. Where there is no journal yet, wait until it records (30 s at most).

        Raises UnreachableError, with the end of the recorder's log, when it does not by then. An old
        journal can be read meanwhile, so then nobody waits for the broker.
        """
        fresh = not self._is_there()
        self.keep_alive()
        give_up = self._clock.monotonic() + _START_SECONDS
        while fresh and not (self._is_there() and self._is_recording()):
            if self._clock.monotonic() >= give_up:
                self.close()
                raise UnreachableError(
                    f"the embedded recorder records nothing after {_START_SECONDS:.0f} s: {self._log_tail()}",
                    hint=f"check the broker's address and this user's rights; its log: {self.log_file}",
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
        self._close_pipes()
        log = self.log_file
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("ab") as output:
            # Its standard input is our end of a pipe: it ends when we do, however that happens.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jobwire.metrics.source.recorder_main", self._words()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )

    def close(self) -> None:
        """End the recorder and wait for it; what it holds is acknowledged or stays with the broker."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_pipes()
        self._process = None

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout) if self._process is not None else ():
            if pipe is not None:
                pipe.close()

    def _is_recording(self) -> bool:
        """Tell whether a recorder said so: ours, or another one before us (then ours has ended well)."""
        if self._process is None or self._process.stdout is None:
            return False
        if self._process.poll() == 0:
            return True
        return bool(select.select([self._process.stdout], [], [], 0)[0]) and self._process.poll() is None

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
