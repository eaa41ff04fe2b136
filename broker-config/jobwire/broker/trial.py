"""A rendered configuration, changed just enough to be tried on this host without touching anything."""

import socket
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.configuration import Files
from jobwire.broker.files import read_text
from jobwire.core.errors import ConfigError

_HOST = "127.0.0.1"
_LISTENERS = 2


class Trial(NamedTuple):
    """A configuration on free loopback ports."""

    path: Path
    port: int
    mtls_port: int


def trial_configuration(files: Files, folder: Path, *, user: str) -> Trial:
    """Write a copy of the configuration to `folder` with free ports, own data and the deployed files.

    The files may be meant for another place on another host: they are taken from the folder that is checked.
    """
    ports = [_free_port() for _ in range(_LISTENERS)]
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
    lines, listeners = [], 0
    for line in read_text(files.configuration, "configuration").splitlines():
        name = line.strip().partition(" ")[0]
        if name == "listener":
            if listeners == len(ports):
                raise ConfigError(
                    f"{files.configuration} has more than {_LISTENERS} listeners",
                    hint="one for passwords, one for certificates",
                    path=str(files.configuration),
                )
            lines.append(f"listener {ports[listeners]} {_HOST}")
            listeners += 1
        else:
            lines.append(f"{name} {_absolute(replaced[name])}" if name in replaced else line)
    if listeners != _LISTENERS:
        raise ConfigError(
            f"{files.configuration} has {listeners} listeners, not {_LISTENERS}",
            hint="jobwire broker render --force",
            path=str(files.configuration),
        )
    path = folder / "mosquitto.conf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Trial(path, *ports)


def _absolute(value: object) -> str:
    return str(value.absolute()) if isinstance(value, Path) else str(value)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
