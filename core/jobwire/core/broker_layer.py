"""The broker settings that a command line names, as the highest layer of their hierarchy."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

SETTINGS = (
    "broker",
    "port",
    "ca_certs",
    "certfile",
    "keyfile",
    "username",
    "password_file",
    "topic_root",
    "protocol",
)


def command_line_layer(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings layer of the command line, for `resolve_broker`."""
    layer: dict[str, object] = {key: getattr(args, key) for key in SETTINGS}
    if args.tls is not None:
        layer["tls"] = "on" if args.tls else "off"
    return layer
