"""What `jobwire up` runs: each part is a command of its own, in the order of their start."""

import importlib.util
import socket
import sys
from collections.abc import Mapping
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


class Wanted(NamedTuple):
    """What somebody asked `jobwire up` for; None for a port leaves the choice to us."""

    port: int | None = None
    page_port: int | None = None
    mosquitto: bool = False
    broker: bool = True
    page: bool = True
    metrics: bool = False
    #: Where the page listens, and what makes that safe; its port stands above.
    bind: Bind = Bind(LOOPBACK, 0)
    actions: bool = False


def parts_of(home: Path, wanted: Wanted, environ: Mapping[str, str]) -> list[Part]:
    """Return the parts; raises ConfigError for what cannot run on this home or this host."""
    if wanted.metrics:
        require_metrics(environ)
    # Without a role: the accounts are made by the broker's own start.
    settings = load_settings(home=home, role="", command_line={}, record={}, environ={})
    parts = [_broker(home, wanted, settings)] if wanted.broker else []
    parts.append(Part(SERVE, ("serve",)))
    if wanted.page:
        check_bind(wanted.bind)
        port = wanted.page_port or (DEFAULT_PORT if _is_free(DEFAULT_PORT) else free_port())
        parts.append(Part(PAGE, ("dashboard", "--port", str(port), *_page_words(wanted))))
    if wanted.metrics:
        parts.append(Part(METRICS, ("metrics", "run"), _SPARK_SECONDS))
    return parts


def _page_words(wanted: Wanted) -> list[str]:
    bind = wanted.bind
    files = {"--certfile": bind.certfile, "--keyfile": bind.keyfile, "--token-file": bind.token_file}
    words = ["--host", bind.host] if bind.host != LOOPBACK else []
    words += [word for name, file in files.items() if file is not None for word in (name, file)]
    return [*words, "--allow-actions"] if wanted.actions else words


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


def _broker(home: Path, wanted: Wanted, settings: BrokerSettings) -> Part:
    """Return the broker as the home's settings have it; a fresh home gets a port that is free."""
    file = home / SETTINGS_FILE
    fresh = not read_settings(home).tables.get("broker")
    if fresh:
        if wanted.port is not None and not _is_free(wanted.port):
            # Before the home is made: its settings would name this port.
            raise UnreachableError(
                f"port {wanted.port} is already in use", hint="stop who has it, or choose another --port"
            )
        port = wanted.port or (TLS_PORT if _is_free(TLS_PORT) else free_port())
    elif not is_loopback(settings.host):
        raise ConfigError(
            f"{file} leads to the broker {settings.address}, not to one that `jobwire up` starts",
            hint="jobwire up --no-broker runs the rest here",
        )
    elif wanted.port in {None, settings.port}:
        port = settings.port
    else:
        raise ConfigError(
            f"{file} says port = {settings.port}: clients would not find a broker on {wanted.port}",
            hint="leave --port out, or change the file",
        )
    root = DEFAULT_ROOT if fresh else settings.topic_root
    words = ["broker", "up", "--port", str(port), "--topic-root", root]
    # Clients that speak 5 were set up for Mosquitto.
    if wanted.mosquitto or (not fresh and settings.protocol == "5"):
        words.append("--mosquitto")
        if fresh and not _is_free(port + 1):
            words += ["--mtls-port", str(free_port())]
    return Part(BROKER, tuple(words))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0
