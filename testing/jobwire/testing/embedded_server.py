"""The embedded broker as a process of its own, as `jobwire broker up` starts it."""

import importlib.util
import sys
from pathlib import Path

from jobwire.broker import prepare_home
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.testing.process import BrokerProcess

# The machine-made passwords of tests have 256 bits: stretching them protects nothing and costs start-up.
_ITERATIONS = 101
_RUNNER = """
import argparse, sys
from jobwire.broker.cli import add_commands
parser = argparse.ArgumentParser()
parser.add_argument("--home")
add_commands(parser.add_subparsers())
args = parser.parse_args()
sys.exit(args.run(args))
"""


class EmbeddedServer(BrokerProcess):
    """`jobwire broker up` on a free loopback port: MQTT 3.1.1 over TLS 1.3."""

    program = "jobwire broker up"

    def __init__(
        self, home: Path | None = None, *, topic_root: str = DEFAULT_ROOT, port: int | None = None
    ) -> None:
        super().__init__(home, topic_root=topic_root, port=port)

    def prepare(self) -> None:
        """Create certificates, accounts, access list and settings."""
        prepare_home(self.home, port=self.port, topic_root=self.topic_root, iterations=_ITERATIONS)

    def command(self) -> list[str]:
        """Return the command line."""
        up = ["broker", "up", "--json", "--port", str(self.port), "--topic-root", self.topic_root]
        if importlib.util.find_spec("jobwire.cli.main") is None:
            return [sys.executable, "-c", _RUNNER, "--home", str(self.home), *up]
        return [sys.executable, "-m", "jobwire.cli.main", "--home", str(self.home), *up]
