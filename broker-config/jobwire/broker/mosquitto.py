"""Mosquitto: its texts made from the packaged templates, and the broker as a child process."""

import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from jobwire.broker.files import render_template, require_writable, write_private
from jobwire.broker.home import BrokerFiles, BrokerPaths
from jobwire.certs.names import parse_server_names
from jobwire.core.bounds import MAX_PORT, check_count
from jobwire.core.errors import ConfigError, InvalidInputError, NotFoundError, UnreachableError
from jobwire.core.override import override
from jobwire.storage.process import ManagedProcess
from jobwire.storage.signals import delivered
from jobwire.storage.user import user_name

SERVICE_FILE = "jobwire-broker.service"
_MAX_CONNECTIONS = 2_000
# What systemd.service(5) gives a meaning in a command line or a list of paths.
_UNSAFE = set(" \t\"'%$;\\")
START_SECONDS = 10.0
STOP_SECONDS = 10.0
_SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin")


class Listening(NamedTuple):
    """Where the broker accepts connections: passwords on `port`, certificates on `mtls_port`."""

    bind: str
    port: int
    mtls_port: int

    def check(self) -> None:
        """Raise InvalidInputError for an address or ports that no listener can have."""
        # A blank would be read as another word of the line, nothing as every address.
        parse_server_names([self.bind])
        for port in (self.port, self.mtls_port):
            check_count("port", port, MAX_PORT)
        if self.port == self.mtls_port:
            raise InvalidInputError(
                "passwords and certificates need different ports", hint="choose another --mtls-port"
            )


def render_configuration(files: BrokerFiles, listening: Listening, *, user: str) -> str:
    """Return the text of mosquitto.conf; raises InvalidInputError or ConfigError for unusable values."""
    listening.check()
    values = {name.upper(): str(path) for name, path in vars(files).items()}
    return render_template(
        "mosquitto.conf",
        values
        | {
            "BIND": listening.bind,
            "PORT": str(listening.port),
            "MTLS_PORT": str(listening.mtls_port),
            "MAX_CONNECTIONS": str(_MAX_CONNECTIONS),
            "USER": _check_user(user),
        },
    )


def render_service(files: BrokerFiles, *, user: str, mosquitto: str) -> str:
    """Return the text of the systemd unit; InvalidInputError for a place that it would read differently."""
    place = str(files.configuration.parent)
    if not place.startswith("/") or not place.isprintable() or _UNSAFE & set(place):
        raise InvalidInputError(
            f"the folder {place!r} cannot be written into a systemd unit",
            hint="name its place on the broker's host by --installed-at, absolute and without blanks",
        )
    return render_template(
        SERVICE_FILE,
        {
            "USER": _check_user(user),
            "MOSQUITTO": mosquitto,
            "CONFIGURATION": str(files.configuration),
            "DATA": str(files.data),
        },
    )


def _check_user(user: str) -> str:
    if not user or not user.isprintable() or any(sign in user for sign in " :/"):
        raise InvalidInputError(
            f"not a user name: {user!r}", hint="one that the broker's host knows (passwd(5))"
        )
    return user


def find_mosquitto() -> str:
    """Return the path of the broker's program; raises NotFoundError with the command that installs it."""
    # Debian puts servers where a user's PATH does not look.
    path = shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", ""), *_SERVER_FOLDERS)))
    if path is None:
        raise NotFoundError("mosquitto is not installed", hint="apt-get install mosquitto")
    return path


def configure(paths: BrokerPaths, listening: Listening) -> Path:
    """Write mosquitto.conf for the files of a home and return its path; raises ConfigError.

    Mosquitto would go on without persistence if its folder were not writable, so that is refused here.
    """
    files = BrokerPaths(paths.home.absolute())
    require_writable(files.data, "persistence folder")
    write_private(files.configuration, render_configuration(files, listening, user=user_name()))
    return files.configuration


class Mosquitto(ManagedProcess):
    """One broker process on a configuration file. Blocking; `end` and `reload` may come from any thread."""

    def __init__(
        self, configuration: Path, *, host: str, ports: tuple[int, ...], log: int | None = None
    ) -> None:
        super().__init__([], log=log, grace_seconds=STOP_SECONDS)
        self._configuration = configuration
        self._host = host
        self._ports = ports
        self._ready = False
        self._reload_wanted = False

    @override
    def start(self) -> Self:
        """Start and return when every port accepts connections, or after `end`.

        Raises ConfigError if it ends instead, UnreachableError if a port is taken or it does not come up.
        """
        for port in self._ports:
            if _accepts(self._host, port):
                raise UnreachableError(
                    f"port {port} is already in use", hint="stop the other broker or choose another --port"
                )
        self.words = [find_mosquitto(), "-c", str(self._configuration)]
        super().start()
        if not self.wait_until(self._accepts_all, START_SECONDS) and not self.ending:
            code = self.wait(0)
            self.stop()
            if code is None:
                raise UnreachableError(f"mosquitto did not accept connections within {START_SECONDS:.0f} s")
            raise ConfigError(
                f"mosquitto ended with code {code}",
                hint=f"its own message stands above; jobwire broker check {self._configuration.parent}",
                code=code,
            )
        self._ready = True
        if self._reload_wanted:
            self.reload()
        return self

    def _accepts_all(self) -> bool:
        return all(_accepts(self._host, port) for port in self._ports)

    def reload(self) -> None:
        """Let it read access list, passwords and certificates again, as soon as it is up."""
        self._reload_wanted = True
        # Before it is ready SIGHUP would end it: its own handler may not be there yet.
        if self._ready:
            self.tell(signal.SIGHUP)


def run_foreground(broker: Mosquitto, *, on_ready: Callable[[], None]) -> int:
    """Run until SIGTERM or SIGINT (0) or until the broker ends by itself; SIGHUP is passed on. Blocks."""
    actions = dict.fromkeys((signal.SIGTERM, signal.SIGINT), broker.end)
    with delivered({**actions, signal.SIGHUP: broker.reload}):
        try:
            broker.start()
            if not broker.ending:
                on_ready()
            code = broker.wait() or 0
            return 0 if broker.ending else code
        finally:
            broker.stop()


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
