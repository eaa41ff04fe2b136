"""`jobwire broker ...` and `jobwire doctor`: their arguments. What they do stands in `commands`."""

import argparse
import os
from functools import partial

from jobwire.broker.defaults import DEFAULT_MTLS_PORT, MAX_ITERATIONS, PRESENT_DAY_ITERATIONS
from jobwire.certs.values import DAY, WARN_WITHIN
from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_PORT
from jobwire.core.commands import CommandRow, Subparsers, add_group
from jobwire.core.settings import TLS_PORT
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.storage.home import Need

_PORT = whole(1, MAX_PORT)
_LOOPBACK = "127.0.0.1"
_BODIES = "jobwire.broker.commands"
_command = partial(CommandRow, bodies=_BODIES)


def _add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_PORT, default=TLS_PORT, help="TLS port (default: %(default)s)")
    parser.add_argument(
        "--topic-root",
        default=os.environ.get("MQTT_TOPIC_ROOT", DEFAULT_ROOT),
        help="root of the job topics (default: %(default)s)",
    )


def _up(parser: argparse.ArgumentParser) -> None:
    _add_listening(parser)
    text = "address to listen on (default: loopback); a fresh home is made for it"
    add = parser.add_argument
    add("--host", default=_LOOPBACK, help=text)
    text = "run Mosquitto instead of the embedded broker"
    add("--mosquitto", action="store_true", help=text)
    text = "Mosquitto's port for certificates (default: port + 1)"
    add("--mtls-port", type=_PORT, help=text)
    text = "let the embedded broker serve other hosts"
    add("--beyond-loopback", action="store_true", help=text)
    parser.set_defaults(home_need=Need.PLACE)


def _render(parser: argparse.ArgumentParser) -> None:
    _add_listening(parser)
    add = parser.add_argument
    add("--out", required=True, metavar="DIR", help="where to write")
    text = "host name or address of the broker, the first is what clients use (default: localhost)"
    add("--server-name", action="append", metavar="NAME", help=text)
    add("--mtls-port", type=_PORT, default=DEFAULT_MTLS_PORT, help="port for certificates")
    add("--bind", default="0.0.0.0", help="address to listen on (default: all)")  # noqa: S104 - a server's
    add("--user", help="user that runs the broker (default: mosquitto)", default="mosquitto")
    text = "the folder's place on the broker's host (default: --out)"
    add("--installed-at", metavar="DIR", help=text)
    iterations, text = whole(1, MAX_ITERATIONS), "of the password hash"
    add("--iterations", type=iterations, default=PRESENT_DAY_ITERATIONS, help=text)
    add("--force", action="store_true", help="write into a folder that is not empty")


def _check(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR")
    text = "warn this long before something expires"
    add("--warn-days", type=number(36_525), default=WARN_WITHIN / DAY, help=text)
    add("--strict", action="store_true", help="exit with 30 for warnings too, for use in a timer")
    parser.set_defaults(home_need=Need.NOTHING)


def _reload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="a rendered folder (default: the home's broker folder)")
    parser.set_defaults(home_need=lambda args: Need.NOTHING if args.dir else Need.HOME)


def _access_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="print the page docs/security.md")
    parser.set_defaults(home_need=Need.NOTHING)


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agents",
        dest="run",
        action="store_const",
        const="jobwire.hooks.doctor:agents",
        help="look at the coding agents on this host and their hooks instead",
    )


def _add_account(parser: argparse.ArgumentParser) -> None:
    text = "read the password from FILE, - for standard input"
    add = parser.add_argument
    add("--password-file", metavar="FILE", help=text)
    add("--replace", action="store_true", help="change the password of an existing account")
    add("--iterations", type=whole(1, MAX_ITERATIONS), default=PRESENT_DAY_ITERATIONS)
    _remove_account(parser)


def _remove_account(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name")
    _accounts(parser)


def _accounts(parser: argparse.ArgumentParser) -> None:
    text = "a rendered folder (default: the home's own broker folder)"
    parser.add_argument("--dir", metavar="DIR", help=text)
    parser.set_defaults(home_need=_needs_home)


def _needs_home(args: argparse.Namespace) -> Need:
    if args.dir is None:
        return Need.HOME
    # A password that is made here is kept in the home; what is removed goes there too, if it is there.
    return Need.HOME if args.run == f"{_BODIES}:add" and not args.password_file else Need.ANY


_PASSWD = (
    _command("add", "add an account", "jobwire broker passwd add alice", _add_account),
    _command("remove", "remove an account", "jobwire broker passwd remove alice", _remove_account),
    _command("list", "list the accounts", "jobwire broker passwd list", _accounts, f"{_BODIES}:accounts"),
)
_BROKER = (
    _command(
        "up",
        "run a broker on this host in the foreground, creating what is missing under the home directory",
        "jobwire broker up --port 8883",
        _up,
    ),
    _command(
        "render",
        "write a folder that can be deployed to the broker's host",
        "jobwire --home deploy broker render --out broker --server-name mqtt.example.org",
        _render,
    ),
    _command(
        "check",
        "verify a rendered folder: permissions, expiry, storage, and Mosquitto tried on it",
        "jobwire broker check broker",
        _check,
    ),
    _command(
        "reload",
        "let the running broker read access list, passwords and certificates again (SIGHUP)",
        "jobwire broker reload",
        _reload,
    ),
    _command(
        "access-table",
        "show who may do what",
        "jobwire broker access-table --markdown > docs/security.md",
        _access_table,
    ),
    CommandRow("passwd", "add, remove and list the accounts with a password", below=_PASSWD),
)
_DOCTOR = _command(
    "doctor",
    "say in plain words what works and what does not between this host and the broker",
    "jobwire doctor",
    _doctor,
)


def add_commands(subparsers: Subparsers) -> None:
    """Add `broker` and `doctor` to the umbrella command."""
    add_group(subparsers, "broker", "run, render, check and administer the MQTT broker", _BROKER)
    _DOCTOR.add_to(subparsers)
