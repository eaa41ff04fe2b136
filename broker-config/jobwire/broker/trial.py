"""A rendered configuration, changed just enough to be tried on this host without touching anything."""

import socket
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.configuration import Files
from jobwire.broker.files import read_text
from jobwire.broker.settings_check import LISTENERS, read_configuration

_HOST = "127.0.0.1"


class Trial(NamedTuple):
    """A configuration on free loopback ports."""

    path: Path
    port: int
    mtls_port: int


def trial_configuration(files: Files, folder: Path, *, user: str) -> Trial:
    """Write a copy of the configuration to `folder` with free ports, own data and the deployed files.

    The files may be meant for another place on another host: they are taken from the folder that is checked.
    The configuration has been examined: it has its two listeners.
    """
    ports = [_free_port() for _ in range(LISTENERS)]
    replaced = {
        "password_file": files.passwd,
        "acl_file": files.acl,
        "cafile": files.ca,
        "certfile": files.server_certificate,
        "keyfile": files.server_key,
        "crlfile": files.crl,
        "persistence_location": f"{folder}/",
        "pid_file": folder / "broker.pid",
        "user": user,
    }
    text = read_text(files.configuration, "configuration")
    certificates = read_configuration(text).for_certificates()
    lines, listeners = [], iter(ports)
    for line in text.splitlines():
        name = line.strip().partition(" ")[0]
        if name == "listener":
            lines.append(f"listener {next(listeners)} {_HOST}")
        else:
            lines.append(f"{name} {_absolute(replaced[name])}" if name in replaced else line)
    path = folder / "mosquitto.conf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Either may come first.
    return Trial(path, *(reversed(ports) if certificates == [0] else ports))


def _absolute(value: object) -> str:
    return str(value.absolute()) if isinstance(value, Path) else str(value)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
