"""amqtt as it comes: what the embedded broker is compared with, so that its tests prove something."""

from pathlib import Path
from typing import Any

from amqtt.broker import Broker
from amqtt.contexts import Action as AmqttAction
from amqtt.session import Session

from jobwire.broker.acl import AccessList, Right
from jobwire.broker.home import BrokerPaths
from jobwire.broker.passwd import PasswordFile

HOST = "127.0.0.1"
_ANONYMOUS_PLUGIN = "amqtt.plugins.authentication.AnonymousAuthPlugin"


class StockBroker:
    """amqtt 0.12.1 as it comes, with two plugins that read our password and access files.

    Without `own_users` its own way of refusing anonymous clients, and no other plugin, decides who comes in.
    """

    def __init__(self, home: Path, port: int, *, own_users: bool = True) -> None:
        self._paths = BrokerPaths(home)
        self._port = port
        self._own_users = own_users
        self._broker: Broker | None = None

    async def start(self) -> None:
        """Start to accept connections."""
        paths = self._paths
        listener = {
            "type": "tcp",
            "bind": f"{HOST}:{self._port}",
            "ssl": True,
            "cafile": str(paths.ca),
            "certfile": str(paths.server_certificate),
            "keyfile": str(paths.server_key),
        }
        plugins = {} if self._own_users else {_ANONYMOUS_PLUGIN: {"allow_anonymous": False}}
        broker = Broker({"listeners": {"default": listener}, "plugins": plugins})
        if self._own_users:
            self._add_plugin(broker)
        await broker.start()
        self._broker = broker

    def _add_plugin(self, broker: Broker) -> None:
        paths = self._paths
        plugin: Any = _FilesPlugin(PasswordFile.load(paths.passwd), AccessList.load(paths.acl))
        broker.plugins_manager._auth_plugins.append(plugin)
        broker.plugins_manager._topic_plugins.append(plugin)
        broker.plugins_manager._is_topic_filtering_enabled = True
        broker.plugins_manager._is_auth_filtering_enabled = True

    async def stop(self) -> None:
        """Stop."""
        if self._broker is not None:
            await self._broker.shutdown()


class _FilesPlugin:
    def __init__(self, users: PasswordFile, acl: AccessList) -> None:
        self._users = users
        self._acl = acl

    async def authenticate(self, *, session: Session) -> bool:
        return self._users.verify(session.username or "", (session.password or "").encode())

    async def topic_filtering(self, *, session: Session, topic: str, action: AmqttAction) -> bool:
        return self._acl.allowed(session.username, session.client_id or "", Right(action.value), topic)
