"""The embedded broker as a process of its own, as `jobwire broker up` starts it."""

import sys

from jobwire.broker.home import prepare_home
from jobwire.core.override import override
from jobwire.testing.process import BrokerProcess

# The machine-made passwords of tests have 256 bits: stretching them protects nothing and costs start-up.
_ITERATIONS = 101


class EmbeddedServer(BrokerProcess):
    """`jobwire broker up` on a free loopback port: MQTT 3.1.1 over TLS 1.3."""

    program = "jobwire broker up"

    @override
    def prepare(self) -> None:
        """Create certificates, accounts, access list and settings."""
        prepare_home(self.home, port=self.port, topic_root=self.topic_root, iterations=_ITERATIONS)

    @override
    def command(self) -> list[str]:
        """Return the command line."""
        up = ["broker", "up", "--json", "--port", str(self.port), "--topic-root", self.topic_root]
        return [sys.executable, "-m", "jobwire.cli.main", "--home", str(self.home), *up]
