"""What the embedded broker holds at most, and what it does when it is full.

Nothing that a publisher was promised is dropped to make room: a QoS 1 message that does not fit is not
acknowledged, and after `stall_seconds` its publisher is disconnected, so that it keeps and repeats it.
"""

from typing import NamedTuple


class BrokerLimits(NamedTuple):
    """Bounds of one broker. Times are in seconds."""

    max_packet_bytes: int = 262_144  # an event has at most 64 KiB
    max_connections: int = 1_000
    max_sessions: int = 10_000
    max_subscriptions: int = 1_000  # a session
    max_inflight: int = 100  # unacknowledged messages a session
    max_queued_messages: int = 100_000  # a session, those in flight included
    max_queued_bytes: int = 67_108_864  # a session
    max_retained_messages: int = 100_000
    max_retained_bytes: int = 67_108_864
    max_unsent_bytes: int = 1_048_576  # beyond it QoS 0 messages to a slow client are dropped
    connect_seconds: float = 10.0  # from the TCP connection to the CONNECT packet, TLS included
    stall_seconds: float = 10.0  # how long a full queue may hold a publisher
    session_expiry_seconds: int = 604_800  # a persistent session nobody came back to
