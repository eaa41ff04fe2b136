"""What `jobwire broker ...` and `jobwire doctor` do: run, render, check, administer and examine a broker."""

import argparse
import json
import logging
import os
import secrets
import signal
import sys
from pathlib import Path

from jobwire.broker.access_table import as_markdown, as_rows
from jobwire.broker.address import client_address, examine_certificate, reaches, require_own_address
from jobwire.broker.embedded import EmbeddedBroker, read_pid, require_loopback, run_embedded
from jobwire.broker.files import read_text, write_private
from jobwire.broker.home import (
    BrokerFiles,
    BrokerPaths,
    named_broker,
    prepare_home,
    read_password,
    require_usable_certificates,
    settings_mismatch,
)
from jobwire.broker.mosquitto import Listening, Mosquitto, configure, find_mosquitto, run_foreground
from jobwire.broker.passwd import MAX_PASSWORD_BYTES, PasswordFile, check_user_name
from jobwire.broker.render import Deployment, render_deployment
from jobwire.certs.commands import print_findings
from jobwire.certs.files import make_directory
from jobwire.certs.values import DAY, Finding, Level
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.core.exit_codes import ExitCode
from jobwire.storage.settings_file import mtls_port

_PASSWORD_BYTES = 32
_NO_BROKER = "start it with jobwire broker up, or reload the service: systemctl reload jobwire-broker"
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
    code = print_findings(args, found)
    if not args.json:
        print(f"{args.directory}: " + ("not ready to deploy" if code else "ready to deploy"))
    return code


def reload(args: argparse.Namespace) -> int:
    """Send SIGHUP to the broker of the home, or of a rendered folder."""
    broker = Path(args.dir) if args.dir else BrokerPaths(Path(args.home)).broker
    pid = _send_reload(BrokerFiles(broker, broker).pid)
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


def _send_reload(path: Path) -> int:
    """Send SIGHUP to the broker whose id is in `path` and return the id; raises NotFoundError.

    After a crash the id may be another program's by now, which SIGHUP would end: only a broker is signalled.
    """
    try:
        pid = read_pid(path)
        if pid <= 1 or not _is_broker(pid):
            raise NotFoundError(f"{path} names {pid}, which is not a running broker", hint=_NO_BROKER)
        os.kill(pid, signal.SIGHUP)
    except (OSError, ValueError) as error:
        raise NotFoundError(f"no running broker found through {path}: {error}", hint=_NO_BROKER) from error
    return pid


def _is_broker(pid: int) -> bool:
    """Tell by its command line (proc(5)) whether a process is Mosquitto or `jobwire broker up`."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return os.path.basename(words[0]) == b"mosquitto" or (b"broker" in words and b"up" in words)  # noqa: PTH119 - bytes


def add(args: argparse.Namespace) -> int:
    """Add an account; without --password-file a password is made and kept under the home's passwords."""
    name, path = check_user_name(args.name), _passwd_path(args)
    secret = None if args.password_file else BrokerPaths(Path(args.home)).password(name)
    password = _new_password(args.password_file)
    with PasswordFile.edit(path) as users:
        if name in users.entries and not args.replace:
            raise ConflictError(
                f"the account {name} exists", hint="change its password with --replace", name=name
            )
        users.set(name, password, iterations=args.iterations)
        if secret is not None:
            make_directory(secret.parent)
            write_private(secret, password + "\n")
    if args.json:
        print(json.dumps({"name": name, "password_file": secret and str(secret)}))
    else:
        print(f"{name}: password in {secret}" if secret else f"{name}: password set")
        access = path.with_name("acl")
        if access.exists() and f"user {name}" not in read_text(access, "access list").splitlines():
            print(f"next: a line `user {name}` and its topics in {access}", file=sys.stderr)
        print(f"next: {_next_step(args.dir)}", file=sys.stderr)
    return ExitCode.OK


def _next_step(directory: str | None) -> str:
    if directory is None:
        return "jobwire broker reload"
    return f"copy {directory} to the broker's host; there: systemctl reload jobwire-broker"


def _new_password(source: str | None) -> str:
    if source is None:
        return secrets.token_urlsafe(_PASSWORD_BYTES)
    if source != "-":
        return read_password(Path(source))
    # One byte more than a password may have: enough to be refused with the right words.
    raw = sys.stdin.buffer.readline(MAX_PASSWORD_BYTES + 2)
    try:
        return raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the password is not UTF-8", hint="type it as text") from error


def remove(args: argparse.Namespace) -> int:
    """Remove an account and the kept password of it."""
    with PasswordFile.edit(_passwd_path(args)) as users:
        users.remove(args.name)
    if args.home is not None:
        BrokerPaths(Path(args.home)).password(check_user_name(args.name)).unlink(missing_ok=True)
    print(json.dumps({"removed": args.name}) if args.json else f"{args.name}: removed")
    return ExitCode.OK


def accounts(args: argparse.Namespace) -> int:
    """List the accounts with the iteration counts of their hashes."""
    users = PasswordFile.load(_passwd_path(args))
    counts = {name: entry.iterations for name, entry in users.entries.items()}
    if args.json:
        print(json.dumps([{"name": name, "iterations": count} for name, count in counts.items()]))
    else:
        for name, count in counts.items():
            print(f"{name:<24} {count} iterations")
    return ExitCode.OK


def _passwd_path(args: argparse.Namespace) -> Path:
    return Path(args.dir) / "passwd" if args.dir else BrokerPaths(Path(args.home)).passwd


def doctor(args: argparse.Namespace) -> int:
    """Examine everything; OK only if nothing fails."""
    from jobwire.broker.doctor import Doctor, verdict  # noqa: PLC0415 - brings paho

    # Said once by the doctor, not at each of its connections.
    logging.getLogger("jobwire.transport").setLevel(logging.ERROR)
    found = []
    for finding in Doctor(home=Path(args.home), environ=os.environ, clock=SystemClock()).examine():
        found.append(finding)
        if not args.json:
            print(finding.in_words(_STATES[finding.level]), flush=True)
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
