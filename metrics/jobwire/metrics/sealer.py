"""When the driver seals the journals into their history, and how retention is held until then."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from jobwire.core.clock import Clock
from jobwire.core.errors import StorageError
from jobwire.core.topics import Topics
from jobwire.journal.consumers import Consumers
from jobwire.journal.history import History
from jobwire.journal.seal import seal
from jobwire.metrics.failures import may_pass
from jobwire.metrics.pipeline import Journal
from jobwire.metrics.settings import MetricsSettings
from jobwire.metrics.source.verification import Judge, load_keys
from jobwire.storage.file_lock import AlreadyRunningError

# A journal's closed segments are looked for so often.
_LOOK_SECONDS = 60.0


class Sealer:
    """Seals closed segments within a minute, and the growing one every `history_seconds`."""

    def __init__(
        self, settings: MetricsSettings, *, note: Callable[[str], None], stop: threading.Event, clock: Clock
    ) -> None:
        self._settings = settings
        self._history = History(settings.history) if settings.history is not None else None
        self._note = note
        self._stop = stop
        self._clock = clock
        self._looked_at = clock.monotonic()
        self._sealed_at = self._looked_at

    def seal(self, journals: Sequence[Journal], *, now: bool = False) -> None:
        """Seal what is due, or all of it `now`; ends early on request. Raises JobwireError.

        A place that does not answer, or is full, is noted and tried again: the journal keeps what is not
        sealed. `now`, it is an error.
        """
        every = self._settings.history_seconds
        seconds = self._clock.monotonic()
        if self._history is None or not (now or seconds >= self._looked_at + min(_LOOK_SECONDS, every)):
            return
        self._looked_at = seconds
        growing = now or seconds >= self._sealed_at + every
        try:
            for journal in journals:
                self._seal(self._history, journal, closed_only=not growing)
        except (AlreadyRunningError, StorageError) as error:
            if now or not (isinstance(error, AlreadyRunningError) or may_pass(error)):
                raise
            self._note(f"{error.message} ({error.hint}); the journal keeps what is not sealed")
        else:
            self._sealed_at = seconds if growing else self._sealed_at

    def _seal(self, history: History, journal: Journal, *, closed_only: bool) -> None:
        settings = self._settings
        consumers = Consumers(journal.directory)
        # Of the tables as well: what is sealed they read from there, however far behind they are.
        names = (settings.consumer, f"{settings.consumer}-history") if settings.consumer else ()
        for name in names:
            consumers.register(name)
        for end in seal(
            journal.directory,
            history,
            clock=self._clock,
            topics=Topics(settings.topic_root),
            closed_only=closed_only,
            judge=self._judge(),
            skip_lost=settings.allow_data_loss,
        ):
            for name in names:
                consumers.commit(name, end)
            if self._stop.is_set():
                return

    def _judge(self) -> Callable[[Any], Any] | None:
        if not self._settings.verify:
            return None
        return Judge(topics=Topics(self._settings.topic_root), keys=load_keys()).verdicts
