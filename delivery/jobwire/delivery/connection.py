"""The registry process's connection for what it sends. The recorder has one of its own.

A connection of its own, because a transport reads on past a full queue while somebody waits for a
PUBACK: sending over the recorder's would undo its back-pressure.
"""

import logging
import random
import threading
from collections.abc import Callable

from jobwire.core.backoff import retry_delay
from jobwire.core.clock import Clock
from jobwire.core.errors import RefusedError, TransportError, UnreachableError
from jobwire.core.ports import Transport

_CONNECT_SECONDS = 10.0
_PUBACK_SECONDS = 5.0
_PAUSE_SECONDS = 0.2
# Workers wait for it; one process a home is no crowd that comes back together.
_MOST_PAUSE_SECONDS = 1.0
_log = logging.getLogger("jobwire.registry")


class BrokerConnection:
    """Publishes with QoS 1 from any number of threads; connects when needed, with growing pauses.

    `owned` False: `connect` gives somebody else's transport, which is neither connected nor closed here.
    """

    def __init__(self, *, connect: Callable[[], Transport], clock: Clock, owned: bool = True) -> None:
        self._new_transport = connect
        self._owned = owned
        self._clock = clock
        self._transport: Transport | None = None
        self._guard = threading.Lock()
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    def publish(self, topic: str, payload: bytes, *, retain: bool, expiry_seconds: int | None = None) -> None:
        """Return after the PUBACK. Raises TransportError; then the broker may or may not have it.

        After a failed connect it fails at once until the pause is over.
        """
        transport = self._connected()
        try:
            transport.publish(
                topic,
                payload,
                retain=retain,
                deadline_seconds=_PUBACK_SECONDS,
                expiry_seconds=expiry_seconds,
            )
        except RefusedError as error:
            if "topic" not in error.facts:
                self._drop(transport)
            raise
        except UnreachableError:
            raise  # the transport connects again by itself
        except TransportError:
            self._drop(transport)
            self._clock.sleep(_PAUSE_SECONDS)
            raise

    def close(self) -> None:
        """Disconnect; nothing is sent from now on."""
        with self._guard:
            self._closed = True
            transport, self._transport = self._transport, None
            if transport is not None and self._owned:
                transport.close()

    def _connected(self) -> Transport:
        with self._guard:
            if self._transport is not None:
                return self._transport
            if self._closed or self._clock.monotonic() < self._not_before:
                raise UnreachableError("the connection for sending is down", cause="pause")
            transport = self._transport = self._new_transport()
            if not self._owned:
                return transport
            self._transport = None
            try:
                transport.connect(_CONNECT_SECONDS)
            except TransportError as error:
                transport.close()
                self._failures += 1
                jitter = random.random()  # noqa: S311 - spreads load, keeps no secret
                pause = retry_delay(self._failures, jitter, cap=_MOST_PAUSE_SECONDS)
                self._not_before = self._clock.monotonic() + pause
                _log.warning("cannot send states: %s; trying again in %.1f s", error.message, pause)
                raise
            self._failures = 0
            self._transport = transport
            return transport

    def _drop(self, transport: Transport) -> None:
        with self._guard:
            if self._transport is transport:
                self._transport = None
        if self._owned:
            transport.close()
