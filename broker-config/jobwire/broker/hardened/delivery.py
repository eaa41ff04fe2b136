"""What one session is still owed: a bounded queue and the unacknowledged messages, without any I/O."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

from jobwire.broker.hardened.limits import BrokerLimits

_MAX_PACKET_ID = 65_535


class Outgoing(NamedTuple):
    """One message on its way to a subscriber. `retain` is True only for the answer to a SUBSCRIBE."""

    topic: str
    payload: bytes
    retain: bool = False

    @property
    def size(self) -> int:
        """Return the bytes that count against the bounds."""
        return len(self.topic) + len(self.payload)


class Sending(NamedTuple):
    """One PUBLISH to write now."""

    packet_id: int
    message: Outgoing
    dup: bool


class DeliveryQueue:
    """QoS 1 messages of one session in order: in flight, then waiting.

    A message leaves only by its acknowledgement; a new connection sends everything in flight again
    (MQTT 3.1.1, 4.4.0-1), in the same order and with the DUP flag.
    """

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._waiting: deque[Outgoing] = deque()
        self._inflight: OrderedDict[int, Outgoing] = OrderedDict()
        self._last_id = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._inflight)

    def has_room(self, size: int) -> bool:
        """Tell whether a message of `size` bytes fits; an empty queue takes any."""
        if not len(self):
            return True
        return (
            len(self) < self._limits.max_queued_messages
            and self.bytes + size <= self._limits.max_queued_bytes
        )

    def put(self, message: Outgoing) -> None:
        """Add `message`; whoever was promised something has asked `has_room` before."""
        self._waiting.append(message)
        self.bytes += message.size

    def due(self) -> Iterator[Sending]:
        """Move what the window allows into flight and yield it."""
        while self._waiting and len(self._inflight) < self._limits.max_inflight:
            message = self._waiting.popleft()
            packet_id = self._next_id()
            self._inflight[packet_id] = message
            yield Sending(packet_id, message, dup=False)

    def again(self) -> list[Sending]:
        """Return everything in flight, to be sent again on a new connection."""
        return [Sending(packet_id, message, dup=True) for packet_id, message in self._inflight.items()]

    def acknowledge(self, packet_id: int) -> bool:
        """Forget a delivered message; False for an id that is not in flight."""
        message = self._inflight.pop(packet_id, None)
        if message is None:
            return False
        self.bytes -= message.size
        return True

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % _MAX_PACKET_ID + 1
            if self._last_id not in self._inflight:
                return self._last_id
