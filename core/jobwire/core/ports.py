"""The ports at the edge: what the components need from a broker connection, as contracts."""

from collections.abc import Iterable
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


class LastWill(NamedTuple):
    """What the broker publishes, retained and with QoS 1, if the connection ends without a farewell."""

    topic: str
    payload: bytes


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
        """Connect, wait for CONNACK and for the SUBACK of every filter given before.

        Makes one try. Raises UnreachableError (nobody answered in time) or RefusedError (CONNACK
        refusal, TLS failure, refused filter, or closed before CONNACK with a client certificate:
        TLS 1.3 reports it that late). May be called again after a failure.
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
        """Publish once with QoS 1 and return after its PUBACK.

        While a reconnect is under way it waits for the connection, within the deadline. Raises
        RefusedError for a reason code of 0x80 or above (MQTT 5 only: 3.1.1 has no refusal) and
        UnreachableError when the PUBACK did not come in time or the connection went away: then the
        broker may or may not have it, and nothing is sent again behind the caller's back.
        `expiry_seconds` is ignored on 3.1.1.
        """
        ...

    def subscribe(self, filters: Iterable[str], *, deadline_seconds: float = 10.0) -> None:
        """Subscribe with QoS 1, now and after every reconnect, and wait for SUBACK.

        Before `connect` it only remembers the filters. Raises RefusedError naming the refused
        filter (which is forgotten), UnreachableError when no SUBACK came in time.
        """
        ...

    def receive(self, timeout_seconds: float) -> Incoming | None:
        """Return the next incoming item in order, or None after `timeout_seconds`.

        Raises RefusedError when the broker refuses for good while reconnecting, TransportError when
        the network thread died or the transport is closed.
        """
        ...

    def receive_many(self, max_items: int, timeout_seconds: float) -> list[Incoming]:
        """Return 1 to `max_items` incoming items in order, or [] after `timeout_seconds`.

        Returns as soon as there is anything. Raises as `receive` does.
        """
        ...

    def acknowledge(self, message: Message) -> None:
        """Send the PUBACK, without waiting; a no-op for QoS 0 and for messages of a lost connection.

        Every QoS 1 message must be acknowledged once it is dealt with, rejected ones too: PUBACKs
        leave in the order of arrival (MQTT-4.6.0-2), so one that was given early waits for those before it.
        """
        ...

    def acknowledge_many(self, messages: Iterable[Message]) -> None:
        """Acknowledge several messages in one step, as `acknowledge` would one by one."""
        ...

    def close(self) -> None:
        """Send what was acknowledged, disconnect cleanly and free everything; idempotent."""
        ...
