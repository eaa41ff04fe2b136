"""`jobwire certs`: the arguments of each command. What they do stands in `commands`."""

import argparse
from functools import partial

from jobwire.certs.values import (
    CA_LIFETIME,
    DAY,
    DEFAULT_SERVER_NAMES,
    HOUR,
    JOB_LIFETIME,
    ROLE_LIFETIME,
    SERVER_LIFETIME,
    WARN_WITHIN,
    RevocationReason,
)
from jobwire.core.argument_types import number
from jobwire.core.bounds import MAX_SECONDS
from jobwire.core.commands import CommandRow, Subparsers, add_group

_HOURS = number(MAX_SECONDS / HOUR)
_DAYS = number(MAX_SECONDS / DAY)
_command = partial(CommandRow, bodies="jobwire.certs.commands")


def _init(parser: argparse.ArgumentParser) -> None:
    text = f"DNS name or address of the broker, repeatable (default: {' '.join(DEFAULT_SERVER_NAMES)})"
    parser.add_argument("--server-name", action="append", metavar="NAME", help=text)
    _permit_option(parser)
    _days_option(parser, CA_LIFETIME, "lifetime of the authority")
    parser.add_argument("--force", action="store_true", help="start over; the old folder is kept beside it")


def _issue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="becomes the CN, and with it the broker's user name")
    _days_option(parser, ROLE_LIFETIME, "lifetime")
    _force_option(parser)


def _issue_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="job id: 8 lower-case hex characters")
    text = "lifetime in hours (default %(default)g)"
    parser.add_argument("--hours", type=_HOURS, default=JOB_LIFETIME / HOUR, help=text)
    _force_option(parser)


def _issue_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what the other commands call it")
    text = "DNS name or address that clients use, repeatable; preferably none of the broker's"
    parser.add_argument("--server-name", action="append", required=True, metavar="HOST", help=text)
    _days_option(parser, SERVER_LIFETIME, "lifetime")
    _force_option(parser)


def _renew(parser: argparse.ArgumentParser) -> None:
    text = "`server` (the broker), or the name of a server, user, role or job"
    add = parser.add_argument
    add("name", metavar="NAME", help=text)
    text = "new names of the server (default: as before)"
    add("--server-name", action="append", metavar="NAME", help=text)
    add("--days", type=_DAYS, help="lifetime in days (default: that of its kind)")
    add("--new-key", action="store_true", help="make a new private key as well")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="details of one: ca, server, a name or a file"
    )
    parser.add_argument("--long", action="store_true", help="details of all: SANs, serials, fingerprints")


def _revoke(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("which", metavar="NAME_OR_SERIAL", help="a name (all its certificates) or one serial")
    parser.add_argument("--reason", choices=list(map(str, RevocationReason)), default="unspecified")


def _crl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days", type=_DAYS, help="valid for this many days (default: as long as the authority)"
    )


def _check(parser: argparse.ArgumentParser) -> None:
    text = "warn so many days before an end, but never before the last third (default %(default)g)"
    parser.add_argument("--warn-days", type=_DAYS, default=WARN_WITHIN / DAY, help=text)
    parser.add_argument("--strict", action="store_true", help="exit 30 for warnings too")


def _rollover(parser: argparse.ArgumentParser) -> None:
    steps = ["status", "begin", "switch", "finish", "cancel"]
    parser.add_argument("step", choices=steps, nargs="?", default="status")
    _permit_option(parser)
    parser.add_argument(
        "--force", action="store_true", help="finish: drop what still depends on the old authority"
    )


def _permit_option(parser: argparse.ArgumentParser) -> None:
    text = "let the authority certify this DNS subtree or address range too, repeatable"
    parser.add_argument("--permit", action="append", default=[], metavar="TREE", help=text)


def _force_option(parser: argparse.ArgumentParser) -> None:
    text = "replace an existing certificate and its key"
    parser.add_argument("--force", action="store_true", help=text)


def _days_option(parser: argparse.ArgumentParser, default_seconds: float, text: str) -> None:
    text += " in days (default %(default)g)"
    parser.add_argument("--days", type=_DAYS, default=default_seconds / DAY, help=text)


_COMMANDS = (
    _command(
        "init",
        "create the authority and a server certificate",
        "jobwire certs init --server-name broker.example.org --server-name 10.0.0.5",
        _init,
    ),
    _command("issue", "issue a client certificate for a user or role", "jobwire certs issue hermes", _issue),
    _command(
        "issue-job",
        "issue the short-lived client certificate of a job",
        "jobwire certs issue-job 3f9a01bc --hours 8",
        _issue_job,
    ),
    _command(
        "issue-server",
        "issue the certificate of a server beside the broker, such as the page",
        "jobwire certs issue-server page --server-name page.example.org",
        _issue_server,
    ),
    _command(
        "renew",
        "renew a certificate before it expires, keeping its key",
        "jobwire certs renew server",
        _renew,
    ),
    _command("show", "show certificates, ends and revocations", "jobwire certs show hermes", _show),
    _command(
        "revoke",
        "revoke a certificate and sign the revocation list",
        "jobwire certs revoke 3f9a01bc --reason keyCompromise",
        _revoke,
    ),
    _command("crl", "sign the revocation list anew", "jobwire certs crl", _crl),
    _command(
        "check",
        "find what is wrong or runs out soon (exit 30 for errors)",
        "jobwire certs check --warn-days 60 --strict",
        _check,
    ),
    _command("prune", "remove expired job certificates", "jobwire certs prune"),
    _command(
        "rollover",
        "move to a new authority in three steps",
        "jobwire certs rollover begin   (then: switch, finish; cancel before the switch)",
        _rollover,
    ),
)


def add_commands(subparsers: Subparsers) -> None:
    """Add `certs` with its sub-commands to the umbrella's parser."""
    add_group(
        subparsers,
        "certs",
        "private certificate authority: issue, show, revoke, renew, check",
        _COMMANDS,
        description="The private authority below <home>/certs: certificates of broker, page, users and jobs.",
    )
