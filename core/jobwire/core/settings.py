"""Broker settings and their hierarchy, as pure functions over mappings.

Highest first: command line, the job record's `broker`, the environment, `.hermes/jobwire.toml`,
defaults. Reading files and the environment is the transport's business.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobwire.core.errors import ConfigError
from jobwire.core.override import override
from jobwire.core.topics import DEFAULT_ROOT

PLAIN_PORT = 1883
TLS_PORT = 8883
PROTOCOLS = ("auto", "5", "3.1.1")
_LOOPBACK = {"localhost", "::1"}
# Digits to the end: 127.example.org is a name that anybody may own.
_LOOPBACK_ADDRESS = re.compile(r"127(\.[0-9]{1,3}){3}")
_ON = {"on", "true", "1", "yes"}
_OFF = {"off", "false", "0", "no"}
MAX_PORT = 65535

# Environment variable -> setting. The same names without MQTT_ are the keys of `[broker]` in
# jobwire.toml and of a record's `broker` overrides.
ENVIRONMENT = {
    "MQTT_BROKER": "broker",
    "MQTT_PORT": "port",
    "MQTT_TLS": "tls",
    "MQTT_CA_CERTS": "ca_certs",
    "MQTT_CERTFILE": "certfile",
    "MQTT_KEYFILE": "keyfile",
    "MQTT_USERNAME": "username",
    "MQTT_PASSWORD": "password",
    "MQTT_PASSWORD_FILE": "password_file",
    "MQTT_TOPIC_ROOT": "topic_root",
    "MQTT_PROTOCOL": "protocol",
}
KEYS = frozenset(ENVIRONMENT.values())


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

    `tls` is False only on loopback or where plaintext was asked for explicitly (`explicit_plaintext`).
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
    explicit_plaintext: bool = False

    @property
    def address(self) -> str:
        """Return host:port for messages to people."""
        return f"{self.host}:{self.port}"


def from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the settings layer that the environment holds; empty values count as unset."""
    return {key: environ[name] for name, key in ENVIRONMENT.items() if environ.get(name)}


def is_loopback(host: str) -> bool:
    """Tell whether traffic to `host` never leaves this machine."""
    return host in _LOOPBACK or _LOOPBACK_ADDRESS.fullmatch(host) is not None


def resolve_broker(layers: Iterable[tuple[str, Mapping[str, object]]]) -> BrokerSettings:
    """Merge (name, layer) pairs, highest first, into settings.

    Raises ConfigError naming the layer and key of an unknown or unusable value, and where
    plaintext would leave the host without having been asked for.
    """
    merged: dict[str, tuple[str, object]] = {}
    for name, layer in layers:
        for key, value in layer.items():
            if key not in KEYS:
                raise ConfigError(
                    f"unknown broker setting {key!r} in {name}", hint=f"known: {', '.join(sorted(KEYS))}"
                )
            if value is not None:
                merged.setdefault(key, (name, value))
    return _build(merged)


def _build(merged: Mapping[str, tuple[str, object]]) -> BrokerSettings:
    def text(key: str) -> str | None:
        if key not in merged:
            return None
        where, value = merged[key]
        if not isinstance(value, str) or "\0" in value:
            raise ConfigError(f"broker setting {key!r} in {where} is not a text")
        return value

    tls, out_loud = _tls(merged.get("tls"))
    host = text("broker") or "localhost"
    if not tls and not out_loud and not is_loopback(host):
        raise ConfigError(
            f"plaintext MQTT to {host} was not asked for", hint="set MQTT_TLS=off to send in the clear"
        )
    password = text("password")
    protocol = text("protocol") or "auto"
    if protocol not in PROTOCOLS:
        raise ConfigError(f"unknown MQTT protocol {protocol!r}", hint=f"one of {', '.join(PROTOCOLS)}")
    certfile, keyfile = text("certfile"), text("keyfile")
    if (certfile is None) != (keyfile is None):
        raise ConfigError("a client certificate needs both certfile and keyfile")
    return BrokerSettings(
        host=host,
        port=_port(merged.get("port"), tls=tls),
        tls=tls,
        ca_certs=text("ca_certs"),
        certfile=certfile,
        keyfile=keyfile,
        username=text("username"),
        password=Secret(password) if password is not None else None,
        password_file=text("password_file"),
        topic_root=text("topic_root") or DEFAULT_ROOT,
        protocol=protocol,
        explicit_plaintext=out_loud and not tls,
    )


def _tls(entry: tuple[str, object] | None) -> tuple[bool, bool]:
    """Return (use TLS, was plaintext asked for explicitly)."""
    if entry is None:
        return True, False
    where, value = entry
    word = str(value).lower()
    if word in _ON:
        return True, False
    if word in _OFF:
        return False, True
    raise ConfigError(f"broker setting 'tls' in {where} is {value!r}", hint="use on or off")


def _port(entry: tuple[str, object] | None, *, tls: bool) -> int:
    if entry is None:
        return TLS_PORT if tls else PLAIN_PORT
    where, value = entry
    try:
        port = int(str(value))
    except ValueError:
        port = 0
    if not 0 < port <= MAX_PORT:
        raise ConfigError(
            f"broker setting 'port' in {where} is {value!r}", hint="use a number from 1 to 65535"
        )
    return port
