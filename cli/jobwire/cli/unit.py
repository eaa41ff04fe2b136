"""`jobwire unit`: a systemd unit for each of jobwire's processes, of the system or of a user."""

import argparse
import getpass
import json
import sys
from pathlib import Path
from typing import NamedTuple

from jobwire.core.errors import InvalidInputError

_UNSAFE = frozenset("\t\n\"'\\%$;")


class Service(NamedTuple):
    """A process: the words after `jobwire`, and what it is for."""

    words: str
    description: str
    # The JVM writes machine code into memory, which MemoryDenyWriteExecute forbids.
    writes_code: bool = False
    reloads: bool = False
    # Does its work and ends; what it started stays.
    once: bool = False


UP, BROKER, SESSIONS = "up", "broker", "sessions"
SERVICES = {
    UP: Service("up", "jobwire on this host: broker, registry process and page"),
    BROKER: Service("broker up", "jobwire broker on this host", reloads=True),
    "registry": Service("serve", "jobwire registry process: journal, records, states"),
    "metrics": Service("metrics run", "jobwire metrics: the journal through Spark", writes_code=True),
    "dashboard": Service("dashboard", "jobwire page and Prometheus endpoint"),
    SESSIONS: Service("sessions resume --all", "jobwire sessions: agents that ran before", once=True),
}
_HEAD = """\
# systemd unit, written by `jobwire unit {name}`: save it as {folder}/jobwire-{name}.service, then
#   {systemctl} daemon-reload && {systemctl} enable --now jobwire-{name}
"""
# Without rights of its own a user's manager can forbid no more than this (systemd.exec(5)).
_CONFINED = """\

# It gains no rights and makes no system calls that such a service does not need.
NoNewPrivileges=true
LockPersonality=true
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallFilter=@system-service
"""
_CONFINED_BY_SYSTEM = """\
# It writes below its home and nowhere else.
ReadWritePaths={home}
ProtectSystem=strict
PrivateTmp=true
PrivateDevices=true
CapabilityBoundingSet=
RestrictNamespaces=true
ProtectKernelTunables=true
ProtectControlGroups=true
"""


def run(args: argparse.Namespace) -> int:
    """Print the chosen unit."""
    if args.user and args.run_as is not None:
        raise InvalidInputError(
            "--user and --run-as contradict each other", hint="a user's unit runs as its user"
        )
    text = unit(
        args.service,
        program=Path(sys.executable).with_name("jobwire"),
        home=Path(args.home).absolute(),
        user=None if args.user else args.run_as or getpass.getuser(),
        arguments=args.arguments,
    )
    name = f"jobwire-{args.service}.service"
    print(json.dumps({"name": name, "text": text}) if args.json else text, end="\n" if args.json else "")
    return 0


def unit(name: str, *, program: Path, home: Path, user: str | None, arguments: str = "") -> str:
    """Return the text of the unit (systemd.service(5), systemd.exec(5)); `user` None: a user's own.

    Raises InvalidInputError for a path, user or word that a unit file would read as something else.
    """
    service = SERVICES[name]
    if service.once and user is not None:
        raise InvalidInputError(f"{name} are a user's own: their tmux is", hint=f"jobwire unit --user {name}")
    given = {"program": str(program), "home": str(home), "user": "me" if user is None else user}
    for what, value in given.items():
        if not value or " " in value:
            raise _unsafe(what, value)
    for what, value in {**given, "arguments": arguments}.items():
        if not value.isprintable() or _UNSAFE & set(value):
            raise _unsafe(what, value)
    return "\n".join(
        [
            _head(name, own=user is None),
            _unit_section(name, service, own=user is None),
            _service_section(service, program, home, user, f"{service.words} {arguments}".strip()),
            f"[Install]\nWantedBy={'default' if user is None else 'multi-user'}.target\n",
        ]
    )


def _head(name: str, *, own: bool) -> str:
    folder = "~/.config/systemd/user" if own else "/etc/systemd/system"
    text = _HEAD.format(name=name, folder=folder, systemctl="systemctl --user" if own else "systemctl")
    linger = "# `loginctl enable-linger` lets it run also while you are not logged in.\n"
    return (text + linger if own else text).rstrip("\n")


def _unit_section(name: str, service: Service, *, own: bool) -> str:
    # A user's manager does not know the system's targets. Clients wait for a broker by themselves: this
    # order only spares them the first try.
    after = [] if own else ["network-online.target"]
    after += [] if name in {UP, BROKER} else ["jobwire-broker.service"]
    lines = ["[Unit]", f"Description={service.description}"]
    lines += [f"After={' '.join(after)}"] if after else []
    lines += [] if own else ["Wants=network-online.target"]
    return "\n".join(lines) + "\n"


def _service_section(service: Service, program: Path, home: Path, user: str | None, words: str) -> str:
    if service.once:
        # tmux and its agents are not this service's to end, nor to confine: they do a person's work.
        start = f"WorkingDirectory={home}\nExecStart={program} --home {home} {words}"
        return f"[Service]\nType=oneshot\nRemainAfterExit=yes\nKillMode=process\n{start}\nUMask=0077\n"
    lines = ["[Service]", "Type=exec"]
    lines += [] if user is None else [f"User={user}"]
    # A missing home is made by `broker up`; where the home is the only writable place it must be there.
    optional = "-" if user is None else ""
    lines += [f"WorkingDirectory={optional}{home}", f"ExecStart={program} --home {home} {words}"]
    lines += ["ExecReload=/bin/kill -HUP $MAINPID"] if service.reloads else []
    lines += [
        "# SIGTERM: the work at hand is finished, everything is handed over, exit code 0.",
        "TimeoutStopSec=60",
        "Restart=on-failure",
        "RestartSec=2",
        "UMask=0077",
    ]
    text = "\n".join(lines) + "\n" + _CONFINED
    text += "" if service.writes_code else "MemoryDenyWriteExecute=true\n"
    return text if user is None else text + _CONFINED_BY_SYSTEM.format(home=home)


def _unsafe(what: str, value: str) -> InvalidInputError:
    return InvalidInputError(
        f"the {what} {value!r} cannot be written into a systemd unit",
        hint="use one without quotes, %, $, ; and backslashes"
        + ("" if what == "arguments" else ", and blanks"),
    )
