"""amqtt's broker under Mosquitto's password and access files."""

import asyncio
import ssl
from typing import Any

from amqtt.broker import Broker
from amqtt.contexts import Action as AmqttAction
from amqtt.contexts import ListenerConfig
from amqtt.session import Session

from jobwire.broker.acl import AccessList, Action
from jobwire.broker.passwd import PasswordFile

_ACTIONS = {
    AmqttAction.PUBLISH: Action.PUBLISH,
    AmqttAction.SUBSCRIBE: Action.SUBSCRIBE,
    AmqttAction.RECEIVE: Action.RECEIVE,
}


class HardenedBroker(Broker):
    """amqtt with TLS 1.3, password file and access list."""

    def __init__(self, config: dict[str, Any], users: PasswordFile, acl: AccessList) -> None:
        super().__init__(config)
        self._users = users
        self._acl = acl

    @property
    def bound_port(self) -> int:
        """Return the port of the listener, once started."""
        instance = self._servers["default"].instance
        assert isinstance(instance, asyncio.Server)  # noqa: S101 - for mypy: the listener type is tcp
        port: int = instance.sockets[0].getsockname()[1]
        return port

    @staticmethod
    def _create_ssl_context(listener: ListenerConfig) -> ssl.SSLContext:
        context = Broker._create_ssl_context(listener)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    async def _authenticate(self, session: Session, _: ListenerConfig) -> bool:
        if not session.username or not session.password:
            return False
        return await asyncio.to_thread(self._users.verify, session.username, session.password.encode())

    async def _topic_filtering(self, session: Session, topic: str, action: AmqttAction) -> bool:
        return self._acl.allowed(session.username, session.client_id or "", _ACTIONS[action], topic)
