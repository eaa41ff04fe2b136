"""The broker connection of one watch: in the background until it stands, again when it falls.

While there is none, `receive` simply has nothing: the watch goes on by the record.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from jobwire.core.backoff import retry_delay
from jobwire.core.errors import JobwireError, RefusedError, TransportError, UnreachableError
from jobwire.core.ports import Incoming, Message, Transport

CONNECT_SECONDS = 10.0
# At the end nobody wants to wait for a broker that does not answer: its session expires by itself.
_CLEAR_SECONDS = 2.0

Factory = Callable[[bool], Transport]


class Connection:
    """One persistent session under one client id, which is used by this watch only.

    `factory(clean)` makes a transport with that client id. `state_filters` are given up
    where the access list refuses them; `event_filters` too, unless `events_required`, where states are
    allowed. Not `required`: a broker that will never have us is noted, and nothing comes. One thread calls
    the methods.
    """

    def __init__(
        self,
        *,
        factory: Factory,
        event_filters: Sequence[str],
        state_filters: Sequence[str],
        events_required: bool = True,
        required: bool = True,
    ) -> None:
        self._factory = factory
        self._event_filters = list(event_filters)
        self._state_filters = list(state_filters)
        self._events_required = events_required
        self._required = required
        self._notes: deque[str] = deque()
        self._closing = threading.Event()
        self._changed = threading.Event()
        self._guard = threading.Lock()
        self._transport: Transport | None = None
        self._failure: JobwireError | None = None
        self._thread: threading.Thread | None = None
        self._session_made = False

    def start(self) -> None:
        """Begin to connect, without waiting."""
        self._changed.clear()
        self._thread = threading.Thread(target=self._main, name="jobwire-connector", daemon=True)
        self._thread.start()

    def receive(self, max_items: int, timeout_seconds: float) -> list[Incoming]:
        """Return what came, or [] after `timeout_seconds`; raises RefusedError or ConfigError for good."""
        transport = self._transport
        if transport is None:
            if not self._changed.wait(timeout_seconds):
                return []
            if self._failure is not None:
                self._gone_for_good(self._failure)
            return []
        try:
            return transport.receive_many(max_items, timeout_seconds)
        except RefusedError as error:
            if not self._can_do_without(error):
                self._gone_for_good(error)
                self._transport = None
                transport.close()
                return []
        except TransportError as error:
            self._notes.append(f"{error.message}; connecting again")
        self._start_again(transport)
        return []

    @property
    def connected(self) -> bool:
        """Tell whether a session has been made and is not given up; it may be reconnecting."""
        return self._transport is not None

    def acknowledge(self, messages: Iterable[Message]) -> None:
        """Acknowledge what was dealt with."""
        if self._transport is not None:
            self._transport.acknowledge_many(messages)

    def notes(self) -> list[str]:
        """Return what happened to the connection since the last call, in words."""
        return [self._notes.popleft() for _ in range(len(self._notes))]

    def close(self) -> None:
        """Disconnect and leave no session behind; bounded to some seconds, idempotent."""
        if self._closing.is_set():
            return
        with self._guard:
            self._closing.set()
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
        if self._thread is not None:
            # It may be connecting: no process should end in the middle of TLS, or leave that session behind.
            self._thread.join(_CLEAR_SECONDS)
        if self._session_made:
            self._clear_session()

    def _gone_for_good(self, failure: JobwireError) -> None:
        if self._required:
            raise failure
        self._notes.append(f"{failure.message}; only the record tells how the job goes on")
        self._failure = None
        self._changed.clear()

    def _start_again(self, transport: Transport) -> None:
        self._transport = None
        transport.close()
        self.start()

    def _clear_session(self) -> None:
        """Connect once with a clean session: what ends a persistent one in both MQTT versions."""
        self._session_made = False
        transport = self._factory(True)
        try:
            transport.connect(_CLEAR_SECONDS)
        except TransportError:
            return
        transport.close()

    # The connecting thread.

    def _main(self) -> None:
        try:
            self._connect_until_it_stands()
        except JobwireError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - supervision: the watch must hear of it, not wait for ever
            failure = TransportError(f"connecting failed: {error!r}", hint="this is a defect: report it")
            failure.__cause__ = error
            self._failure = failure
        finally:
            self._changed.set()

    def _connect_until_it_stands(self) -> None:
        attempt = 0
        said = ""
        while not self._closing.is_set():
            transport = self._factory(False)
            try:
                self._connect(transport)
            except UnreachableError as error:
                transport.close()
                if error.message != said:
                    said = error.message
                    hint = f" ({error.hint})" if error.hint else ""
                    self._notes.append(f"{said}{hint}; trying again for as long as the timeouts allow")
                attempt += 1
                self._closing.wait(retry_delay(attempt, random.random()))  # noqa: S311 - spreads load
                continue
            except BaseException:
                transport.close()
                raise
            if said:
                self._notes.append("connected")
            with self._guard:
                if not self._closing.is_set():
                    self._transport = transport
                    return
            transport.close()
            self._clear_session()

    def _connect(self, transport: Transport) -> None:
        transport.connect(CONNECT_SECONDS)
        self._session_made = True
        while True:
            try:
                transport.subscribe([*self._event_filters, *self._state_filters])
            except RefusedError as error:
                if not self._can_do_without(error):
                    raise
            else:
                return

    def _can_do_without(self, error: RefusedError) -> bool:
        """Tell whether the watch can go on without what the broker refused, and give that up."""
        facts = error.facts.get("filters")
        refused = set(facts) if isinstance(facts, tuple) else set()
        if error.facts.get("cause") != "subscribe" or not refused:
            return False
        events = [name for name in self._event_filters if name not in refused]
        states = [name for name in self._state_filters if name not in refused]
        if len(events) < len(self._event_filters):
            if self._events_required or not states:
                return False
            self._notes.append("the broker does not let us read events: watching the signed state only")
        if len(states) < len(self._state_filters):
            self._notes.append("the broker does not let us read states: only the record shows a cancellation")
        self._event_filters, self._state_filters = events, states
        return True
