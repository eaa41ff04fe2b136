"""Broker settings and their hierarchy, as pure functions over mappings.

Highest first: command line, the job record's `broker`, the environment, `.hermes/jobwire.toml`,
defaults. Reading files and the environment is the transport's business.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobwire.core.errors import ConfigError
from jobwire.core.override import override
from jobwire.core.setting_tables import BROKER, ON, check_value, nearest
from jobwire.core.topics import DEFAULT_ROOT

PLAIN_PORT = 1883
TLS_PORT = 8883
_LOOPBACK = {"localhost", "::1"}
# Digits to the end: 127.example.org is a name that anybody may own.
_LOOPBACK_ADDRESS = re.compile(r"127(\.[0-9]{1,3}){3}")


class Secret:
    """A string that does not print itself: not in repr, str, logs or tracebacks."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret; the one place to look for uses."""
        return self._value

    @override
    def __repr__(self) -> str:
        return "Secret('***')"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    @override
    def __hash__(self) -> int:
        return hash(self._value)


class BrokerSettings(NamedTuple):
    """Where the broker is and who we are there.

    `tls` is False only where plaintext was asked for explicitly.
    `protocol` is one of PROTOCOLS; "auto" means 5 (the embedded broker's settings file says 3.1.1).
    """

    host: str = "localhost"
    port: int = TLS_PORT
    tls: bool = True
    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    username: str | None = None
    password: Secret | None = None
    password_file: str | None = None
    topic_root: str = DEFAULT_ROOT
    protocol: str = "auto"

    @property
    def address(self) -> str:
        """Return host:port for messages to people."""
        return f"{self.host}:{self.port}"


def from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the settings layer that the environment holds; empty values count as unset."""
    return {key: environ[one.variable] for key, one in BROKER.items() if environ.get(one.variable)}


def is_loopback(host: str) -> bool:
    """Tell whether traffic to `host` never leaves this machine."""
    return host in _LOOPBACK or _LOOPBACK_ADDRESS.fullmatch(host) is not None


def resolve_broker(layers: Iterable[tuple[str, Mapping[str, object]]]) -> BrokerSettings:
    """Merge (name, layer) pairs, highest first, into settings.

    Raises ConfigError naming the layer and key of an unknown or unusable value.
    """
    merged: dict[str, object] = {}
    for name, layer in layers:
        for key, value in layer.items():
            if key not in BROKER:
                raise ConfigError(f"unknown broker setting {key!r} in {name}", hint=nearest(key, BROKER))
            if value is not None and key not in merged:
                check_value(BROKER[key], value, name)
                merged[key] = value
    return _build(merged)


def _build(merged: Mapping[str, object]) -> BrokerSettings:
    def text(key: str) -> str | None:
        return str(merged[key]) if key in merged else None

    out_loud = "tls" in merged and str(merged["tls"]).lower() not in ON
    host = text("broker") or "localhost"
    password = text("password")
    certfile, keyfile = text("certfile"), text("keyfile")
    if (certfile is None) != (keyfile is None):
        raise ConfigError("a client certificate needs both certfile and keyfile")
    return BrokerSettings(
        host=host,
        port=int(text("port") or (PLAIN_PORT if out_loud else TLS_PORT)),
        tls=not out_loud,
        ca_certs=text("ca_certs"),
        certfile=certfile,
        keyfile=keyfile,
        username=text("username"),
        password=Secret(password) if password is not None else None,
        password_file=text("password_file"),
        topic_root=text("topic_root") or DEFAULT_ROOT,
        protocol=text("protocol") or "auto",
    )
