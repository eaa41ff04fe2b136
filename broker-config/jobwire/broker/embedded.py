"""The embedded broker: amqtt on this host, under Mosquitto's own password and access files."""

from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.broker.acl import AccessList
from jobwire.broker.home import BrokerPaths
from jobwire.broker.passwd import PasswordFile
from jobwire.core.errors import ConfigError, UnreachableError
from jobwire.core.settings import is_loopback

if TYPE_CHECKING:
    from jobwire.broker.hardened.broker import HardenedBroker


class EmbeddedBroker:
    """One broker on this host, TLS 1.3 with password and access files, for one event loop."""

    def __init__(
        self, *, home: Path, host: str = "127.0.0.1", port: int = 0, beyond_loopback: bool = False
    ) -> None:
        """Prepare a broker on the files of `home`; `port` 0 takes a free one.

        Raises ConfigError for unusable files, and for a `host` beyond loopback that was not asked for.
        """
        if not beyond_loopback and not is_loopback(host):
            raise ConfigError(
                f"the embedded broker is for this host, not for {host}",
                hint="use Mosquitto (jobwire broker render), or --beyond-loopback if you must",
                host=host,
            )
        self._paths = BrokerPaths(home)
        self._host = host
        self._port = port
        self._users = PasswordFile.load(self._paths.passwd)
        self._acl = AccessList.load(self._paths.acl)
        self._broker: HardenedBroker | None = None

    @property
    def port(self) -> int:
        """Return the port that accepts connections (the real one once started)."""
        return self._port

    @property
    def host(self) -> str:
        """Return the address that accepts connections."""
        return self._host

    async def start(self) -> None:
        """Start to accept connections; raises UnreachableError if the address cannot be bound."""
        listener = {
            "type": "tcp",
            "bind": f"{self._host}:{self._port}",
            "ssl": True,
            "cafile": str(self._paths.ca),
            "certfile": str(self._paths.server_certificate),
            "keyfile": str(self._paths.server_key),
        }
        # amqtt takes a quarter of a second to import: only those who start a broker pay for it.
        from jobwire.broker.hardened.broker import HardenedBroker  # noqa: PLC0415

        broker = HardenedBroker({"listeners": {"default": listener}, "plugins": {}}, self._users, self._acl)
        try:
            await broker.start()
        except Exception as error:
            raise UnreachableError(
                f"the broker cannot start on {self._host}:{self._port}: {error}"
            ) from error
        self._port = broker.bound_port
        self._broker = broker

    async def stop(self) -> None:
        """Close every connection and stop; idempotent."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.shutdown()
