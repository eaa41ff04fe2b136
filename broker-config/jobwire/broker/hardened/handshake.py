"""The first packet: who may have a session at all, decided before anything is touched.

A client is the CN of its verified certificate, or a user with the right password.
"""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

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
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.hardened.routing import Router
from jobwire.broker.hardened.streams import PacketReader, RawPacket, Writer
from jobwire.broker.passwd import PasswordFile, PasswordHash
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_wire_name

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
        users: PasswordFile,
        *,
        router: Router,
        limits: BrokerLimits,
        plugins: "PluginManager[BrokerContext]",
    ) -> None:
        self.users = users
        self._router = router
        self._limits = limits
        self._plugins = plugins
        self._key = os.urandom(32)
        self._verified: dict[str, tuple[PasswordHash, bytes]] = {}

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
        credential = await self._authenticate(session)
        if credential is None:
            refuse(writer, NOT_AUTHORIZED, f"not authenticated: user {session.username!r}")
        handler.credential = credential
        self._check_client_id(session, writer)
        self._check_will(session, writer)
        # The password has done its work: it must not stay in memory dumps or plugin hands.
        session.password = None
        return handler, session

    async def _authenticate(self, session: Session) -> int | PasswordHash | None:
        tls = session.ssl_object
        if certificate := tls.getpeercert() if tls is not None else None:
            name = certificate_name(certificate)
            if name is not None:
                # One identity, one session: nobody else's can be asked for.
                session.username = session.client_id = name
                return int(str(certificate["serialNumber"]), 16)
        elif session.username and session.password:
            entry = self.users.entries.get(session.username)
            if await self._passes(session.username, session.password, entry) and entry is not None:
                return entry
        return None

    async def _passes(self, name: str, password: str, entry: PasswordHash | None) -> bool:
        raw = password.encode(errors="surrogatepass")
        known = self._verified.get(name)
        # A keyed digest in memory stands for a password that passed: the stretching protects the file,
        # and would cost every cold publish 0.1 s again.
        digest = hmac.digest(self._key, raw, hashlib.sha256)
        if known is not None and known[0] == entry and hmac.compare_digest(known[1], digest):
            return True
        # The slow hash runs in a thread.
        if not await asyncio.to_thread(self.users.verify, name, raw):
            return False
        if entry is not None:
            self._verified[name] = (entry, digest)
        return True

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


def certificate_name(certificate: Mapping[str, Any]) -> str | None:
    """Return the one CN of a certificate's subject if it is a usable identity."""
    subject = certificate.get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    if len(names) != 1:
        return None
    try:
        return check_wire_name(names[0])
    except InvalidInputError:
        return None


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
