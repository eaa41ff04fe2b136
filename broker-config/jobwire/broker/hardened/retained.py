"""The last retained message of each topic, bounded."""

from collections.abc import Iterator
from typing import NamedTuple

from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.core.topics import filter_matches


class Retained(NamedTuple):
    """What a topic keeps for later subscribers."""

    payload: bytes
    qos: int


class RetainedStore:
    """Retained messages by topic. In memory: what must survive the broker is published again by its owner."""

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._messages: dict[str, Retained] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def has_room(self, topic: str, payload: bytes) -> bool:
        """Tell whether `put` stays within the bounds."""
        if not payload or topic in self._messages:
            return True
        return (
            len(self._messages) < self._limits.max_retained_messages
            and self._bytes + len(payload) <= self._limits.max_retained_bytes
        )

    def put(self, topic: str, payload: bytes, qos: int) -> None:
        """Replace the topic's message; an empty payload clears it (MQTT 3.1.1, 3.3.1.3)."""
        before = self._messages.pop(topic, None)
        if before is not None:
            self._bytes -= len(before.payload)
        if payload:
            self._messages[topic] = Retained(payload, qos)
            self._bytes += len(payload)

    def matching(self, topic_filter: str) -> Iterator[tuple[str, Retained]]:
        """Yield topic and message of everything that matches."""
        for topic, message in list(self._messages.items()):
            if filter_matches(topic_filter, topic):
                yield topic, message
