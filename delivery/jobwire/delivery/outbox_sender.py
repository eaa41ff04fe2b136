"""Brings a job's outbox to the broker: in order, at least once, by one sender at a time.

Flat combining: whoever holds the send lock sends every entry that is due, also of other processes; one
that waited finds its own already sent, or learns that the broker was away just now.

    append ── send lock ──► connect ► publish each, QoS 1 ► PUBACK ► sent mark ► trim
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from jobwire.core.backoff import retry_delay
from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError, RefusedError, StoppedError, TransportError, UnreachableError
from jobwire.core.ports import Message, SessionLost, Transport
from jobwire.core.topics import Topics
from jobwire.delivery.event_log import EventLog
from jobwire.delivery.outbox import (
    EXPIRY_SECONDS,
    Delivery,
    SentMark,
    SignedEvent,
    due_entries,
    note_sent,
    unconfirmed,
)
from jobwire.delivery.signing import STOP_HINT
from jobwire.storage.file_lock import LockTimeoutError

CONNACK_SECONDS = 10.0
PUBACK_SECONDS = 5.0
# A sender that is done goes on for others no longer than this: its own command must end.
_COURTESY_SECONDS = 2.0
_POLL_SECONDS = 0.02
_HEARD_AT_ONCE = 64


def _random() -> float:
    import random  # noqa: PLC0415 - only a second try needs it

    return random.random()  # noqa: S311 - spreads load, keeps no secret


class Route(NamedTuple):
    """How to reach the broker: its address for messages to people, the topics, and a way to connect.

    `expiry_seconds` is for retained terminal events; None keeps them for ever.
    """

    address: str
    topic_root: str
    new_transport: Callable[[], Transport]
    expiry_seconds: int | None = EXPIRY_SECONDS


class OutboxSender:
    """Sends one job's outbox over one connection, which it keeps until `close`.

    `open_route` is called when it is needed. Not thread-safe; processes and other senders are kept apart by
    the send lock.
    """

    def __init__(
        self,
        events: EventLog,
        open_route: Callable[[], Route],
        *,
        clock: Clock,
        jitter: Callable[[], float] = _random,
    ) -> None:
        self._events = events
        self._open_route = open_route
        self._clock = clock
        self._jitter = jitter
        self._transport: Transport | None = None
        self._sent = 0
        self._mark = SentMark()

    def prepare(self) -> None:
        """Find the route, without connecting. Raises what `open_route` raises."""
        _ = self._route

    @cached_property
    def _route(self) -> Route:
        return self._open_route()

    @property
    def _filters(self) -> list[str]:
        return self._events.filters(lambda: self._route.topic_root)

    @cached_property
    def _topic(self) -> str:
        return Topics(self._route.topic_root).events(self._events.job_id)

    def deliver(self, seq: int, *, attempts: int, repeat: bool = False) -> Delivery:
        """Send everything due, at least up to `seq`, in up to `attempts` tries.

        Blocks up to 15 s a try plus the delays between them. Never raises a JobwireError: whatever
        failed is in the answer, and the entries stay in the outbox.
        """
        started = self._clock.monotonic()
        self._sent = 0
        # Long enough for another process to go through all of its own tries.
        patience = attempts * (CONNACK_SECONDS + PUBACK_SECONDS + 8.0)
        try:
            with self._events.sending(deadline_seconds=patience):
                if not self._sent_meanwhile(seq, started, repeat=repeat):
                    self._try(seq, attempts=attempts, repeat=repeat)
            self._events.check_stopped()
        except LockTimeoutError as error:
            failure: JobwireError = UnreachableError(error.message, hint=error.hint, **error.facts)
            return Delivery(delivered=False, failure=failure)
        except JobwireError as error:
            return Delivery(self._delivered(seq), failure=error, sent=self._sent)
        if self._delivered(seq):
            return Delivery(delivered=True, sent=self._sent)
        # Nothing is due and yet it was not sent: its key is no longer the job's.
        failure = StoppedError(f"job {self._events.job_id} was claimed again meanwhile", hint=STOP_HINT)
        return Delivery(delivered=False, failure=failure, sent=self._sent)

    def flush(self, *, attempts: int, confirm_seconds: float = 0.0) -> Delivery:
        """Send again everything that is unconfirmed; without such entries nobody is asked. As `deliver`.

        Then wait up to `confirm_seconds` for the registry process, where one confirms. A flush that
        failed has delivered nothing, whatever was acknowledged earlier: just that is in doubt.
        """
        try:
            if not self._unconfirmed():
                return Delivery(delivered=True)
            seq = min(self._events.outbox.last_seq, self._events.position().last_seq)
            delivery = self.deliver(seq, attempts=attempts, repeat=True)
            delivered = delivery.delivered and delivery.failure is None
            if delivered and confirm_seconds and self._events.position().confirmed_seq is not None:
                self.confirm(seq, confirm_seconds)
            return delivery._replace(delivered=delivered, waiting=self._unconfirmed())
        except JobwireError as error:
            return Delivery(delivered=False, failure=error)

    def confirm(self, seq: int, seconds: float) -> bool:
        """Wait up to `seconds` until the registry process has `seq` on its disk; tell whether it has.

        What it confirmed is trimmed. Raises StoppedError or ConflictError as the registry says.
        """
        give_up = self._clock.monotonic() + seconds
        try:
            while (self._events.position().confirmed_seq or 0) < seq:
                left = give_up - self._clock.monotonic()
                if left <= 0:
                    return False
                if self._filters:
                    self._connected()
                self._listen(min(left, _POLL_SECONDS))
                self._events.check_stopped()
        except TransportError:
            # The event is delivered and kept; that its confirmation cannot be heard changes neither.
            self.close()
            return False
        self._events.trim(seq)
        return True

    def hear(self, seconds: float) -> None:
        """Connect where needed, and let the log hear the registry for up to `seconds`, or until it did.

        Raises TransportError, StoppedError and ConflictError as the registry says.
        """
        self._connected()
        self._listen(seconds)
        self._events.check_stopped()

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.close()

    def _delivered(self, seq: int) -> bool:
        if self._read_mark().acked_seq >= seq:
            return True
        return (self._events.position().confirmed_seq or 0) >= seq

    def _read_mark(self) -> SentMark:
        """Return the mark on the disk, which tells of other processes, or what is known here beyond it."""
        mark = self._events.outbox.mark.read()
        return mark if mark.acked_seq >= self._mark.acked_seq else self._mark

    def _write_mark(self, mark: SentMark) -> None:
        self._mark = mark
        self._events.outbox.mark.write(mark)

    def _sent_meanwhile(self, seq: int, started: float, *, repeat: bool) -> bool:
        """Tell whether another process did the work while this one waited for the lock."""
        mark = self._read_mark()
        now = self._clock.monotonic()
        # CLOCK_MONOTONIC is one for all processes; a mark from before a reboot may lie in the future.
        if mark.address == self._route.address and started < mark.failed_at <= now:
            raise UnreachableError(
                f"no broker answered at {mark.address}: another process has just tried",
                hint="check that the broker runs and that address and port are right",
            )
        return mark.acked_seq >= seq and not repeat

    def _try(self, seq: int, *, attempts: int, repeat: bool) -> None:
        for attempt in range(1, attempts + 1):
            try:
                self._send(seq, repeat=repeat)
            except UnreachableError:
                self.close()
                if attempt == attempts:
                    self._note_failure()
                    raise
                self._clock.sleep(retry_delay(attempt, self._jitter()))
            except BaseException:
                self.close()
                raise
            else:
                return

    def _send(self, seq: int, *, repeat: bool) -> None:
        """Connect where needed and send in rounds, until nothing new has come."""
        transport = self._connected()
        done_by: float | None = None
        while True:
            position = self._events.position()
            mark = self._read_mark()
            due = due_entries(self._events.outbox, mark, position, now=self._clock.now(), repeat=repeat)
            sent = self._published(transport, due)
            last = note_sent(sent, mark, position, note=self._write_mark, clock=self._clock)
            if not last:
                break
            repeat = False
            now = self._clock.monotonic()
            done_by = done_by if done_by is not None else now + _COURTESY_SECONDS
            if last >= seq and now >= done_by:
                break
        self._trim()

    def _unconfirmed(self) -> int:
        left = unconfirmed(self._events.outbox, self._read_mark(), self._events.position())
        return sum(1 for _ in left)

    def _published(self, transport: Transport, due: Iterator[SignedEvent]) -> Iterator[SignedEvent]:
        for event in due:
            self._events.check_stopped()
            transport.publish(
                self._topic,
                event.payload,
                retain=event.retain,
                deadline_seconds=PUBACK_SECONDS,
                expiry_seconds=self._route.expiry_seconds if event.retain else None,
            )
            self._sent += 1
            yield event
            self._listen(0.0)
            self._check_open()

    def _trim(self) -> None:
        position = self._events.position()
        acked = self._read_mark().acked_seq
        through = acked if position.confirmed_seq is None else position.confirmed_seq
        if through > 0:
            self._events.trim(through)

    def _connected(self) -> Transport:
        try:
            self._take_in(0.0)
        except TransportError:
            # It ended while nobody used it; a fresh connect tells whether there is a reason that lasts.
            self.close()
        if self._transport is None:
            transport = self._route.new_transport()
            transport.subscribe(self._filters)
            try:
                self._connect(transport)
            except BaseException:
                transport.close()
                raise
            self._transport = transport
            self._take_in(0.0)
            self._check_open()
        return self._transport

    def _check_open(self) -> None:
        if self._transport is None:
            raise UnreachableError(
                f"{self._route.address} closed the connection", hint="see the broker's log"
            )

    def _connect(self, transport: Transport) -> None:
        try:
            transport.connect(CONNACK_SECONDS)
        except RefusedError as error:
            # A role account may not read states: then PUBACK is all there is. The transport has
            # forgotten the filter.
            if not error.facts.get("filters"):
                raise
            transport.connect(CONNACK_SECONDS)

    def _listen(self, seconds: float) -> None:
        """Let the log hear what the registry says; without its topics, let `seconds` pass."""
        if self._filters and self._transport is not None:
            self._take_in(seconds)
        elif seconds:
            self._clock.sleep(seconds)

    def _take_in(self, seconds: float) -> None:
        """Take in what has arrived; a connection that was lost meanwhile is given up.

        The transport would reconnect by itself, but a fresh connect tells at once that nobody is there.
        """
        if self._transport is None:
            return
        lost = False
        for item in self._transport.receive_many(_HEARD_AT_ONCE, seconds):
            if isinstance(item, Message):
                self._events.hear(item)
                self._transport.acknowledge(item)
            else:
                lost = isinstance(item, SessionLost)
        if lost:
            self.close()

    def _note_failure(self) -> None:
        mark = self._read_mark()
        self._write_mark(mark._replace(failed_at=self._clock.monotonic(), address=self._route.address))
