"""The queue of one session."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobwire.broker.hardened.delivery import DeliveryQueue, Outgoing
from jobwire.broker.hardened.limits import BrokerLimits

LIMITS = BrokerLimits(max_inflight=3, max_queued_messages=8, max_queued_bytes=100)


class DeliveryMachine(RuleBasedStateMachine):
    """Publishes, acknowledgements and reconnections in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = DeliveryQueue(LIMITS)
        self.promised: list[bytes] = []
        self.sent: dict[int, bytes] = {}
        self.number = 0

    @rule()
    def publish(self) -> None:
        """Promise a message where there is room."""
        self.number += 1
        payload = b"%d" % self.number
        if self.queue.has_room(len(payload) + 1):
            self.queue.put(Outgoing("t", payload))
            self.promised.append(payload)

    @rule()
    def send(self) -> None:
        """Send what is due."""
        for sending in self.queue.due():
            assert sending.packet_id not in self.sent
            self.sent[sending.packet_id] = sending.message.payload

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """Acknowledge any message in flight."""
        if self.sent:
            packet_id = data.draw(st.sampled_from(sorted(self.sent)))
            assert self.queue.acknowledge(packet_id)
            self.promised.remove(self.sent.pop(packet_id))
            assert not self.queue.acknowledge(packet_id)

    @rule()
    def reconnect(self) -> None:
        """Everything in flight comes again, in order, under the same ids."""
        again = self.queue.again()
        assert {sending.packet_id: sending.message.payload for sending in again} == self.sent
        assert all(sending.dup for sending in again)

    @invariant()
    def nothing_promised_is_lost(self) -> None:
        """Keep what was promised and not acknowledged in flight or waiting, within the bounds."""
        waiting = [message.payload for message in self.queue._waiting]
        assert sorted([*self.sent.values(), *waiting]) == sorted(self.promised)
        assert waiting == sorted(waiting, key=int)
        assert len(self.sent) <= LIMITS.max_inflight
        assert len(self.queue) <= LIMITS.max_queued_messages
        assert self.queue.bytes == sum(len(payload) + 1 for payload in self.promised)


TestDelivery = DeliveryMachine.TestCase


def test_an_empty_queue_takes_any_message() -> None:
    """A message larger than the byte bound is not refused for ever."""
    assert DeliveryQueue(BrokerLimits(max_queued_bytes=1)).has_room(1000)


@given(st.integers(1, 200))
def test_packet_ids_wrap_without_zero(count: int) -> None:
    """Packet ids run from 1 to 65535 and skip those in flight."""
    queue = DeliveryQueue(BrokerLimits(max_inflight=2))
    queue._last_id = 65_530
    for _ in range(count):
        queue.put(Outgoing("t", b""))
        for sending in queue.due():
            assert 1 <= sending.packet_id <= 65_535
            assert queue.acknowledge(sending.packet_id)
