"""Says what happens to the command: kept at once, sent beside the work.

    report ──► Throttle ──► keep (outbox and record, this disk) ──► Sender's thread ──► broker

No broker, a slow one or one that refuses us changes nothing about the command: every event is durable
before anybody waits for a network, and what could not be sent stays in the outbox.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from jobwire.core.clock import Clock
from jobwire.core.errors import (
    ConflictError,
    JobwireError,
    RefusedError,
    StoppedError,
    StorageError,
)
from jobwire.core.redaction import Redactor
from jobwire.jobs.event import MAX_DETAIL
from jobwire.runner.answered_input import AnsweredInput
from jobwire.runner.progress import Report, SignsOfLife, Throttle, life_interval

# How long the last events may take after the command's end; then they wait in the outbox.
LAST_SECONDS = 5.0
_AWAY_SECONDS = 5.0
# A password or certificate that is mended meanwhile is noticed, and the broker's log stays short.
_REFUSED_SECONDS = 30.0
_PROGRESS_SECONDS = 1.0
# Of an attempt's first and last word; each waits 10 s for the record's lock.
_TRIES = 3


class EventPublisher(Protocol):
    """How the worker says things: the part of `jobwire.publisher.Publisher` that it needs."""

    def keep(self, event: str, detail: str = "", data: Mapping[str, object] | None = None) -> object:
        """Keep an event durably, without a network; raises as `Publisher.keep`."""
        ...

    def send(self) -> None:
        """Send what is kept; raises as `Publisher.send`."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


class SendingThread:
    """Sends what is kept, on a thread of its own; `complain` hears each kind of failure once."""

    def __init__(self, publisher: EventPublisher, *, complain: Callable[[str], None]) -> None:
        self._publisher = publisher
        self._complain = complain
        self._said: set[type[JobwireError]] = set()
        self._wake = threading.Condition()
        self._pending = False
        self._closing = False
        # It may hang in a connect when the worker ends.
        self._thread = threading.Thread(target=self._loop, name="sender", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def wake(self) -> None:
        """Say that something was kept."""
        with self._wake:
            self._pending = True
            self._wake.notify()

    def finish(self, seconds: float) -> bool:
        """Try once more where something waits; tell whether that was over within `seconds`."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        while self._wanted():
            wait = self._send()
            if wait is None:
                continue
            with self._wake:
                self._pending = True
                if self._closing:
                    return
                self._wake.wait_for(lambda: self._closing, timeout=wait)

    def _wanted(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._pending or self._closing)
            wanted, self._pending = self._pending, False
            return wanted

    def _send(self) -> float | None:
        """Send; return after how many seconds to try again, None where that is not needed."""
        try:
            self._publisher.send()
        except (StoppedError, ConflictError):
            return None  # the job is no longer ours: nothing is to be sent
        except JobwireError as error:
            if type(error) not in self._said:
                self._said.add(type(error))
                self._complain(f"{error.message}; its events are sent later")
            return _REFUSED_SECONDS if isinstance(error, RefusedError) else _AWAY_SECONDS
        return None


class Reporter:
    """Turns reports into events. `offer` and `printed` never block; the others wait for the disk alone.

    `waiting` tells whether the job waits for a permission: no sign of life may take that back.
    `idle_seconds` is the job's limit: output is told often enough that nobody calls it idle. `answers` gets
    what the command asks; without it nobody answers from elsewhere, and the next event takes it back.
    """

    def __init__(
        self,
        publisher: EventPublisher,
        *,
        clock: Clock,
        environ: Mapping[str, str],
        waiting: Callable[[], bool],
        idle_seconds: float | None = None,
        answers: AnsweredInput | None = None,
        by_itself: bool = False,
    ) -> None:
        self._answers = answers
        self._by_itself = by_itself
        self._publisher = publisher
        self._clock = clock
        self._redactor = Redactor(environ)
        self._waiting = waiting
        interval = life_interval(idle_seconds)
        self._life = SignsOfLife(interval, clock.monotonic())
        turn = min(_PROGRESS_SECONDS, interval)
        self._throttle = Throttle(turn)
        self._turn = turn
        self._over = False
        self._wake = threading.Condition()
        self._closing = False
        self._sender = SendingThread(publisher, complain=complain)
        self._thread = threading.Thread(target=self._loop, name="reporter", daemon=True)

    def start(self, detail: str) -> None:
        """Keep `started`, and begin to listen for reports. Raises StorageError: then nothing may begin."""
        self._insist("started", detail)
        self._sender.start()
        self._sender.wake()
        self._thread.start()
        if self._answers is not None:
            self._answers.start(self._keep)

    def offer(self, report: Report) -> None:
        """Take a report from the output; not of a command that reports by itself, whatever it draws."""
        if self._by_itself:
            return
        with self._wake:
            self._throttle.offer(report)
            self._wake.notify()

    def printed(self, size: int) -> None:
        """Take note that the command printed `size` bytes."""
        with self._wake:
            self._life.printed(size)

    def finish(self, event: str, detail: str, data: Mapping[str, object]) -> None:
        """Say the terminal event after everything that still waits; nothing where the job is over.

        Returns when it is kept and was sent, or after LAST_SECONDS. Raises StorageError.
        """
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        if not self._over:
            # A report that the throttle held back gives the last word its figure.
            self._insist(event, detail, {**_figures(self._throttle.last_word()), **data})
        if self._sender.finish(LAST_SECONDS):
            self._publisher.close()
        else:
            complain("the broker has not answered yet; the last events wait in the outbox")

    def _insist(self, event: str, detail: str, data: Mapping[str, object] | None = None) -> None:
        """Keep an event without which the attempt is lost: a lock may be held long, a disk may be slow."""
        for attempt in range(1, _TRIES + 1):
            try:
                self._keep(event, detail, data)
            except StorageError as error:
                if attempt == _TRIES:
                    raise
                complain(f"{event} is not kept yet: {error.message}; trying again")
                self._clock.sleep(1.0)
            else:
                return

    def _keep(self, event: str, detail: str, data: Mapping[str, object] | None = None) -> None:
        # Cut last: half a secret would not be found.
        text = _shortened(self._redactor.redact(detail))
        try:
            self._publisher.keep(event, text, data)
        except (StoppedError, ConflictError):
            # Cancelled, claimed again, or ended by its own word: the lease keeper knows which.
            self._over = True
        else:
            self._sender.wake()

    def _loop(self) -> None:
        while True:
            with self._wake:
                now = self._clock.monotonic()
                report = self._throttle.take(now)
                sign = None if report or self._closing else self._life.due(now)
                if report is None and sign is None:
                    if self._closing:
                        return
                    self._wake.wait(timeout=self._turn)
                    continue
            self._tell(report, sign)

    def _tell(self, report: Report | None, sign: Report | None) -> None:
        try:
            word = report or (None if sign is None or self._waiting() else sign)
            if word is not None and not self._over:
                asks = self._answers if word.kind != "progress" else None
                data = _figures(word) | (asks.request(word) if asks is not None else {})
                self._keep(word.kind, word.detail, data)
                if asks is not None:
                    asks.asked(data)
        except JobwireError as error:
            complain(f"an event was not kept: {error.message}")
        finally:
            with self._wake:
                self._life.said(report or sign or Report("", ""), self._clock.monotonic())


def complain(text: str) -> None:
    """Tell the person in front of us."""
    print(f"jobwire: {text}", file=sys.stderr, flush=True)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


def _figures(report: Report | None) -> dict[str, object]:
    return {} if report is None or report.percent is None else {"percent": report.percent}
