"""Two hosts on one machine: two network namespaces with one cable between them, which can be cut.

Everything runs inside them, the storm included; nothing of it can be reached from the machine's own
network, and nothing there is changed. ip-netns(8), veth(4). Needs root.
"""

import os
import subprocess
from typing import NamedTuple

from jobwire.testing import find_program

# Any address does: these namespaces see nothing but each other.
REGISTRY_ADDRESS = "10.201.77.1"
WORKER_ADDRESS = "10.201.77.2"
_PREFIX = 30
_CABLE = "storm0"


class Hosts(NamedTuple):
    """The names of the namespaces of the registry's host and of the workers' host."""

    registry: str
    workers: str

    def on_workers(self, command: list[str]) -> list[str]:
        """Return `command` as it is run on the workers' host; the process keeps the id of its starter."""
        return ["ip", "netns", "exec", self.workers, *command]

    def cut(self) -> None:
        """Take the cable down at the registry's end: packets of the workers vanish, as in a real cut."""
        _ip("-n", self.registry, "link", "set", _CABLE, "down")

    def heal(self) -> None:
        """Put the cable up again."""
        _ip("-n", self.registry, "link", "set", _CABLE, "up")


def available() -> str:
    """Return why there cannot be two hosts here, or nothing."""
    if os.geteuid() != 0:
        return "not root: no network namespaces, so workers share the registry's host and nothing is cut"
    if find_program("ip") is None:
        return "no `ip` command (apt-get install iproute2): no second host, and nothing is cut"
    return ""


def create() -> Hosts:
    """Make the two hosts; call `remove` in the end. Raises CalledProcessError."""
    hosts = Hosts(f"jobwire-{os.getpid()}-registry", f"jobwire-{os.getpid()}-workers")
    try:
        for name in hosts:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        peer = ["peer", "name", _CABLE, "netns", hosts.workers]
        _ip("-n", hosts.registry, "link", "add", _CABLE, "type", "veth", *peer)
        for name, address in zip(hosts, (REGISTRY_ADDRESS, WORKER_ADDRESS), strict=True):
            _ip("-n", name, "address", "add", f"{address}/{_PREFIX}", "dev", _CABLE)
            _ip("-n", name, "link", "set", _CABLE, "up")
    except BaseException:
        remove(hosts)
        raise
    return hosts


def remove(hosts: Hosts) -> None:
    """Remove the hosts with their cable; missing ones are fine."""
    for name in hosts:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
