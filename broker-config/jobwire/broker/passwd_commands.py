"""`jobwire broker passwd ...`: the accounts with a password."""

import argparse
import json
import secrets
import sys
from pathlib import Path

from jobwire.broker.files import read_text, write_private
from jobwire.broker.home import BrokerPaths, read_password
from jobwire.broker.passwd import PasswordFile, check_user_name
from jobwire.certs.files import make_directory
from jobwire.core.errors import ConflictError
from jobwire.core.exit_codes import ExitCode

_PASSWORD_BYTES = 32


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
    return sys.stdin.readline().rstrip("\n") if source == "-" else read_password(Path(source))


def remove(args: argparse.Namespace) -> int:
    """Remove an account and the kept password of it."""
    with PasswordFile.edit(_passwd_path(args)) as users:
        users.remove(args.name)
    if args.home is not None:
        BrokerPaths(Path(args.home)).password(check_user_name(args.name)).unlink(missing_ok=True)
    print(json.dumps({"removed": args.name}) if args.json else f"{args.name}: removed")
    return ExitCode.OK


def show(args: argparse.Namespace) -> int:
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
