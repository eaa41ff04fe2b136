"""`jobwire broker ...` and `jobwire doctor`: run, render, check and administer the broker."""

import argparse
import json
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.broker.access_table import as_markdown, as_rows
from jobwire.broker.address import client_address, examine_certificate, reaches, require_own_address
from jobwire.broker.configuration import DEFAULT_MTLS_PORT, Listening
from jobwire.broker.embedded import EmbeddedBroker, require_loopback
from jobwire.broker.home import (
    BrokerFiles,
    BrokerPaths,
    named_broker,
    prepare_home,
    require_usable_certificates,
    settings_mismatch,
)
from jobwire.broker.mosquitto import Mosquitto, configure, find_mosquitto, run_foreground
from jobwire.broker.passwd import MAX_ITERATIONS, PRESENT_DAY_ITERATIONS
from jobwire.broker.passwd_commands import add_passwd
from jobwire.broker.render import Deployment, render_deployment
from jobwire.broker.serve import ready_line, run_embedded, send_reload
from jobwire.certs import Finding, Level
from jobwire.certs.values import DAY, WARN_WITHIN
from jobwire.core.argument_types import number, whole
from jobwire.core.clock import SystemClock
from jobwire.core.commands import add_command
from jobwire.core.exit_codes import ExitCode
from jobwire.core.setting_tables import MAX_PORT
from jobwire.core.settings import TLS_PORT
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.storage.home import Need
from jobwire.storage.settings_file import mtls_port

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse has no public name
    _Add = partial[argparse.ArgumentParser]

_PORT = whole(1, MAX_PORT)
_LOOPBACK = "127.0.0.1"
# What the doctor calls the levels.
_STATES = {Level.ERROR: "fails", Level.WARNING: "warning", Level.NOTE: "skipped", Level.WELL: "ok"}


def add_commands(subparsers: "_Commands") -> None:
    """Add `broker` and `doctor` to the umbrella command."""
    broker = subparsers.add_parser("broker", help="run, render, check and administer the MQTT broker")
    commands = broker.add_subparsers(dest="broker_command", required=True, metavar="COMMAND")
    for group in (_add_up, _add_render, _add_check, _add_small):
        group(partial(add_command, commands))
    add_passwd(commands)
    add_command(
        subparsers,
        "doctor",
        "say in plain words what works and what does not between this host and the broker",
        "jobwire doctor",
        run=run_doctor,
    )


def _add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_PORT, default=TLS_PORT, help="TLS port (default: %(default)s)")
    parser.add_argument(
        "--topic-root",
        default=os.environ.get("MQTT_TOPIC_ROOT", DEFAULT_ROOT),
        help="root of the job topics (default: %(default)s)",
    )


def _add_up(add: "_Add") -> None:
    parser = add(
        "up",
        "run a broker on this host in the foreground, creating what is missing under the home directory",
        "jobwire broker up --port 8883",
        run=run_up,
    )
    _add_listening(parser)
    text = "address to listen on (default: loopback); a fresh home is made for it"
    parser.add_argument("--host", default=_LOOPBACK, help=text)
    text = "run Mosquitto instead of the embedded broker"
    parser.add_argument("--mosquitto", action="store_true", help=text)
    text = "Mosquitto's port for certificates (default: port + 1)"
    parser.add_argument("--mtls-port", type=_PORT, help=text)
    text = "let the embedded broker serve other hosts"
    parser.add_argument("--beyond-loopback", action="store_true", help=text)
    parser.set_defaults(home_need=Need.PLACE)


def run_up(args: argparse.Namespace) -> int:
    """Run the broker; returns after SIGTERM or SIGINT."""
    home, certificates = Path(args.home), None
    # What can be refused is refused before anything is written.
    if args.mosquitto:
        named = mtls_port(home)
        certificates = args.mtls_port or (named if named not in {None, args.port} else args.port + 1)
        Listening(args.host, args.port, certificates).check()
        find_mosquitto()
    else:
        require_loopback(args.host, beyond_loopback=args.beyond_loopback)
    require_own_address(args.host)
    prepare_home(
        home,
        host=client_address(args.host),
        port=args.port,
        topic_root=args.topic_root,
        protocol="5" if args.mosquitto else "3.1.1",
        mtls_port=certificates,
    )
    require_usable_certificates(home)
    # What the settings may call this broker, its own address first.
    name = named_broker(home)
    addresses = client_address(args.host), *([name] if name and reaches(name, args.host) else [])
    _warn_of_settings(
        args,
        certificates or args.port,
        {
            ("broker", "protocol"): ("5", "auto", "3.1.1") if args.mosquitto else ("3.1.1",),
            ("broker", "broker"): addresses,
        },
    )
    if finding := examine_certificate(home, args.host):
        if finding.level is Level.WARNING:
            print(f"jobwire: warning: {finding.message}", file=sys.stderr)
        print(f"jobwire: hint: {finding.hint}", file=sys.stderr)
    if certificates is not None:
        return _up_mosquitto(args, Listening(args.host, args.port, certificates))
    return _up_embedded(args)


def _warn_of_settings(
    args: argparse.Namespace, certificates: int, more: dict[tuple[str, str], tuple[object, ...]]
) -> None:
    expected: dict[tuple[str, str], tuple[object, ...]] = {
        ("broker", "port"): (args.port,),
        ("broker", "topic_root"): (args.topic_root,),
        ("mtls", "port"): (certificates,),
    }
    for difference in settings_mismatch(Path(args.home), expected | more):
        print(f"jobwire: warning: {difference}", file=sys.stderr)


def _up_embedded(args: argparse.Namespace) -> int:
    home = Path(args.home)
    broker = EmbeddedBroker(home=home, host=args.host, port=args.port, beyond_loopback=args.beyond_loopback)
    run_embedded(
        broker,
        pid_file=BrokerPaths(home).pid,
        on_ready=lambda: _announce(args, broker.host, broker.port, os.getpid()),
    )
    return ExitCode.OK


def _up_mosquitto(args: argparse.Namespace, listening: Listening) -> int:
    configuration = configure(BrokerPaths(Path(args.home)), listening)
    broker = Mosquitto(configuration, host=listening.bind, ports=(listening.port, listening.mtls_port))
    code = run_foreground(
        broker, on_ready=lambda: _announce(args, listening.bind, listening.port, broker.pid)
    )
    return ExitCode.INTERNAL if code else ExitCode.OK


def _announce(args: argparse.Namespace, host: str, port: int, pid: int) -> None:
    home = Path(args.home).resolve()
    ca = BrokerPaths(home).ca
    line = ready_line(host=host, port=port, home=home, ca_certs=ca, pid=pid, as_json=args.json)
    print(line, flush=True)


def _add_render(add: "_Add") -> None:
    parser = add(
        "render",
        "write a folder that can be deployed to the broker's host",
        "jobwire --home deploy broker render --out broker --server-name mqtt.example.org",
        run=run_render,
    )
    _add_listening(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="where to write")
    text = "host name or address of the broker, the first is what clients use (default: localhost)"
    parser.add_argument("--server-name", action="append", metavar="NAME", help=text)
    parser.add_argument("--mtls-port", type=_PORT, default=DEFAULT_MTLS_PORT, help="port for certificates")
    parser.add_argument("--bind", default="0.0.0.0", help="address to listen on (default: all)")  # noqa: S104 - a server's
    parser.add_argument("--user", help="user that runs the broker (default: mosquitto)", default="mosquitto")
    text = "the folder's place on the broker's host (default: --out)"
    parser.add_argument("--installed-at", metavar="DIR", help=text)
    iterations, text = whole(1, MAX_ITERATIONS), "of the password hash"
    parser.add_argument("--iterations", type=iterations, default=PRESENT_DAY_ITERATIONS, help=text)
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")


def run_render(args: argparse.Namespace) -> int:
    """Write the folder and list it."""
    out = Path(args.out)
    deployment = Deployment(
        server_names=args.server_name or ["localhost", "127.0.0.1", "::1"],
        listening=Listening(args.bind, args.port, args.mtls_port),
        topic_root=args.topic_root,
        user=args.user,
        installed_at=Path(args.installed_at or out.absolute()),
        iterations=args.iterations,
    )
    written = render_deployment(Path(args.home), out, deployment, force=args.force)
    _warn_of_settings(args, args.mtls_port, {("broker", "broker"): tuple(deployment.server_names)})
    if args.json:
        print(json.dumps({"directory": str(out.absolute()), "files": [str(path) for path in written]}))
    else:
        print("\n".join(str(path) for path in written))
        print(f"next: jobwire broker check {out}", file=sys.stderr)
    return ExitCode.OK


def _add_check(add: "_Add") -> None:
    parser = add(
        "check",
        "verify a rendered folder: permissions, expiry, storage, and Mosquitto tried on it",
        "jobwire broker check broker",
        run=run_check,
    )
    parser.add_argument("directory", metavar="DIR")
    text = "warn this long before something expires"
    parser.add_argument("--warn-days", type=number(36_525), default=WARN_WITHIN / DAY, help=text)
    parser.add_argument(
        "--strict", action="store_true", help="exit with 30 for warnings too, for use in a timer"
    )
    parser.set_defaults(home_need=Need.NOTHING)


def run_check(args: argparse.Namespace) -> int:
    """Print the findings; INVALID if one of them is an error."""
    from jobwire.broker.check import check_deployment  # noqa: PLC0415 - brings paho

    found = check_deployment(Path(args.directory), warn_seconds=args.warn_days * DAY)
    fatal = {Level.ERROR, Level.WARNING} if args.strict else {Level.ERROR}
    failed = any(finding.level in fatal for finding in found)
    if args.json:
        print(json.dumps({"ok": not failed, "findings": [finding.as_json() for finding in found]}))
    else:
        for finding in found:
            print(f"{finding.level:<8} {finding.subject}: {finding.message}\n         {finding.hint}")
        print(f"{args.directory}: " + ("not ready to deploy" if failed else "ready to deploy"))
    return ExitCode.INVALID if failed else ExitCode.OK


def _add_small(add: "_Add") -> None:
    reload = add(
        "reload",
        "let the running broker read access list, passwords and certificates again (SIGHUP)",
        "jobwire broker reload",
        run=run_reload,
    )
    reload.add_argument("--dir", metavar="DIR", help="a rendered folder (default: the home's broker folder)")
    reload.set_defaults(home_need=lambda args: Need.NOTHING if args.dir else Need.HOME)
    table = add(
        "access-table",
        "show who may do what",
        "jobwire broker access-table --markdown > docs/security.md",
        run=run_access_table,
    )
    table.add_argument("--markdown", action="store_true", help="print the page docs/security.md")
    table.set_defaults(home_need=Need.NOTHING)


def run_reload(args: argparse.Namespace) -> int:
    """Send SIGHUP to the broker of the home, or of a rendered folder."""
    broker = Path(args.dir) if args.dir else BrokerPaths(Path(args.home)).broker
    pid = send_reload(BrokerFiles(broker, broker).pid)
    print(json.dumps({"reloaded": pid}) if args.json else f"broker {pid} reads its files again")
    if not args.json:
        print(
            "note: Mosquitto reads ca.pem and crl.pem at its start only: restart it for them", file=sys.stderr
        )
    return ExitCode.OK


def run_access_table(args: argparse.Namespace) -> int:
    """Print the table of identities and actions."""
    if args.json:
        print(json.dumps(as_rows(), indent=2))
    elif args.markdown:
        print(as_markdown(), end="")
    else:
        for row in as_rows():
            name, *cells = row.items()
            allowed = ", ".join(action for action, said in cells if said == "allowed")
            print(f"{name[1]}: {allowed or 'nothing'}")
    return ExitCode.OK


def run_doctor(args: argparse.Namespace) -> int:
    """Examine everything; OK only if nothing fails."""
    from jobwire.broker.doctor import Doctor, verdict  # noqa: PLC0415 - brings paho

    # Said once by the doctor, not at each of its connections.
    logging.getLogger("jobwire.transport").setLevel(logging.ERROR)
    found = []
    for finding in Doctor(home=Path(args.home), environ=os.environ, clock=SystemClock()).examine():
        found.append(finding)
        if not args.json:
            remedy = f"\n         {finding.hint}" if finding.hint else ""
            print(f"{_STATES[finding.level]:<8} {finding.subject}: {finding.message}{remedy}", flush=True)
    code = verdict(found)
    if args.json:
        print(json.dumps({"ok": not code, "reports": [_report(finding) for finding in found]}))
    elif not code:
        print("all is well")
    return code


def _report(finding: Finding) -> dict[str, object]:
    failed = finding.level is Level.ERROR
    return {
        "subject": finding.subject,
        "state": _STATES[finding.level],
        "message": finding.message,
        "hint": finding.hint,
        "exit_code": finding.exit_code if failed else ExitCode.OK,
    }
