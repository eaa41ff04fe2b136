"""Starting the recorder from a query (`option("ingest", "embedded")`).

The recorder is a process of its own: Spark kills its source runner without notice, and a client that
must acknowledge in order does not belong where it can be killed at any time. It lives as long as the
query that started it; the broker keeps its persistent session meanwhile, so the next query's recorder
continues without a gap. One per journal: the journal's writer lock decides, and whoever comes second
reads what the first records.
"""

import json
import select
import sys
from pathlib import Path

from jobwire.core.clock import Clock
from jobwire.core.errors import UnreachableError
from jobwire.journal.errors import JournalNotFound
from jobwire.journal.reader import JournalReader
from jobwire.metrics.source.options import SourceOptions
from jobwire.storage.process import Lifeline, ManagedProcess

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
        self._process: ManagedProcess | None = None
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
                said = self._process.tail(1)[:300] if self._process is not None else ""
                self.close()
                raise UnreachableError(
                    f"the embedded recorder records nothing after {_START_SECONDS:.0f} s: {said}",
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
        if self._process is not None and self._process.alive():
            return
        now = self._clock.monotonic()
        if self._process is not None and now < self._started_at + _AGAIN_SECONDS:
            return
        self._started_at = now
        self.close()
        self._process = ManagedProcess(
            [sys.executable, "-m", "jobwire.metrics.source.recorder_main", self._words()],
            log=self.log_file,
            piped=True,
            lifeline=Lifeline.INPUT,
            grace_seconds=_END_SECONDS,
        ).start()

    def close(self) -> None:
        """End the recorder and wait for it; what it holds is acknowledged or stays with the broker."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _is_recording(self) -> bool:
        """Tell whether a recorder said so: ours, or another one before us (then ours has ended well)."""
        if self._process is None:
            return False
        if self._process.wait(0) == 0:
            return True
        return bool(select.select([self._process.lines], [], [], 0)[0]) and self._process.alive()

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
