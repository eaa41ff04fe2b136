"""The `Transport` port over paho-mqtt."""

import logging
import random
from collections.abc import Callable, Iterable

from jobwire.core.backoff import retry_delay
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConfigError, InvalidInputError, RefusedError, TransportError
from jobwire.core.ports import Incoming, LastWill, Message
from jobwire.core.settings import BrokerSettings, is_loopback
from jobwire.transport import failures
from jobwire.transport.link import SessionOptions
from jobwire.transport.network import NetworkThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

_log = logging.getLogger("jobwire.transport")
_SESSION_EXPIRY_SECONDS = 7 * 86400
_KEEPALIVE_SECONDS = 30
_QUEUE_LIMIT = 4096
_MAX_RECEIVE_MAXIMUM = 65535  # MQTT 5, 3.1.2.11.3


def _jittered_backoff(attempt: int) -> float:
    return retry_delay(attempt, random.random())  # noqa: S311 - spreads load, keeps no secret


def _ignore(_: Incoming) -> None:
    """Observe nothing."""


class PahoTransport:
    """One broker connection with its own network thread; see `jobwire.core.ports.Transport`.

    `clean_session` False keeps the session at the broker over restarts of either side, for
    `session_expiry_seconds` on MQTT 5. `queue_limit` bounds the messages received and not yet taken;
    beyond it the network thread stops reading. `backoff` maps the number of a failed attempt (from 1)
    to seconds. `clock` must run by itself: real waits are measured with it. `observer` is called in the
    network thread with each SessionStarted and SessionLost.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        client_id: str,
        clean_session: bool,
        clock: Clock | None = None,
        keepalive_seconds: int = _KEEPALIVE_SECONDS,
        session_expiry_seconds: int = _SESSION_EXPIRY_SECONDS,
        queue_limit: int = _QUEUE_LIMIT,
        backoff: Callable[[int], float] = _jittered_backoff,
        observer: Callable[[Incoming], None] = _ignore,
        will: LastWill | None = None,
    ) -> None:
        if not client_id and not clean_session:
            raise InvalidInputError("a persistent session needs a client id (MQTT 3.1.1, 3.1.3.1)")
        self._settings = settings
        self._session = SessionOptions(
            client_id=client_id,
            clean=clean_session,
            expiry_seconds=session_expiry_seconds,
            keepalive_seconds=keepalive_seconds,
            receive_maximum=min(queue_limit, _MAX_RECEIVE_MAXIMUM),
            will=will,
        )
        self._clock = clock or SystemClock()
        self._queue_limit = queue_limit
        self._backoff = backoff
        self._observer = observer
        self._filters: dict[str, None] = {}
        self._context: ssl.SSLContext | None = None
        self._network: NetworkThread | None = None

    def connect(self, deadline_seconds: float) -> None:
        """See `Transport.connect`; raises ConfigError for unusable certificate files."""
        if self._network is not None:
            self.close()
        warn_of_plaintext(self._settings)
        if self._settings.tls and self._context is None:
            from jobwire.transport.tls import build_context  # noqa: PLC0415 - not needed for plaintext

            self._context = build_context(self._settings)
        network = self._network = NetworkThread(
            settings=self._settings,
            session=self._session,
            context=self._context,
            renew_certificate=self._renew_certificate,
            filters=list(self._filters),
            queue_limit=self._queue_limit,
            clock=self._clock,
            backoff=self._backoff,
            observer=self._observer,
        )
        network.start(deadline_seconds)
        try:
            # A little longer than the thread itself, whose error says more.
            self._require(network.wait_started(deadline_seconds + 1))
        except BaseException as error:
            self._forget_refused(error)
            self.close()
            raise

    def _require(self, stands: bool) -> None:
        if not stands:
            raise failures.silent(self._settings, "accept the connection")

    def _forget_refused(self, error: BaseException) -> None:
        refused = error.facts.get("filters") if isinstance(error, RefusedError) else None
        for name in refused if isinstance(refused, tuple) else ():
            self._filters.pop(name, None)

    def _renew_certificate(self) -> None:
        """Load the certificate files again before a reconnect: a renewed one is used from then on."""
        if self._context is None:
            return
        from jobwire.transport.tls import load_certificate  # noqa: PLC0415 - loaded with the context

        try:
            load_certificate(self._context, self._settings)
        except ConfigError as error:
            # Perhaps it is being replaced right now: the old one still serves, the next attempt looks again.
            _log.warning("%s; going on with the certificate loaded before", error.message)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool,
        deadline_seconds: float,
        expiry_seconds: int | None = None,
    ) -> None:
        """See `Transport.publish`."""
        network = self._running()
        deadline = self._clock.monotonic() + deadline_seconds
        self._require(network.wait_ready(deadline_seconds))
        remaining = deadline - self._clock.monotonic()
        if not network.publish(
            topic, payload, retain=retain, expiry_seconds=expiry_seconds, timeout_seconds=remaining
        ):
            raise failures.silent(self._settings, "acknowledge the message")

    def subscribe(self, filters: Iterable[str], *, deadline_seconds: float = 10.0) -> None:
        """See `Transport.subscribe`."""
        wanted = list(filters)
        self._filters.update(dict.fromkeys(wanted))
        if self._network is None or not wanted:
            return
        deadline = self._clock.monotonic() + deadline_seconds
        try:
            self._require(self._network.wait_ready(deadline_seconds))
            answered = self._network.subscribe(wanted, deadline - self._clock.monotonic())
        except RefusedError as error:
            self._forget_refused(error)
            raise
        if not answered:
            raise failures.silent(self._settings, "answer SUBSCRIBE")

    def receive(self, timeout_seconds: float) -> Incoming | None:
        """See `Transport.receive`."""
        taken = self._running().inbox.take(1, timeout_seconds)
        return taken[0] if taken else None

    def receive_many(self, max_items: int, timeout_seconds: float) -> list[Incoming]:
        """See `Transport.receive_many`."""
        return self._running().inbox.take(max_items, timeout_seconds)

    def acknowledge(self, message: Message) -> None:
        """See `Transport.acknowledge`."""
        if message.acknowledge is not None and self._network is not None:
            self._network.acknowledge((message.acknowledge,))

    def acknowledge_many(self, messages: Iterable[Message]) -> None:
        """See `Transport.acknowledge_many`."""
        if self._network is not None:
            self._network.acknowledge([m.acknowledge for m in messages if m.acknowledge is not None])

    def close(self) -> None:
        """See `Transport.close`."""
        if self._network is not None:
            network, self._network = self._network, None
            network.close()

    def _running(self) -> NetworkThread:
        if self._network is None:
            raise TransportError(
                "the transport is not connected", hint="call connect first", cause="closed_by_us"
            )
        return self._network


def warn_of_plaintext(settings: BrokerSettings) -> None:
    """Log a warning when everything, the password included, is about to leave this host in the clear."""
    if not settings.tls and not is_loopback(settings.host):
        _log.warning(
            "sending in the clear to %s, password included: anybody on the way can read and change it",
            settings.address,
        )
