"""Mosquitto as a process of its own, under the configuration the product renders."""

import signal
from pathlib import Path

from jobwire.broker.home import BrokerPaths, prepare_home
from jobwire.broker.mosquitto import Listening, configure
from jobwire.core.override import override
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing.ports import free_port
from jobwire.testing.process import BrokerProcess
from jobwire.testing.requirements import find_program
from jobwire.testing.waiting import wait_for

_ITERATIONS = 101


class MosquittoServer(BrokerProcess):
    """`mosquitto` on free loopback ports: MQTT 5 and 3.1.1 over TLS 1.3, with passwd and acl.

    Passwords are for `port`, client certificates for `mtls_port`. `protocol` goes into the settings
    file, so it is what clients speak. `extra_lines` are appended to the configuration.
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
        self.mtls_port = free_port()
        self.configuration = BrokerPaths(self.home).configuration
        self._protocol = protocol
        self._extra_lines = extra_lines

    @override
    def settings(self, role: str, *, protocol: str | None = None) -> BrokerSettings:
        """Return the settings of `role`, for another MQTT version if `protocol` says so."""
        settings = super().settings(role)
        return settings if protocol is None else settings._replace(protocol=protocol)

    @override
    def prepare(self) -> None:
        """Create certificates, accounts, access list, settings and configuration."""
        prepare_home(
            self.home,
            port=self.port,
            topic_root=self.topic_root,
            protocol=self._protocol,
            iterations=_ITERATIONS,
            mtls_port=self.mtls_port,
        )
        self.configuration = configure(
            BrokerPaths(self.home), Listening(self.host, self.port, self.mtls_port)
        )
        if self._extra_lines:
            text = self.configuration.read_text()
            self.configuration.write_text("\n".join((text, *self._extra_lines, "")))

    @override
    def command(self) -> list[str]:
        """Return the command line."""
        return [find_program("mosquitto") or "mosquitto", "-c", str(self.configuration)]

    def save(self) -> None:
        """Have the broker write its database now (SIGUSR1, mosquitto(8)); return when it did."""
        database = BrokerPaths(self.home).data / "mosquitto.db"
        before = _written_at(database)
        self._signal(signal.SIGUSR1)
        wait_for(lambda: _written_at(database) != before, what="the broker's database")


def _written_at(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
