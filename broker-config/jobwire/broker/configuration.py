"""The texts that a Mosquitto needs, made from the packaged templates."""

from typing import NamedTuple

from jobwire.broker.files import render_template
from jobwire.broker.home import BrokerFiles
from jobwire.certs.names import parse_server_names
from jobwire.core.bounds import MAX_PORT, check_count
from jobwire.core.errors import InvalidInputError

SERVICE_FILE = "jobwire-broker.service"
_MAX_CONNECTIONS = 2_000
# What systemd.service(5) gives a meaning in a command line or a list of paths.
_UNSAFE = set(" \t\"'%$;\\")


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
