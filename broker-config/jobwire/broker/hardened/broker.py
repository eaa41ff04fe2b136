"""amqtt's broker with the life of a connection replaced: admission, takeover, service, end."""

import asyncio
import logging
import ssl
from collections.abc import Container
from contextlib import suppress
from functools import partial
from typing import Any

import websockets.asyncio.server
from amqtt.broker import Broker
from amqtt.contexts import ListenerType
from amqtt.errors import MQTTError
from amqtt.mqtt.connack import (
    CONNECTION_ACCEPTED,
    IDENTIFIER_REJECTED,
    NOT_AUTHORIZED,
    SERVER_UNAVAILABLE,
    ConnackPacket,
)
from amqtt.session import Session

from jobwire.broker.acl import AccessList
from jobwire.broker.hardened.delivery import Outgoing
from jobwire.broker.hardened.handler import HardenedHandler
from jobwire.broker.hardened.handshake import Handshake, refuse
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.hardened.routing import Member, Router
from jobwire.broker.hardened.streams import PacketReader, Writer
from jobwire.broker.passwd import PasswordFile
from jobwire.core.override import override

_OF_A_WILL = ("will_flag", "will_topic", "will_message", "will_qos", "will_retain")

log = logging.getLogger("jobwire.broker")


class HardenedBroker(Broker):
    """The listeners, codecs and session objects are amqtt's; what decides about a message is ours.

    For one event loop. The collaborators' files are read by the caller; `reload` replaces them.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext,
        users: PasswordFile,
        acl: AccessList,
        limits: BrokerLimits,
    ) -> None:
        super().__init__(_configuration(host, port, limits))
        self._tls = tls
        self.limits = limits
        self.router = Router(acl, limits)
        self._handshake = Handshake(users, router=self.router, limits=limits, plugins=self.plugins_manager)
        # One session change at a time: two connections with one client id must not both win.
        self._installing = asyncio.Lock()
        self._room = asyncio.Event()
        self._connections: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._revoked: Container[int] = ()

    @property
    def bound_port(self) -> int:
        """Return the port of the listener, once started."""
        instance = self._servers["default"].instance
        assert isinstance(instance, asyncio.Server)  # noqa: S101 - for mypy: the listener type is tcp
        port: int = instance.sockets[0].getsockname()[1]
        return port

    def reload(self, users: PasswordFile, acl: AccessList, revoked: Container[int]) -> None:
        """Use other files from now on.

        Who came in with a password that is gone, or with a certificate whose serial is among `revoked`, is
        disconnected.
        """
        self.router.acl = acl
        self._handshake.users = users
        self._revoked = revoked
        for member in list(self.router.members.values()):
            if member.connection and (reason := self._no_longer_valid(member.user, member.connection)):
                member.connection.abort(reason)

    def _no_longer_valid(self, user: str, handler: HardenedHandler) -> str:
        """Say why what a client was let in with is not valid any more; "" where it is."""
        if isinstance(handler.credential, int):
            return "its certificate is revoked" if handler.credential in self._revoked else ""
        known = self._handshake.users.entries.get(user) == handler.credential
        return "" if known else "its password is no longer valid"

    @override
    async def shutdown(self) -> None:
        """Stop: every connection is ended, no Will is published for them."""
        self._closing = True
        await super().shutdown()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self.router.clear()

    async def wait_for_room(self, seconds: float) -> None:
        """Return when some queue has become shorter, or after `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._room.wait()

    def room_made(self) -> None:
        """Let the waiting publishers look again."""
        self._room.set()
        self._room = asyncio.Event()

    @override
    async def _create_server_instance(
        self,
        listener_name: str,
        listener_type: ListenerType,  # noqa: ARG002 - the base class's signature; ours are all tcp
        address: str | None,
        port: int,
        ssl_context: ssl.SSLContext | None,  # noqa: ARG002 - amqtt's would accept TLS 1.2
    ) -> asyncio.Server | websockets.asyncio.server.Server:
        return await asyncio.start_server(
            partial(self.stream_connected, listener_name=listener_name),
            # amqtt's parser leaves the brackets of an IPv6 address on it.
            address.strip("[]") if address else address,
            port,
            reuse_address=True,
            ssl=self._tls,
            ssl_handshake_timeout=self.limits.connect_seconds,
        )

    @override
    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        """Serve one TCP connection from its first byte to its last."""
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        server = self._servers[listener_name]
        await server.acquire_connection()
        try:
            packets = PacketReader(reader, max_packet_bytes=self.limits.max_packet_bytes)
            await self._serve(packets, Writer(writer))
        finally:
            server.release_connection()

    async def _serve(self, packets: PacketReader, writer: Writer) -> None:
        peer = writer.get_peer_info()
        try:
            handler, session = await self._handshake.admit(packets, writer)
            async with self._installing:
                session = await self._install(session, handler, packets, writer)
        except Exception as error:  # noqa: BLE001 - whatever amqtt's decoders make of a stranger's bytes
            await writer.close()
            log.warning("%s refused: %s", ":".join(map(str, peer or ())), _said(error))
            return
        graceful = False
        try:
            handler.send(ConnackPacket.build(session.parent, CONNECTION_ACCEPTED))
            handler.resume()
            graceful = await handler.run()
        except (MQTTError, OSError, TimeoutError) as error:
            log.warning("%s disconnected: %s", session.client_id, _said(error))
        finally:
            self._end(session, handler, graceful=graceful)
            await writer.close()

    async def _install(
        self, session: Session, handler: HardenedHandler, packets: PacketReader, writer: Writer
    ) -> Session:
        """Make the connection the one of its client id, ending an older one of the same user."""
        client_id = session.client_id or ""
        member = await self._take_over(session, writer)
        # The files may have been read again since it was let in.
        if reason := self._no_longer_valid(session.username or "", handler):
            refuse(writer, NOT_AUTHORIZED, reason)
        if member is not None and member.persistent and not session.clean_session:
            resumed, session = True, _continued(self._sessions[client_id][0], session)
        else:
            resumed = False
            self.router.remove(client_id)
            if client_id not in self._sessions and len(self._sessions) >= self.limits.max_sessions:
                refuse(writer, SERVER_UNAVAILABLE, "too many sessions")
            member = Member(
                user=session.username or "",
                client_id=client_id,
                persistent=not session.clean_session,
                limits=self.limits,
            )
            self.router.members[client_id] = member
        session.parent = int(resumed)
        handler.attach(session, packets, writer)
        handler.bind(member=member, broker=self, packets=packets, writer=writer)
        member.connection = handler
        session.transitions.connect()
        self._sessions[client_id] = (session, handler)
        return session

    async def _take_over(self, session: Session, writer: Writer) -> Member | None:
        client_id = session.client_id or ""
        member = self.router.members.get(client_id)
        if member is None:
            return None
        # Asked again under the lock: the owner may have come between handshake and now.
        if member.user != session.username:
            refuse(writer, IDENTIFIER_REJECTED, f"{session.username} may not use the client id {client_id!r}")
        older = member.connection
        if isinstance(older, HardenedHandler):
            older.abort("the same client connected again")
            await older.finished.wait()
        return self.router.members.get(client_id)

    def _end(self, session: Session, handler: HardenedHandler, *, graceful: bool) -> None:
        member = handler.member
        if not graceful and not self._closing and session.will_flag:
            will = Outgoing(session.will_topic or "", bytes(session.will_message or b""))
            self.router.publish(
                member, will, qos=session.will_qos or 0, retain=bool(session.will_retain), force=True
            )
        session.will_flag = False
        member.connection = None
        session.transitions.disconnect()
        if not member.persistent:
            self._sessions.pop(member.client_id, None)
            self.router.remove(member.client_id)
            # A full clean session may have held publishers.
            self.room_made()
        handler.closing = True
        handler.finished.set()

    @override
    async def _del_all_subscriptions(self, session: Session) -> None:
        # The base class calls this when it expires or cleans a session; our router holds the subscriptions.
        self.router.remove(session.client_id or "")
        self.room_made()


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _configuration(host: str, port: int, limits: BrokerLimits) -> dict[str, Any]:
    address = f"[{host}]" if ":" in host else host
    return {
        "listeners": {
            "default": {"type": "tcp", "bind": f"{address}:{port}", "max_connections": limits.max_connections}
        },
        "session_expiry_interval": limits.session_expiry_seconds,
        # No plugins: identity and rights are not open to be voted on.
        "plugins": {},
    }


def _continued(kept: Session, fresh: Session) -> Session:
    """Return the kept session with what the new CONNECT says about this connection."""
    for name in (*_OF_A_WILL, "keep_alive", "remote_address", "remote_port", "ssl_object"):
        setattr(kept, name, getattr(fresh, name))
    return kept
