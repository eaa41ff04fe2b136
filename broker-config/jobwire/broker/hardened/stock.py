"""amqtt as it comes: what the embedded broker is compared with, so that its tests prove something."""

from pathlib import Path
from typing import Any

from amqtt.broker import Broker
from amqtt.contexts import Action as AmqttAction
from amqtt.session import Session

from jobwire.broker import BrokerPaths
from jobwire.broker.acl import AccessList, Action
from jobwire.broker.passwd import PasswordFile

HOST = "127.0.0.1"


class StockBroker:
    """amqtt 0.12.1 as it comes, with two plugins that read our password and access files."""

    def __init__(self, home: Path, port: int) -> None:
        self._paths = BrokerPaths(home)
        self._port = port
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
        broker = Broker({"listeners": {"default": listener}, "plugins": {}})
        plugin: Any = _FilesPlugin(PasswordFile.load(paths.passwd), AccessList.load(paths.acl))
        broker.plugins_manager._auth_plugins.append(plugin)
        broker.plugins_manager._topic_plugins.append(plugin)
        broker.plugins_manager._is_topic_filtering_enabled = True
        broker.plugins_manager._is_auth_filtering_enabled = True
        await broker.start()
        self._broker = broker

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
        return self._acl.allowed(session.username, session.client_id or "", Action(action.value), topic)
