"""One connected client: packets in order, keep-alive enforced, nothing promised that is not kept."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from amqtt.errors import MQTTError, NoDataError
from amqtt.mqtt.packet import (
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBLISH,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    MQTTPacket,
)
from amqtt.mqtt.pingresp import PingRespPacket
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.mqtt.puback import PubackPacket
from amqtt.mqtt.pubcomp import PubcompPacket
from amqtt.mqtt.publish import PublishPacket
from amqtt.mqtt.pubrec import PubrecPacket
from amqtt.mqtt.pubrel import PubrelPacket
from amqtt.mqtt.suback import SubackPacket
from amqtt.mqtt.subscribe import SubscribePacket
from amqtt.mqtt.unsuback import UnsubackPacket
from amqtt.mqtt.unsubscribe import UnsubscribePacket

from jobwire.broker.hardened.delivery import Outgoing, Sending
from jobwire.broker.hardened.routing import SUBSCRIPTION_REFUSED, Member, PublishResult
from jobwire.broker.hardened.streams import PacketReader, RawPacket, Writer
from jobwire.core.override import override

if TYPE_CHECKING:
    from jobwire.broker.hardened.broker import HardenedBroker
    from jobwire.broker.passwd import PasswordHash

# MQTT 3.1.1, 3.1.2.10: the server waits one and a half times the keep-alive.
KEEP_ALIVE_FACTOR = 1.5
_DRAIN_SECONDS = 60.0
_MAX_QOS = 2

log = logging.getLogger("jobwire.broker")


class HardenedHandler(BrokerProtocolHandler):
    """amqtt's handler with its reader loop and message flows replaced by serial ones.

    amqtt runs a task per packet, acknowledges before it knows what becomes of a message, and forgets what is
    not acknowledged within 5 s. Here a packet is finished before the next is read.
    """

    # What the client was let in with: its certificate's serial, or the hash of its password.
    credential: "int | PasswordHash"
    # Set by `bind`; the base class's constructor is called by `init_from_connect` with fixed arguments.
    member: Member
    _broker: "HardenedBroker"
    _packets: PacketReader
    _out: Writer

    def bind(
        self, *, member: Member, broker: "HardenedBroker", packets: PacketReader, writer: Writer
    ) -> None:
        """Give the handler its collaborators, before `run`."""
        self.member = member
        self._broker = broker
        self._packets = packets
        self._out = writer
        self._warned: set[str] = set()
        self.closing = False
        self.finished = asyncio.Event()

    async def run(self) -> bool:
        """Serve the client until it goes; True if it said DISCONNECT. Raises MQTTError for violations."""
        keep_alive = self.session.keep_alive if self.session else 0
        seconds = keep_alive * KEEP_ALIVE_FACTOR if keep_alive else None
        while not self.closing:
            try:
                async with asyncio.timeout(seconds):
                    packet = await self._packets.next_packet()
            except TimeoutError:
                log.warning("%s sent nothing for %.0f s: disconnected", self.member.client_id, seconds or 0)
                return False
            if packet is None:
                return False
            if packet.header.packet_type == DISCONNECT:
                return True
            await self._handle(packet)
            if self._out.unsent_bytes:
                async with asyncio.timeout(seconds or _DRAIN_SECONDS):
                    await self._out.drain()
        return False

    def send(self, packet: "MQTTPacket[Any, Any, Any]") -> None:
        """Write one packet without waiting."""
        self._out.write(packet.to_bytes())

    def resume(self) -> None:
        """Send again what an earlier connection left unacknowledged, then what waited."""
        for sending in self.member.queue.again():
            self._write(sending)
        self.deliver()

    def deliver(self) -> None:
        """Send what the queue has due."""
        for sending in self.member.queue.due():
            self._write(sending)

    def send_once(self, message: Outgoing) -> None:
        """Send a QoS 0 message unless the client is far behind."""
        if self._out.unsent_bytes <= self._broker.limits.max_unsent_bytes:
            self.send(PublishPacket.build(message.topic, message.payload, None, False, 0, message.retain))

    def abort(self, reason: str) -> None:
        """End the connection at once; `run` returns soon after."""
        if not self.closing:
            log.warning("%s of %s disconnected: %s", self.member.client_id, self.member.user, reason)
        self.closing = True
        self._out.abort()
        self._broker.room_made()

    @override
    async def stop(self) -> None:
        """End the connection and wait for its end (called by the base class at shutdown and expiry)."""
        self.closing = True
        self._out.abort()
        self._broker.room_made()
        await self.finished.wait()

    def _write(self, sending: Sending) -> None:
        topic, payload, retain = sending.message
        self.send(PublishPacket.build(topic, payload, sending.packet_id, sending.dup, 1, retain))

    async def _handle(self, packet: RawPacket) -> None:
        kind = packet.header.packet_type
        try:
            if kind == PUBLISH:
                await self._on_publish(packet)
            elif kind == PUBACK:
                self._on_puback(packet.body)
            elif kind == PUBREL:
                self._on_pubrel(await PubrelPacket.from_stream(packet.reader, fixed_header=packet.header))
            elif kind == SUBSCRIBE:
                await self._on_subscribe(
                    await SubscribePacket.from_stream(packet.reader, fixed_header=packet.header)
                )
            elif kind == UNSUBSCRIBE:
                await self._on_unsubscribe(packet)
            elif kind == PINGREQ:
                self.send(PingRespPacket.build())
            else:
                raise MQTTError(f"a packet of type {kind} is not for a server")
        except NoDataError as error:
            raise MQTTError(f"a packet of type {kind} ends too early") from error

    async def _on_publish(self, raw: RawPacket) -> None:
        _check_topic(raw.body)
        packet = await PublishPacket.from_stream(raw.reader, fixed_header=raw.header)
        topic, qos = packet.topic_name or "", packet.qos or 0
        if qos > _MAX_QOS or (qos and not packet.packet_id):
            raise MQTTError("[MQTT-3.3.1-4] a PUBLISH with QoS 3 or without a packet id")
        identifier = packet.packet_id or 0
        received = self.member.received
        if qos == _MAX_QOS and identifier in received:
            self.send(PubrecPacket.build(identifier))
            return
        message = Outgoing(topic, packet.data or b"")
        if not await self._accepted(message, qos=qos, retain=packet.retain_flag):
            raise MQTTError("not acknowledged: a subscriber's queue is full")
        if qos == 1:
            self.send(PubackPacket.build(identifier))
        elif qos == _MAX_QOS:
            # Exactly once, method B of MQTT 3.1.1, 4.3.3: the id is kept until the sender releases it.
            if len(received) >= self._broker.limits.max_inflight:
                raise MQTTError("too many QoS 2 messages without PUBREL")
            received.add(identifier)
            self.send(PubrecPacket.build(identifier))

    async def _accepted(self, message: Outgoing, *, qos: int, retain: bool) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._broker.limits.stall_seconds
        while True:
            verdict = self._broker.router.publish(self.member, message, qos=qos, retain=retain)
            if verdict is PublishResult.REFUSED:
                # MQTT 3.1.1 knows no refusal of a PUBLISH but the end of the connection; Mosquitto
                # acknowledges and discards, and so do we (3.3.5-2).
                self._warn_once(f"{self.member.user} may not publish to {message.topic}")
            if verdict is not PublishResult.FULL:
                return True
            if self.closing or loop.time() >= deadline:
                return False
            await self._broker.wait_for_room(deadline - loop.time())

    def _on_puback(self, body: bytes) -> None:
        # Half of all packets are these: two bytes need no decoder object.
        if self.member.queue.acknowledge(int.from_bytes(body[:2], "big")):
            self.deliver()
            self._broker.room_made()

    def _on_pubrel(self, packet: PubrelPacket) -> None:
        self.member.received.discard(packet.packet_id)
        self.send(PubcompPacket.build(packet.packet_id))

    async def _on_subscribe(self, packet: SubscribePacket) -> None:
        wanted = packet.payload.topics if packet.payload else []
        if len(wanted) > self._broker.limits.max_subscriptions:
            raise MQTTError(f"a SUBSCRIBE with {len(wanted)} filters")
        if not wanted or packet.variable_header is None or any(qos > _MAX_QOS for _, qos in wanted):
            raise MQTTError("[MQTT-3.8.3-3] a SUBSCRIBE without filters or with an unknown QoS")
        router = self._broker.router
        codes = [router.subscribe(self.member, topic_filter, qos) for topic_filter, qos in wanted]
        self.send(SubackPacket.build(packet.variable_header.packet_id, codes))
        for (topic_filter, _), code in zip(wanted, codes, strict=True):
            if code == SUBSCRIPTION_REFUSED:
                self._warn_once(f"{self.member.user} may not subscribe to {topic_filter}")
            else:
                router.send_retained(self.member, topic_filter)
                # It has looked at all retained messages: others come in between.
                await asyncio.sleep(0)

    async def _on_unsubscribe(self, raw: RawPacket) -> None:
        packet = await UnsubscribePacket.from_stream(raw.reader, fixed_header=raw.header)
        if packet.variable_header is None or packet.payload is None:
            raise MQTTError("an UNSUBSCRIBE without filters")
        for topic_filter in packet.payload.topics:
            self.member.filters.pop(topic_filter, None)
        self.send(UnsubackPacket.build(packet.variable_header.packet_id))

    def _warn_once(self, text: str) -> None:
        # Once a connection and topic: a client that keeps trying must not fill the log.
        if len(self._warned) < self._broker.limits.max_inflight and text not in self._warned:
            self._warned.add(text)
            log.warning("%s (client %s)", text, self.member.client_id)


def _check_topic(body: bytes) -> None:
    """Raise MQTTError unless the topic name is UTF-8 without NUL (MQTT 3.1.1, 1.5.3 and 4.7.3)."""
    length = int.from_bytes(body[:2], "big")
    try:
        topic = body[2 : 2 + length].decode()
    except UnicodeDecodeError as error:
        raise MQTTError("[MQTT-1.5.3-1] a topic that is not UTF-8") from error
    if not topic or "\0" in topic or len(body) < 2 + length:
        raise MQTTError("[MQTT-4.7.3-1] a topic that is empty, cut off or holds NUL")
