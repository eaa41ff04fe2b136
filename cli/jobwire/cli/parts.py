"""What `jobwire up` runs: each part is a command of its own, in the order of their start."""

import argparse
import importlib.util
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.address import free_port
from jobwire.core.errors import ConfigError, UnreachableError
from jobwire.core.settings import TLS_PORT, BrokerSettings, is_loopback
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.dashboard.auth import Bind, check_bind
from jobwire.dashboard.cli import DEFAULT_PORT
from jobwire.storage.settings_file import SETTINGS_FILE, read_settings
from jobwire.transport import load_settings

BROKER, SERVE, PAGE, METRICS = "broker", "serve", "page", "metrics"
LOOPBACK = "127.0.0.1"
# With a cold disk and one busy core.
_START_SECONDS = 60.0
_SPARK_SECONDS = 180.0
# Longer than each allows itself: the registry process drains, a query finishes its batch.
_GRACE_SECONDS = {BROKER: 15.0, SERVE: 40.0, PAGE: 10.0, METRICS: 100.0}


class Part(NamedTuple):
    """One process: its name and the words after `jobwire`, with how long its start and end may take."""

    name: str
    words: tuple[str, ...]
    start_seconds: float = _START_SECONDS

    @property
    def grace_seconds(self) -> float:
        """Return how long it may take to end."""
        return _GRACE_SECONDS[self.name]

    def command(self, home: Path) -> list[str]:
        """Return its command line, which names the home as everybody finds it."""
        place = str(home.resolve())
        return [sys.executable, "-m", "jobwire.cli.main", "--home", place, *self.words, "--json"]


def parts_of(home: Path, args: argparse.Namespace, environ: Mapping[str, str], *, page: bool) -> list[Part]:
    """Return what `jobwire up` is to run; raises ConfigError for what cannot run on this home or host."""
    if args.with_metrics:
        require_metrics(environ)
    # Without a role: the accounts are made by the broker's own start.
    settings = load_settings(home=home, role="", command_line={}, record={}, environ={})
    parts = [] if args.no_broker else [_broker(home, args, settings)]
    parts.append(Part(SERVE, ("serve",)))
    if page:
        check_bind(Bind(args.host or LOOPBACK, 0, args.certfile, args.keyfile, args.token_file))
        port = args.page_port or (DEFAULT_PORT if _is_free(DEFAULT_PORT) else free_port())
        words = passed_on(args, ("allow-actions",), ("host", "certfile", "keyfile", "token-file"))
        parts.append(Part(PAGE, ("dashboard", "--port", str(port), *words)))
    if args.with_metrics:
        parts.append(Part(METRICS, ("metrics", "run"), _SPARK_SECONDS))
    return parts


def passed_on(args: argparse.Namespace, switches: Iterable[str], values: Iterable[str]) -> list[str]:
    """Return those of our options that were given, as the words of another command that has them too."""
    given = vars(args)
    words = [f"--{name}" for name in switches if given[name.replace("-", "_")]]
    for name in values:
        value = given[name.replace("-", "_")]
        words += [f"--{name}", str(value)] if value else []
    return words


def has_page() -> bool:
    """Tell whether the page's libraries are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("starlette", "uvicorn"))


def require_metrics(environ: Mapping[str, str]) -> None:
    """Raise ConfigError, with the remedy, where Spark or its Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError(
            "metrics need pyspark, which is not installed", hint="pip install 'jobwire[metrics]'"
        )
    from jobwire.metrics.java import find_java  # noqa: PLC0415 - optional, like Spark

    find_java(environ)


def _broker(home: Path, args: argparse.Namespace, settings: BrokerSettings) -> Part:
    """Return the broker as the home's settings have it; a fresh home gets a port that is free."""
    file = home / SETTINGS_FILE
    fresh = not read_settings(home).tables.get("broker")
    if fresh:
        if args.port is not None and not _is_free(args.port):
            # Before the home is made: its settings would name this port.
            raise UnreachableError(
                f"port {args.port} is already in use", hint="stop who has it, or choose another --port"
            )
        port = args.port or (TLS_PORT if _is_free(TLS_PORT) else free_port())
    elif not is_loopback(settings.host):
        raise ConfigError(
            f"{file} leads to the broker {settings.address}, not to one that `jobwire up` starts",
            hint="jobwire up --no-broker runs the rest here",
        )
    elif args.port in {None, settings.port}:
        port = settings.port
    else:
        raise ConfigError(
            f"{file} says port = {settings.port}: clients would not find a broker on {args.port}",
            hint="leave --port out, or change the file",
        )
    root = DEFAULT_ROOT if fresh else settings.topic_root
    words = ["broker", "up", "--port", str(port), "--topic-root", root]
    # Clients that speak 5 were set up for Mosquitto.
    if args.mosquitto or (not fresh and settings.protocol == "5"):
        words.append("--mosquitto")
        if fresh and not _is_free(port + 1):
            words += ["--mtls-port", str(free_port())]
    return Part(BROKER, tuple(words))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0
