"""Mosquitto as a process of its own, under the configuration the product renders."""

from pathlib import Path

from jobwire.broker import prepare_home
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing.process import BrokerProcess
from jobwire.testing.requirements import find_program

_ITERATIONS = 101


class MosquittoServer(BrokerProcess):
    """`mosquitto` on a free loopback port: MQTT 5 and 3.1.1 over TLS 1.3, with passwd and acl.

    `protocol` goes into the settings file, so it is what clients speak. `extra_lines` are appended to
    the configuration.
    """

    program = "mosquitto"

    def __init__(
        self,
        home: Path | None = None,
        *,
        topic_root: str = DEFAULT_ROOT,
        port: int | None = None,
        protocol: str = "5",
        extra_lines: tuple[str, ...] = (),
    ) -> None:
        super().__init__(home, topic_root=topic_root, port=port)
        self._protocol = protocol
        self._extra_lines = extra_lines

    @property
    def configuration(self) -> Path:
        """Return the configuration file in use."""
        return self.home / "broker" / "mosquitto.conf"

    def settings(self, role: str, *, protocol: str | None = None) -> BrokerSettings:
        """Return the settings of `role`, for another MQTT version if `protocol` says so."""
        settings = super().settings(role)
        return settings if protocol is None else settings._replace(protocol=protocol)

    def prepare(self) -> None:
        """Create certificates, accounts, access list, settings and configuration."""
        prepare_home(
            self.home,
            port=self.port,
            topic_root=self.topic_root,
            protocol=self._protocol,
            iterations=_ITERATIONS,
        )
        home = self.home
        lines = (
            f"listener {self.port} {self.host}",
            f"cafile {home}/certs/ca.pem",
            f"certfile {home}/certs/server.pem",
            f"keyfile {home}/certs/server.key",
            "tls_version tlsv1.3",
            "allow_anonymous false",
            f"password_file {home}/broker/passwd",
            f"acl_file {home}/broker/acl",
            "set_tcp_nodelay true",
            "persistence true",
            f"persistence_location {home}/broker/data/",
            "user root",
            *self._extra_lines,
        )
        self.configuration.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        """Return the command line."""
        return [find_program("mosquitto") or "mosquitto", "-c", str(self.configuration)]
