"""The first packet: who may have a session at all, decided before anything is touched."""

import asyncio
from typing import TYPE_CHECKING, NoReturn

from amqtt.errors import MQTTError, NoDataError
from amqtt.mqtt.connack import (
    IDENTIFIER_REJECTED,
    NOT_AUTHORIZED,
    UNACCEPTABLE_PROTOCOL_VERSION,
    ConnackPacket,
)
from amqtt.mqtt.packet import CONNECT
from amqtt.session import Session

from jobwire.broker.hardened.handler import HardenedHandler
from jobwire.broker.hardened.identity import Authenticator
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.hardened.routing import Router
from jobwire.broker.hardened.streams import PacketReader, RawPacket, Writer

if TYPE_CHECKING:
    from amqtt.broker import BrokerContext
    from amqtt.plugins.manager import PluginManager

_LEVEL_3_1_1 = 4
_LEVEL_5 = 5
# CONNACK of version 5: no session, reason 0x84 "Unsupported Protocol Version", no properties (MQTT 5, 3.2).
_REFUSAL_5 = bytes([0x20, 0x03, 0x00, 0x84, 0x00])
_MAX_CLIENT_ID = 128


class Handshake:
    """Turns a fresh connection into an authenticated session, or refuses it."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        router: Router,
        limits: BrokerLimits,
        plugins: "PluginManager[BrokerContext]",
    ) -> None:
        self._authenticator = authenticator
        self._router = router
        self._limits = limits
        self._plugins = plugins

    async def admit(self, packets: PacketReader, writer: Writer) -> tuple[HardenedHandler, Session]:
        """Read and judge the CONNECT; raises MQTTError after having answered a refusal."""
        async with asyncio.timeout(self._limits.connect_seconds):
            first = await packets.next_packet()
        if first is None or first.header.packet_type != CONNECT:
            raise MQTTError("[MQTT-3.1.0-1] the first packet is not a CONNECT")
        _check_version(first, writer)
        try:
            handler, session = await HardenedHandler.init_from_connect(
                first.whole_reader, writer, self._plugins
            )
        except NoDataError as error:
            raise MQTTError("a CONNECT that ends too early") from error
        assert isinstance(handler, HardenedHandler)  # noqa: S101 - a class method: it made one of its class
        await self._authenticate(session, writer)
        self._check_client_id(session, writer)
        self._check_will(session, writer)
        # The password has done its work: it must not stay in memory dumps or plugin hands.
        session.password = None
        return handler, session

    async def _authenticate(self, session: Session, writer: Writer) -> None:
        identity = await self._authenticator.identify(
            tls=session.ssl_object, username=session.username, password=session.password
        )
        if identity is None:
            refuse(writer, NOT_AUTHORIZED, f"not authenticated: user {session.username!r}")
        session.username = identity.name
        if identity.by_certificate:
            # One identity, one session: nobody else's can be asked for.
            session.client_id = identity.name

    def _check_client_id(self, session: Session, writer: Writer) -> None:
        client_id = session.client_id or ""
        usable = 0 < len(client_id) <= _MAX_CLIENT_ID and client_id.isprintable()
        owner = self._router.members.get(client_id)
        if not usable or (owner is not None and owner.user != session.username):
            refuse(writer, IDENTIFIER_REJECTED, f"{session.username} may not use the client id {client_id!r}")

    def _check_will(self, session: Session, writer: Writer) -> None:
        if not session.will_flag:
            return
        topic = session.will_topic or ""
        plain = topic and not any(sign in topic for sign in "+#\0")
        if not plain or not self._router.may_publish(session.username or "", session.client_id or "", topic):
            refuse(writer, NOT_AUTHORIZED, f"{session.username} may not leave a Will to {topic!r}")


def refuse(writer: Writer, code: int, reason: str) -> NoReturn:
    """Answer a CONNECT with a 3.1.1 refusal, close and raise MQTTError with the reason."""
    writer.write(ConnackPacket.build(0, code).to_bytes())
    writer.shut()
    raise MQTTError(reason)


def _check_version(packet: RawPacket, writer: Writer) -> None:
    length = int.from_bytes(packet.body[:2], "big")
    level = packet.body[2 + length : 3 + length]
    if not level:
        raise MQTTError("a CONNECT without a protocol level")
    if level[0] == _LEVEL_3_1_1:
        return
    reason = f"protocol level {level[0]}: this broker speaks MQTT 3.1.1 (level 4)"
    if level[0] == _LEVEL_5:
        writer.write(_REFUSAL_5)
        raise MQTTError(reason)
    refuse(writer, UNACCEPTABLE_PROTOCOL_VERSION, reason)
