"""The network thread: connects, keeps the subscriptions, hands messages over, connects again."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from jobwire.core.clock import Clock
from jobwire.core.errors import (
    JobwireError,
    RefusedError,
    TransportError,
    UnreachableError,
)
from jobwire.core.ports import Incoming, Message, SessionLost, SessionStarted
from jobwire.core.settings import BrokerSettings
from jobwire.transport import failures
from jobwire.transport.acknowledgements import AckLedger
from jobwire.transport.completion import Completion
from jobwire.transport.inbox import Inbox
from jobwire.transport.link import Link, SessionOptions
from jobwire.transport.waker import Waker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

_log = logging.getLogger("jobwire.transport")
# How often keep-alive is looked at; anything else wakes the thread.
_IDLE_SECONDS = 1.0
_REFUSED_FROM = 0x80
# A connection that held this long starts the back-off afresh; two clients that throw each other out
# with one client id never hold it.
_STABLE_SECONDS = 10.0
# A broker that is killed between our ClientHello and its CONNACK looks like one that refuses our
# certificate without saying so. On the first connect we believe it the second time (after a kill nobody
# listens then), on a reconnect the third time.
_BELIEVED_REFUSALS = 3
_BELIEVED_AT_FIRST = 2
_CLOSE_SECONDS = 5.0


class NetworkThread:
    """Owns the link and everything of paho; other threads leave requests and wait for tickets.

    Supervised: whatever ends it, expected or not, becomes `failure`, settles every completion and comes
    out of the inbox.
    """

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        session: SessionOptions,
        context: "ssl.SSLContext | None",
        renew_certificate: Callable[[], None],
        filters: Sequence[str],
        queue_limit: int,
        clock: Clock,
        backoff: Callable[[int], float],
        observer: Callable[[Incoming], None],
    ) -> None:
        self._settings = settings
        self._session = session
        self._context = context
        self._renew_certificate = renew_certificate
        self._filters = list(filters)
        self._clock = clock
        self._backoff = backoff
        self._observer = observer
        self._waker = Waker()
        self._ledger = AckLedger()
        self.inbox = Inbox(limit=queue_limit, clock=clock, on_room=self._waker.wake)
        self._link: Link | None = None
        self._requests: deque[tuple[Completion, Callable[[Link, Completion], None]]] = deque()
        self._publishes: dict[int, tuple[Completion, str]] = {}
        self._subscribes: dict[int, tuple[Completion | None, list[str]]] = {}
        self._callers_waiting: set[Completion] = set()
        self._session_present = False
        self._held: list[Message] = []
        self._ready_at = 0.0
        self._changed = threading.Condition()
        self._ready = False
        self._was_ready = False
        self._failure: JobwireError | None = None
        self._closing = threading.Event()
        self._connect_seconds = 0.0
        self._thread = threading.Thread(target=self._main, name="jobwire-network", daemon=True)

    # Called by the transport's threads.

    def start(self, connect_seconds: float) -> None:
        """Start connecting; every later attempt gets `connect_seconds` as well."""
        self._connect_seconds = connect_seconds
        self._thread.start()

    def wait_started(self, timeout_seconds: float) -> bool:
        """Return whether the first session stood within `timeout_seconds`, even if it is lost again."""
        return self._wait(lambda: self._was_ready, timeout_seconds)

    def wait_ready(self, timeout_seconds: float) -> bool:
        """Return whether a session stands within `timeout_seconds`; raises what ended the thread."""
        return self._wait(lambda: self._ready, timeout_seconds)

    def _wait(self, fact: Callable[[], bool], timeout_seconds: float) -> bool:
        deadline = self._clock.monotonic() + timeout_seconds
        with self._changed:
            while not fact():
                if self._failure is not None:
                    raise self._failure
                remaining = deadline - self._clock.monotonic()
                if remaining <= 0:
                    return False
                self._changed.wait(remaining)
        return True

    def publish(
        self, topic: str, payload: bytes, *, retain: bool, expiry_seconds: int | None, timeout_seconds: float
    ) -> bool:
        """Publish on the present connection; return whether PUBACK came in time, or raise."""

        def send(link: Link, completion: Completion) -> None:
            packet_id = link.publish(topic, payload, retain=retain, expiry_seconds=expiry_seconds)
            self._publishes[packet_id] = (completion, topic)

        return self._ask(send, timeout_seconds)

    def subscribe(self, filters: list[str], timeout_seconds: float) -> bool:
        """Subscribe on the present connection; return whether SUBACK came in time, or raise."""

        def send(link: Link, completion: Completion) -> None:
            # From now on also after a reconnect, even if this answer never comes.
            self._filters.extend(name for name in filters if name not in self._filters)
            self._subscribes[link.subscribe(filters, again=False)] = (completion, filters)

        return self._ask(send, timeout_seconds)

    def _ask(self, send: Callable[[Link, Completion], None], timeout_seconds: float) -> bool:
        completion = Completion()
        # While somebody waits for an answer reading goes on past a full inbox: the answer comes the same way.
        self._callers_waiting.add(completion)
        try:
            self._requests.append((completion, send))
            self._waker.wake()
            if self._failure is not None:  # the thread ended before or while the request was left
                completion.settle(self._failure)
            return completion.wait(timeout_seconds)
        finally:
            self._callers_waiting.discard(completion)

    def acknowledge(self, tokens: Sequence[int]) -> None:
        """Queue acknowledgements."""
        self._ledger.request(tokens)
        self._waker.wake()

    def close(self) -> None:
        """Disconnect cleanly and end the thread."""
        self._closing.set()
        self._waker.wake()
        if self._thread is not threading.current_thread():
            # Bounded: the thread may hang in a name lookup, which nothing can interrupt.
            self._thread.join(_CLOSE_SECONDS)
        self._waker.close()

    # The thread.

    def _main(self) -> None:
        try:
            self._run()
            failure: JobwireError = TransportError("the transport is closed", cause="closed_by_us")
        except JobwireError as error:
            failure = error
        except BaseException as error:  # noqa: BLE001 - supervision: nothing may end this thread unheard
            _log.exception("the network thread failed")
            failure = TransportError(
                f"the network thread failed: {error!r}", hint="this is a defect: report it", cause="defect"
            )
            failure.__cause__ = error
        self._end(failure)

    def _run(self) -> None:
        attempt = refusals = 0
        while not self._closing.is_set():
            try:
                self._serve()
            except UnreachableError as error:
                if not self._was_ready:
                    raise
                lost: TransportError = error
                refusals = 0
            except RefusedError as error:
                refusals += 1
                if self._believed(error, refusals):
                    raise
                lost = error
            finally:
                held_seconds = self._drop_link()
            if self._closing.is_set():
                return
            if held_seconds is not None:
                self._tell(SessionLost(lost.message))
            _log.info("%s; trying again", lost.message)
            attempt = 1 if (held_seconds or 0) >= _STABLE_SECONDS else attempt + 1
            self._closing.wait(self._backoff(attempt))
            self._renew_certificate()

    def _believed(self, error: RefusedError, refusals: int) -> bool:
        """Tell whether the broker really refuses us, as it seems for the `refusals`-th time in a row."""
        if error.facts.get("cause") != "client_certificate":
            return True
        if self._was_ready:
            return refusals >= _BELIEVED_REFUSALS
        return bool(error.facts.get("alert")) or refusals >= _BELIEVED_AT_FIRST

    def _serve(self) -> None:
        """Connect and work until the link breaks (raises) or `close` is called (returns)."""
        deadline = self._clock.monotonic() + self._connect_seconds
        link = self._link = Link(
            settings=self._settings,
            session=self._session,
            context=self._context,
            handler=self,
            ledger=self._ledger,
            waker=self._waker,
        )
        link.open(deadline)
        while not self._closing.is_set():
            timeout = _IDLE_SECONDS
            if not self._ready:
                timeout = deadline - self._clock.monotonic()
                if timeout <= 0:
                    raise failures.silent(
                        self._settings, "answer SUBSCRIBE" if link.accepted else "answer CONNECT"
                    )
            self._send_requests(link)
            link.pump(timeout, reading=bool(self._callers_waiting) or not self.inbox.full())
        self._send_requests(link)
        link.disconnect()

    def _send_requests(self, link: Link) -> None:
        while self._requests:
            completion, send = self._requests.popleft()
            if self._ready:
                send(link, completion)
            else:
                completion.settle(self._lost_meanwhile())

    def _drop_link(self) -> float | None:
        """Close the link, settle what is asked, return how long the session held (None: it never stood)."""
        held_seconds = self._clock.monotonic() - self._ready_at if self._ready else None
        self._ready = False
        if self._link is not None:
            self._link.close()
            self._link = None
        self._ledger.connection_lost()
        error = self._lost_meanwhile()
        for completion, _ in self._publishes.values():
            completion.settle(error)
        for waiting, _ in self._subscribes.values():
            if waiting is not None:
                waiting.settle(error)
        self._held.clear()  # not acknowledged: the broker sends them again
        self._publishes.clear()
        self._subscribes.clear()
        return held_seconds

    def _lost_meanwhile(self) -> UnreachableError:
        return UnreachableError(
            f"the connection to {self._settings.address} was lost before the broker answered",
            hint="send it again: the broker may or may not have it, consumers sort that out by seq",
            cause="lost",
            address=self._settings.address,
        )

    def _end(self, failure: JobwireError) -> None:
        with self._changed:
            self._failure = failure
            self._ready = False
            self._changed.notify_all()
        while self._requests:
            self._requests.popleft()[0].settle(failure)
        self.inbox.end(failure)

    # Session state; the link's callbacks run in this thread.

    def on_connack(self, *, session_present: bool) -> None:
        """Bring back the subscriptions; without any the session stands."""
        self._session_present = session_present
        if self._filters and self._link is not None:
            packet_id = self._link.subscribe(self._filters, again=self._was_ready)
            self._subscribes[packet_id] = (None, list(self._filters))
        else:
            self._set_ready()

    def on_messages(self, messages: Sequence[Message]) -> None:
        """Hand them over, after SessionStarted: a kept session sends its messages before our SUBACK."""
        if self._ready:
            self.inbox.put(messages)
        else:
            self._held.extend(messages)

    def on_puback(self, packet_id: int, code: int, name: str) -> None:
        """Settle the publisher's completion; a late answer has none."""
        completion, topic = self._publishes.pop(packet_id, (None, ""))
        if completion is not None:
            completion.settle(failures.publish_refused(topic, code, name) if code >= _REFUSED_FROM else None)

    def on_suback(self, packet_id: int, codes: Sequence[int]) -> None:
        """Settle the caller's completion, or finish the session's own subscription."""
        completion, filters = self._subscribes.pop(packet_id, (None, []))
        refused = [name for name, code in zip(filters, codes, strict=False) if code >= _REFUSED_FROM]
        error = failures.subscribe_refused(refused, max(codes)) if refused else None
        if completion is None:
            if error is not None:
                raise error
            self._set_ready()
            return
        self._filters = [name for name in self._filters if name not in refused]
        completion.settle(error)

    def _set_ready(self) -> None:
        self._ready_at = self._clock.monotonic()
        self._tell(SessionStarted(self._session_present))
        self.inbox.put(self._held)
        self._held.clear()
        with self._changed:
            self._ready = self._was_ready = True
            self._changed.notify_all()

    def _tell(self, event: Incoming) -> None:
        self._observer(event)
        self.inbox.put((event,))
