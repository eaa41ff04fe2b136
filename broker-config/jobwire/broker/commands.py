"""What `jobwire broker ...` and `jobwire doctor` do: run, render, check and examine a broker."""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from jobwire.broker.access_table import as_markdown, as_rows
from jobwire.broker.address import client_address, examine_certificate, reaches, require_own_address
from jobwire.broker.configuration import Listening
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
from jobwire.broker.render import Deployment, render_deployment
from jobwire.broker.serve import run_embedded, send_reload
from jobwire.certs.values import DAY, Finding, Level
from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.storage.settings_file import mtls_port

# What the doctor calls the levels.
_STATES = {Level.ERROR: "fails", Level.WARNING: "warning", Level.NOTE: "skipped", Level.WELL: "ok"}


def up(args: argparse.Namespace) -> int:
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
    """Print the one line that says where the broker accepts connections."""
    home = Path(args.home).resolve()
    ca = str(BrokerPaths(home).ca)
    body = {"ready": True, "host": host, "port": port, "ca_certs": ca, "pid": pid, "home": str(home)}
    shown = f"[{host}]" if ":" in host else host
    words = f"broker ready on {shown}:{port} (TLS 1.3, CA {ca}, pid {pid})"
    print(json.dumps(body) if args.json else words, flush=True)


def render(args: argparse.Namespace) -> int:
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


def check(args: argparse.Namespace) -> int:
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


def reload(args: argparse.Namespace) -> int:
    """Send SIGHUP to the broker of the home, or of a rendered folder."""
    broker = Path(args.dir) if args.dir else BrokerPaths(Path(args.home)).broker
    pid = send_reload(BrokerFiles(broker, broker).pid)
    print(json.dumps({"reloaded": pid}) if args.json else f"broker {pid} reads its files again")
    if not args.json:
        print(
            "note: Mosquitto reads ca.pem and crl.pem at its start only: restart it for them", file=sys.stderr
        )
    return ExitCode.OK


def access_table(args: argparse.Namespace) -> int:
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


def doctor(args: argparse.Namespace) -> int:
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
