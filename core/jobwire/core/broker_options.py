"""The broker settings as command line options, the same for every command that connects."""

import argparse

from jobwire.core.argument_types import whole
from jobwire.core.bounds import MAX_PORT, PROTOCOLS


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """Add one option for each setting but the password: argv is readable by everybody on the host."""
    group = parser.add_argument_group("broker", "each outranks its MQTT_* variable and jobwire.toml")
    add = group.add_argument
    add("--broker", metavar="HOST", help="host name or address")
    add("--port", metavar="N", type=whole(1, MAX_PORT))
    add("--tls", action=argparse.BooleanOptionalAction, default=None, help="--no-tls sends in the clear")
    add("--ca-certs", metavar="FILE", help="the CA that the broker's certificate comes from")
    add("--certfile", metavar="FILE", help="client certificate")
    add("--keyfile", metavar="FILE", help="its key")
    add("--username", metavar="NAME")
    add("--password-file", metavar="FILE", help="file with the password, which argv would show to everybody")
    add("--topic-root", metavar="TOPIC")
    add("--protocol", choices=PROTOCOLS)
