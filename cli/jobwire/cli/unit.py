"""`jobwire unit`: a systemd unit for each of jobwire's long-running processes."""

import argparse
import getpass
import json
import sys
from pathlib import Path
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError

_UNSAFE = frozenset(" \t\n\"'\\%$;")


class Service(NamedTuple):
    """A process: the words after `jobwire`, and what it is for."""

    words: str
    description: str
    # The JVM writes machine code into memory, which MemoryDenyWriteExecute forbids.
    writes_code: bool = False


SERVICES = {
    "registry": Service("registry serve", "jobwire registry process: journal, records, states"),
    "metrics": Service("metrics run", "jobwire metrics: the journal through Spark", writes_code=True),
    "dashboard": Service("dashboard", "jobwire page and Prometheus endpoint"),
}
_TEMPLATE = """\
# systemd unit, written by `jobwire unit {name}`: save it as /etc/systemd/system/jobwire-{name}.service, then
#   systemctl daemon-reload && systemctl enable --now jobwire-{name}
[Unit]
Description={description}
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
User={user}
WorkingDirectory={home}
ExecStart={program} --home {home} {words}
# SIGTERM: the batch at hand is finished, everything is handed over, exit code 0.
TimeoutStopSec=60
Restart=on-failure
RestartSec=2
UMask=0077

# It writes below its home and nowhere else, and gains no rights.
ReadWritePaths={home}
ProtectSystem=strict
PrivateTmp=true
PrivateDevices=true
NoNewPrivileges=true
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=true
LockPersonality=true
{memory}ProtectKernelTunables=true
ProtectControlGroups=true
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `jobwire unit`."""
    parser = subparsers.add_parser(
        "unit",
        help="print a systemd unit for a process",
        description="Print the systemd unit of one of jobwire's processes, for this home.",
        epilog="example:\n  jobwire --home /srv/jobwire unit registry --user jobwire"
        " > /etc/systemd/system/jobwire-registry.service",
    )
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--user", default=getpass.getuser(), help="who it runs as (default: %(default)s)")
    parser.add_argument(
        "--arguments",
        metavar="WORDS",
        default="",
        help="more words for its command line, such as --port 8080",
    )
    parser.add_argument("--json", action="store_true", help='print {"name", "text"}')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the chosen unit."""
    text = unit(
        args.service,
        program=Path(sys.executable).with_name("jobwire"),
        home=Path(args.home).absolute(),
        user=args.user,
        arguments=args.arguments,
    )
    name = f"jobwire-{args.service}.service"
    print(json.dumps({"name": name, "text": text}) if args.json else text, end="\n" if args.json else "")
    return 0


def unit(name: str, *, program: Path, home: Path, user: str, arguments: str = "") -> str:
    """Return the text of the unit (systemd.service(5), systemd.exec(5)).

    Raises InvalidInputError for a path or user that a unit file would read as something else.
    """
    service = SERVICES[name]
    for what, value in (("program", str(program)), ("home", str(home)), ("user", user)):
        if not value or not value.isprintable() or _UNSAFE & set(value):
            raise InvalidInputError(
                f"the {what} {value!r} cannot stand in a systemd unit",
                hint="use one without blanks, quotes, %, $, ; and backslashes",
            )
    return _TEMPLATE.format(
        name=name,
        description=service.description,
        user=user,
        home=home,
        program=program,
        words=f"{service.words} {arguments}".strip(),
        memory="" if service.writes_code else "MemoryDenyWriteExecute=true\n",
    )
