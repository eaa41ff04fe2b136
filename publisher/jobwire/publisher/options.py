"""The options of `publish_event`."""

import argparse
from collections.abc import Mapping

from jobwire.core.errors import InvalidInputError
from jobwire.core.event import EventType
from jobwire.core.settings import PROTOCOLS
from jobwire.publisher.build import ENV_ATTEMPT, ENV_JOB, ENV_TICKET
from jobwire.publisher.courier import EXPIRY_SECONDS
from jobwire.publisher.publishing import DEFAULT_ATTEMPTS

DESCRIPTION = """\
Say what happens to a job: sign one event, keep it in the job's outbox, publish it with QoS 1.

Prints one JSON line: job_id, seq, event, delivered (the broker acknowledged it) and, where it was
waited for, confirmed (the registry process has it on its disk)."""

EXAMPLES = """\
examples:
  publish_event --job 0a1b2c3d --event started
  publish_event --job 0a1b2c3d --event progress --detail "12 of 30 files" --data percent=40
  publish_event --ticket job.ticket --event completed --data-json result.json
  publish_event --job 0a1b2c3d --flush"""

_MAX_ATTEMPTS = 100
_SETTING_OPTIONS = (
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add every option but --home."""
    _add_saying(parser)
    _add_delivery(parser)
    _add_broker(parser)


def _add_saying(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is said, about which job").add_argument
    add("--job", metavar="ID", help=f"the job's id (default: ${ENV_JOB})")
    add("--ticket", metavar="FILE", help=f"ticket of a worker on another host (default: ${ENV_TICKET})")
    add(
        "--for-attempt",
        metavar="N",
        type=_whole(1, 2**53 - 1),
        help=f"exit 3 unless the job is in this attempt (default: ${ENV_ATTEMPT})",
    )
    add("--event", choices=[str(kind) for kind in EventType], help="what happened")
    add("--detail", metavar="TEXT", default="", help="one sentence for people; - reads it from stdin")
    add(
        "--data",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a figure: a JSON number, string, boolean or null, otherwise text; repeatable",
    )
    add("--data-json", metavar="FILE", help="figures as one JSON object; - reads it from stdin")
    add("--redact", action="store_true", help="replace paths and secrets instead of refusing them")


def _add_delivery(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("delivery").add_argument
    add("--attempts", metavar="N", type=_whole(1, _MAX_ATTEMPTS), default=DEFAULT_ATTEMPTS,
        help="tries to reach the broker (default: %(default)s)")  # fmt: skip
    add(
        "--flush",
        action="store_true",
        help="send again what the outbox holds unconfirmed; without --event nothing else,"
        " without --job for every job of this home",
    )
    add("--confirm", metavar="S", type=_seconds,
        help="wait up to S seconds for the registry process (default: 10 for a terminal event where"
        " one runs, else 0)")  # fmt: skip
    add("--expiry", metavar="S", type=_whole(0, 2**32 - 1), default=EXPIRY_SECONDS,
        help="an MQTT 5 broker forgets a retained terminal event after S seconds, 0 is never"
        " (default: %(default)s)")  # fmt: skip
    add("--json", action="store_true", help="errors as one JSON object on stderr; stdout always is JSON")


def _add_broker(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("broker", "each goes before its MQTT_* variable and jobwire.toml")
    add = group.add_argument
    add("--broker", metavar="HOST", help="host name or address")
    add("--port", metavar="N", type=_whole(1, 65535))
    add("--tls", action=argparse.BooleanOptionalAction, default=None, help="--no-tls sends in the clear")
    add("--ca-certs", metavar="FILE", help="the CA that the broker's certificate comes from")
    add("--certfile", metavar="FILE", help="client certificate")
    add("--keyfile", metavar="FILE", help="its key")
    add("--username", metavar="NAME")
    add("--password-file", metavar="FILE", help="file with the password: never in argv, where all can see it")
    add("--topic-root", metavar="TOPIC")
    add("--protocol", choices=PROTOCOLS)


def broker_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings layer of the command line."""
    layer: dict[str, object] = {key: getattr(args, key) for key in _SETTING_OPTIONS}
    if args.tls is not None:
        layer["tls"] = "on" if args.tls else "off"
    return layer


def attempt_of(args: argparse.Namespace, environ: Mapping[str, str]) -> int | None:
    """Return the pinned attempt; raises InvalidInputError where the environment's is no number."""
    if args.for_attempt is not None:
        return int(args.for_attempt)
    text = environ.get(ENV_ATTEMPT)
    if not text:
        return None
    try:
        return _whole(1, 2**53 - 1)(text)
    except argparse.ArgumentTypeError as error:
        raise InvalidInputError(f"{ENV_ATTEMPT} is {text!r}: {error}") from error


class _whole:  # noqa: N801 - used as a function; argparse shows a callable's errors, a class keeps its limits
    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def __call__(self, text: str) -> int:
        """Return the number in `text`."""
        if not text.isascii() or not text.isdigit() or not self._least <= int(text) <= self._most:
            raise argparse.ArgumentTypeError(f"use a whole number from {self._least} to {self._most}")
        return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86400:  # noqa: PLR2004 - a day
        raise argparse.ArgumentTypeError("use a number of seconds from 0 to 86400")
    return value
