"""From the wire into the journal: admit once, append, fsync, then acknowledge, in order.

PUBACK is the broker's licence to forget, so it is given only for what is on the disk (rejected
messages beyond the evidence budget are on record as a count). A kill before the acknowledgement
brings the message again, and admission knows it as a duplicate; a kill after it loses nothing.

Memory is bounded: one batch is in hand, the transport holds a bounded queue and stops reading when it
is full. A disk that is full or slow therefore stops the acknowledgements, never the messages.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jobwire.core.backoff import retry_delay
from jobwire.core.clock import Clock
from jobwire.core.errors import StorageError, UnreachableError
from jobwire.core.ports import Incoming, Message, SessionLost, SessionStarted, Transport
from jobwire.jobs.admission import ACCEPTED
from jobwire.jobs.event import MAX_PAYLOAD
from jobwire.journal.admission import UNDECIDED, UNVERIFIED, Admit, Judged
from jobwire.journal.entry import Entry
from jobwire.journal.evidence import OVERSIZE_EVIDENCE_BYTES, Evidence
from jobwire.journal.writer import JournalWriter

BATCH_MESSAGES = 1000
_BATCH_BYTES = 4 << 20
# Long enough to gather what a burst brings, far below what a person or a publisher notices.
LINGER_SECONDS = 0.002
_IDLE_SECONDS = 0.25
_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 1.0
_MICROSECONDS = 1_000_000
_log = logging.getLogger(__name__)


class Recorded(NamedTuple):
    """One message that is now in the journal, at `offset`."""

    offset: int
    entry: Entry
    judged: Judged


class RecorderProgress(NamedTuple):
    """How the recorder is doing, for a health check; a consistent copy.

    `stalled_since` is in monotonic seconds, None where it is not.
    """

    connected: bool
    durable_offset: int
    verdicts: dict[str, int]
    suppressed: dict[str, int]
    reconnects: int
    stalled_since: float | None


class Recorder:
    """Records everything under `filters` from `transport` (a persistent session) with `writer`.

    `on_durable` gets each batch after it is on the disk and acknowledged; `on_gap` each accepted event
    that shows lower seqs to be missing, after that. Both are called in the recording thread and hold
    it up; an error in them ends `run`. Transport and writer belong to the caller, who closes them.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        writer: JournalWriter,
        admit: Admit,
        filters: Iterable[str],
        clock: Clock,
        evidence: Evidence | None = None,
        on_durable: Callable[[Sequence[Recorded]], None] = lambda _: None,
        on_gap: Callable[[str, range], None] = lambda _job_id, _missing: None,
        on_session: Callable[[SessionStarted | SessionLost], None] = lambda _: None,
        batch_messages: int = BATCH_MESSAGES,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._admit = admit
        self._filters = list(filters)
        self._clock = clock
        self._evidence = evidence if evidence is not None else Evidence(clock=clock)
        self._on_durable = on_durable
        self._on_gap = on_gap
        self._on_session = on_session
        self._batch_messages = batch_messages
        self._linger_seconds = linger_seconds
        self._verdicts: Counter[str] = Counter()
        self._sessions = 0
        self._connected = False
        self._stalled_since: float | None = None

    def run(self, stop: Callable[[], bool]) -> None:
        """Connect, and record until `stop()` says so (asked several times a second); then drain for 1 s.

        Whatever is not recorded by then, or stands before a full disk, is not acknowledged: the broker
        keeps it for the next start.
        An unreachable broker is tried again with growing pauses. Raises RefusedError (the broker
        refuses us), TransportError, and StorageError other than a full disk.
        """
        if not self._connect(stop):
            return
        while not stop():
            self.step(_IDLE_SECONDS, stop)
        give_up = self._clock.monotonic() + _DRAIN_SECONDS
        while self._stalled_since is None and self._clock.monotonic() < give_up:
            if not self.step(0.0, lambda: True):
                break
        summary = self._evidence.summary(self._now_us(), final=True)
        if summary is not None and self._stalled_since is None:
            self._append([summary], lambda: True)

    def step(self, wait_seconds: float, stop: Callable[[], bool]) -> int:
        """Record one batch of what arrives within `wait_seconds`; return the number of messages."""
        messages = self._receive(wait_seconds)
        now_us = self._now_us()
        judged = [self._entry(message, now_us) for message in messages]
        batch = [pair for pair in judged if self._keeps(*pair)]
        summary = self._evidence.summary(now_us)
        entries = [entry for entry, _ in batch] + ([summary] if summary is not None else [])
        end = self._append(entries, stop) if entries else 0
        if end is None:
            return 0  # stopped while the disk was full: nothing is acknowledged, the broker keeps it
        first = end - len(entries)
        if messages:
            self._transport.acknowledge_many(messages)
            self._report([Recorded(first + i, *pair) for i, pair in enumerate(batch)])
        elif not entries:
            self._roll_if_due()
        return len(messages)

    def progress(self) -> RecorderProgress:
        """Return the present figures; may be called from another thread."""
        return RecorderProgress(
            self._connected,
            self._writer.next_offset,
            dict(self._verdicts),
            dict(self._evidence.suppressed),
            max(0, self._sessions - 1),
            self._stalled_since,
        )

    def _connect(self, stop: Callable[[], bool]) -> bool:
        self._transport.subscribe(self._filters)
        attempt = 0
        while not stop():
            try:
                self._transport.connect(_CONNECT_SECONDS)
            except UnreachableError as error:
                attempt += 1
                # Until we are there, a new broker acknowledges events that nobody keeps.
                delay = retry_delay(attempt, random.random(), cap=1.0)  # noqa: S311 - keeps no secret
                _log.warning("%s; trying again in %.1f s", error.message, delay)
                self._pause(delay, stop)
            else:
                return True
        return False

    def _receive(self, wait_seconds: float) -> list[Message]:
        """Return the messages of one batch: what is there, and what follows within the linger time."""
        messages = self._messages(self._transport.receive_many(self._batch_messages, wait_seconds))
        if not messages:
            return messages
        deadline = self._clock.monotonic() + self._linger_seconds
        size = sum(len(message.payload) for message in messages)
        while len(messages) < self._batch_messages and size < _BATCH_BYTES:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            items = self._transport.receive_many(self._batch_messages - len(messages), left)
            if not items:
                break
            more = self._messages(items)
            size += sum(len(message.payload) for message in more)
            messages.extend(more)
        return messages

    def _messages(self, items: list[Incoming]) -> list[Message]:
        messages = []
        for item in items:
            if isinstance(item, Message):
                messages.append(item)
                continue
            self._connected = isinstance(item, SessionStarted)
            self._sessions += self._connected
            self._on_session(item)
        return messages

    def _entry(self, message: Message, now_us: int) -> tuple[Entry, Judged]:
        judged = self._admit(message)
        payload, topic = message.payload, message.topic
        if len(payload) > MAX_PAYLOAD:
            payload = payload[:OVERSIZE_EVIDENCE_BYTES]
        if not topic.isascii():  # a lone surrogate cannot be stored as UTF-8
            topic = topic.encode(errors="backslashreplace").decode()
        return Entry(now_us, topic, payload, message.retain, judged.verdict), judged

    def _keeps(self, entry: Entry, judged: Judged) -> bool:
        self._verdicts[judged.verdict] += 1
        if judged.verdict not in {ACCEPTED, UNVERIFIED, UNDECIDED}:
            self._evidence.log(entry, judged)
        return judged.keep or self._evidence.keeps(entry)

    def _append(self, entries: list[Entry], stop: Callable[[], bool]) -> int | None:
        """Append, again and again while the disk is full; return the offset after it, None if stopped."""
        attempt = 0
        while True:
            try:
                end = self._writer.append(entries)
            except StorageError as error:
                if not error.facts.get("disk_full"):
                    raise
                attempt += 1
                if self._stalled_since is None:
                    self._stalled_since = self._clock.monotonic()
                    _log.error("%s; nothing is acknowledged until there is room", error.message)
                if stop():
                    return None
                self._pause(retry_delay(attempt, 0.0), stop)
            else:
                if self._stalled_since is not None:
                    _log.warning("the disk has room again; recording goes on")
                    self._stalled_since = None
                return end

    def _roll_if_due(self) -> None:
        try:
            self._writer.roll_if_due()
        except StorageError as error:
            # A new segment can wait for room; the next append tries again and tells.
            if not error.facts.get("disk_full"):
                raise

    def _report(self, batch: list[Recorded]) -> None:
        if batch:
            self._on_durable(batch)
        for recorded in batch:
            judged = recorded.judged
            if judged.missing and judged.event is not None:
                self._on_gap(judged.event.job_id, judged.missing)

    def _pause(self, seconds: float, stop: Callable[[], bool]) -> None:
        until = self._clock.monotonic() + seconds
        while not stop() and (left := until - self._clock.monotonic()) > 0:
            self._clock.sleep(min(left, _IDLE_SECONDS))

    def _now_us(self) -> int:
        return int(self._clock.now() * _MICROSECONDS)
