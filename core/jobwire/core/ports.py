"""The ports at the edge: what the components need from a broker connection, as contracts."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """One PUBLISH as received.

    `acknowledge` identifies the delivery to `Transport.acknowledge`; None for QoS 0.
    """

    topic: str
    payload: bytes
    retain: bool
    qos: int
    acknowledge: int | None = None


class SessionStarted(NamedTuple):
    """The connection is up and every subscription granted.

    `session_present` False means that the broker kept nothing of an earlier connection: whatever
    was published meanwhile must be read again from the record or the retained messages.
    """

    session_present: bool


class SessionLost(NamedTuple):
    """The connection went away; the transport is already trying again unless closed."""

    reason: str


Incoming = Message | SessionStarted | SessionLost


class Transport(Protocol):
    """One connection to a broker. All methods may be called from any one thread at a time."""

    def connect(self, deadline_seconds: float) -> None:
        """Connect and wait for CONNACK.

        Raises UnreachableError (nobody answered in time) or RefusedError (CONNACK refusal, TLS
        failure, or closed before CONNACK with a client certificate: TLS 1.3 reports it that late).
        """
        ...

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool,
        deadline_seconds: float,
        expiry_seconds: int | None = None,
    ) -> None:
        """Publish with QoS 1 and return after its PUBACK.

        Raises RefusedError for a reason code of 0x80 or above (MQTT 5 only: 3.1.1 has no refusal),
        UnreachableError when the PUBACK did not come in time. `expiry_seconds` is ignored on 3.1.1.
        """
        ...

    def subscribe(self, filters: Iterable[str]) -> None:
        """Subscribe with QoS 1, now and after every reconnect, and wait for SUBACK.

        Raises RefusedError naming the refused filter.
        """
        ...

    def receive(self, timeout_seconds: float) -> Incoming | None:
        """Return the next incoming thing in order, or None after `timeout_seconds`.

        Raises RefusedError when the broker refuses for good while reconnecting, TransportError when the network
        thread died.
        """
        ...

    def acknowledge(self, message: Message) -> None:
        """Send the PUBACK. Call in the order of `receive`; a no-op for QoS 0 and lost connections."""
        ...

    def close(self) -> None:
        """Disconnect cleanly and free everything; idempotent."""
        ...


TransportFactory = Callable[[], Transport]
