"""The two long-lived processes of the storm: Mosquitto as the product configures it, and the registry's."""

import json
import sys
from pathlib import Path
from typing import Any

from jobwire.broker.home import BrokerPaths
from jobwire.broker.mosquitto import Listening, configure
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.override import override
from jobwire.testing import MosquittoServer, wait_for
from tests.faults.storm.fleet import Child, Fleet, Kind
from tests.faults.storm.hosts import REGISTRY_ADDRESS, Hosts

_NAMES = ("localhost", "127.0.0.1", "::1")
_START_SECONDS = 30.0
_HEALTH = "serve.json"
_JOBWIRE = str(Path(sys.executable).with_name("jobwire"))


class Broker(MosquittoServer):
    """Mosquitto; with two hosts it listens on both ends of the registry's host, of that namespace only."""

    def __init__(self, home: Path, hosts: Hosts | None) -> None:
        super().__init__(home)
        self._two_hosts = hosts is not None

    @property
    def data(self) -> Path:
        """Return where it keeps sessions, queued and retained messages."""
        return BrokerPaths(self.home).data

    @override
    def prepare(self) -> None:
        """See `MosquittoServer.prepare`."""
        if self._two_hosts:
            CertificateAuthority(self.home / "certs").init((*_NAMES, REGISTRY_ADDRESS))
        super().prepare()
        if self._two_hosts:
            # In a namespace of our own, whose only cable leads to the workers.
            listening = Listening("0.0.0.0", self.port, self.mtls_port)  # noqa: S104 - see above
            self.configuration = configure(BrokerPaths(self.home), listening)


class Registry:
    """`jobwire serve`, started again after each kill as systemd would."""

    def __init__(self, home: Path, fleet: Fleet) -> None:
        self._home = home
        self._fleet = fleet
        self._child: Child | None = None
        self.exits: list[str] = []

    def start(self) -> None:
        """Start it; returns at once."""
        command = [_JOBWIRE, "--home", str(self._home), "registry", "serve", "--json"]
        self._child = self._fleet.start(Kind.REGISTRY, command)

    def kill(self) -> None:
        """Kill it with SIGKILL; an end of its own before that is noted as a failure."""
        child = self._running()
        child.process.kill()
        child.process.wait()
        if not child.killed:
            self.exits.append(f"ended by itself with {child.process.returncode}: {child.error_text()}")

    def stop(self) -> None:
        """End it with SIGTERM; anything but exit code 0 is noted as a failure."""
        child = self._running()
        code = self._fleet.stop(child)
        if code:
            self.exits.append(f"ended with {code} after SIGTERM: {child.error_text()}")

    def wait_ready(self) -> None:
        """Wait until it records."""
        wait_for(self._records, deadline_seconds=_START_SECONDS, what="jobwire serve")

    def facts(self) -> dict[str, Any]:
        """Return what its health file says; empty while there is none of this process."""
        try:
            facts: dict[str, Any] = json.loads((self._home / _HEALTH).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return facts if facts["pid"] == self._running().process.pid else {}

    @property
    def log(self) -> Path:
        """Return the file with its stderr."""
        return self._running().errors

    def _records(self) -> bool:
        child = self._running()
        if child.process.poll() is not None:
            raise RuntimeError(f"the registry process ended: {child.error_text()}")
        return self.facts().get("connected") is True

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("the registry process was not started")
        return self._child
