"""`jobwire certs`: create the authority, issue, show, revoke, renew, check, and move to a new authority."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.certs import present
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import (
    CA_LIFETIME,
    DAY,
    DEFAULT_SERVER_NAMES,
    HOUR,
    JOB_LIFETIME,
    ROLE_LIFETIME,
    SERVER_LIFETIME,
    WARN_WITHIN,
    CertificateFacts,
    Issued,
    Level,
    Phase,
    RevocationReason,
    serial_text,
)
from jobwire.core.argument_types import number
from jobwire.core.clock import utc_timestamp
from jobwire.core.commands import add_command
from jobwire.core.errors import NotFoundError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import table
from jobwire.storage.home_paths import HomePaths

# A hundred years; every end of it still has a four-digit year.
_MAX_DAYS = 36_525
_HOURS = number(_MAX_DAYS * 24)
_DAYS = number(_MAX_DAYS)
_FINISHED = (
    "finished: only the new authority is trusted; hand ca.pem and crl.pem to every broker (restart it) "
    "and client\n"
)
_CANCELLED = "cancelled: only the old authority is trusted, as before\n"
_NEXT_STEP = {
    Phase.IDLE: "no rollover under way; start one with: jobwire certs rollover begin",
    Phase.BEGUN: "both authorities are trusted, the old one signs; when ca.pem and crl.pem have reached "
    "every broker (restart it) and client: jobwire certs rollover switch",
    Phase.SWITCHED: "both authorities are trusted, the new one signs; when every certificate is from the new "
    "one: jobwire certs rollover finish",
}


if TYPE_CHECKING:
    _Add = partial[argparse.ArgumentParser]


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `certs` with its sub-commands to the umbrella's parser."""
    certs = subparsers.add_parser(
        "certs",
        help="private certificate authority: issue, show, revoke, renew, check",
        description="The private authority below <home>/certs: certificates of broker, page, users and jobs.",
    )
    commands = certs.add_subparsers(dest="certs_command", metavar="COMMAND", required=True)
    for group in (_add_issuing, _add_upkeep, _add_rollover):
        group(partial(add_command, commands))


def _add_issuing(add: "_Add") -> None:
    init = add(
        "init",
        "create the authority and a server certificate",
        "jobwire certs init --server-name broker.example.org --server-name 10.0.0.5",
        run=_init,
    )
    text = f"DNS name or address of the broker, repeatable (default: {' '.join(DEFAULT_SERVER_NAMES)})"
    init.add_argument("--server-name", action="append", metavar="NAME", help=text)
    _permit_option(init)
    _days_option(init, CA_LIFETIME, "lifetime of the authority")
    init.add_argument("--force", action="store_true", help="start over; the old folder is kept beside it")

    issue = add(
        "issue", "issue a client certificate for a user or role", "jobwire certs issue hermes", run=_issue
    )
    issue.add_argument("name", metavar="NAME", help="becomes the CN, and with it the broker's user name")
    _days_option(issue, ROLE_LIFETIME, "lifetime")

    job = add(
        "issue-job",
        "issue the short-lived client certificate of a job",
        "jobwire certs issue-job 3f9a01bc --hours 8",
        run=_issue_job,
    )
    job.add_argument("job", metavar="JOB", help="job id: 8 lower-case hex characters")
    text = "lifetime in hours (default %(default)g)"
    job.add_argument("--hours", type=_HOURS, default=JOB_LIFETIME / HOUR, help=text)

    server = add(
        "issue-server",
        "issue the certificate of a server beside the broker, such as the page",
        "jobwire certs issue-server page --server-name page.example.org",
        run=_issue_server,
    )
    server.add_argument("name", metavar="NAME", help="what the other commands call it")
    text = "DNS name or address that clients use, repeatable; preferably none of the broker's"
    server.add_argument("--server-name", action="append", required=True, metavar="HOST", help=text)
    _days_option(server, SERVER_LIFETIME, "lifetime")
    for parser in (issue, job, server):
        text = "replace an existing certificate and its key"
        parser.add_argument("--force", action="store_true", help=text)

    renew = add(
        "renew",
        "renew a certificate before it expires, keeping its key",
        "jobwire certs renew server",
        run=_renew,
    )
    text = "`server` (the broker), or the name of a server, user, role or job"
    renew.add_argument("name", metavar="NAME", help=text)
    text = "new names of the server (default: as before)"
    renew.add_argument("--server-name", action="append", metavar="NAME", help=text)
    renew.add_argument("--days", type=_DAYS, help="lifetime in days (default: that of its kind)")
    renew.add_argument("--new-key", action="store_true", help="make a new private key as well")


def _add_upkeep(add: "_Add") -> None:
    show = add("show", "show certificates, ends and revocations", "jobwire certs show hermes", run=_show)
    show.add_argument("name", metavar="NAME", nargs="?", help="details of one: ca, server, a name or a file")
    show.add_argument("--long", action="store_true", help="details of all: SANs, serials, fingerprints")

    revoke = add(
        "revoke",
        "revoke a certificate and sign the revocation list",
        "jobwire certs revoke 3f9a01bc --reason keyCompromise",
        run=_revoke,
    )
    revoke.add_argument("which", metavar="NAME_OR_SERIAL", help="a name (all its certificates) or one serial")
    revoke.add_argument("--reason", choices=list(map(str, RevocationReason)), default="unspecified")

    crl = add("crl", "sign the revocation list anew", "jobwire certs crl", run=_crl)
    crl.add_argument(
        "--days", type=_DAYS, help="valid for this many days (default: as long as the authority)"
    )

    check = add(
        "check",
        "find what is wrong or runs out soon (exit 30 for errors)",
        "jobwire certs check --warn-days 60 --strict",
        run=_check,
    )
    text = "warn so many days before an end, but never before the last third (default %(default)g)"
    check.add_argument("--warn-days", type=_DAYS, default=WARN_WITHIN / DAY, help=text)
    check.add_argument("--strict", action="store_true", help="exit 30 for warnings too")

    add("prune", "remove expired job certificates", "jobwire certs prune", run=_prune)


def _add_rollover(add: "_Add") -> None:
    parser = add(
        "rollover",
        "move to a new authority in three steps",
        "jobwire certs rollover begin   (then: switch, finish; cancel before the switch)",
        run=_rollover,
    )
    steps = ["status", "begin", "switch", "finish", "cancel"]
    parser.add_argument("step", choices=steps, nargs="?", default="status")
    _permit_option(parser)
    parser.add_argument(
        "--force", action="store_true", help="finish: drop what still depends on the old authority"
    )


def _permit_option(parser: argparse.ArgumentParser) -> None:
    text = "let the authority certify this DNS subtree or address range too, repeatable"
    parser.add_argument("--permit", action="append", default=[], metavar="TREE", help=text)


def _days_option(parser: argparse.ArgumentParser, default_seconds: float, text: str) -> None:
    text += " in days (default %(default)g)"
    parser.add_argument("--days", type=_DAYS, default=default_seconds / DAY, help=text)


def _authority(args: argparse.Namespace) -> CertificateAuthority:
    return CertificateAuthority(HomePaths(args.home).certs)


def _say(args: argparse.Namespace, value: object, text: str) -> int:
    print(json.dumps(value) if args.json else text)
    return ExitCode.OK


def _say_issued(args: argparse.Namespace, verb: str, issued: Issued) -> int:
    rows = table([("  certificate", str(issued.certfile)), ("  key", str(issued.keyfile))], None)
    said = f"{verb} {issued.name}, valid until {utc_timestamp(issued.not_after)}"
    return _say(args, present.issued_json(issued), "\n".join([said, *rows]))


def _init(args: argparse.Namespace) -> int:
    authority = _authority(args)
    names = args.server_name or DEFAULT_SERVER_NAMES
    issued = authority.init(names, force=args.force, permit=args.permit, lifetime_seconds=args.days * DAY)
    places = authority.places
    value = {"ca_certs": str(places.bundle), "crl": str(places.crl), **present.issued_json(issued)}
    rows = [
        ("  trust", str(places.bundle)),
        ("  server", f"{issued.certfile} ({', '.join(names)}) until {utc_timestamp(issued.not_after)[:10]}"),
        ("  revocations", str(places.crl)),
        ("  signing key", f"{places.ca_key} (keep it secret, back it up)"),
    ]
    said = f"created a certificate authority in {places.directory}"
    return _say(args, value, "\n".join([said, *table(rows, None)]))


def _issue(args: argparse.Namespace) -> int:
    issued = _authority(args).issue(args.name, lifetime_seconds=args.days * DAY, force=args.force)
    return _say_issued(args, "issued", issued)


def _issue_job(args: argparse.Namespace) -> int:
    issued = _authority(args).issue_job(args.job, lifetime_seconds=args.hours * HOUR, force=args.force)
    return _say_issued(args, "issued", issued)


def _issue_server(args: argparse.Namespace) -> int:
    authority = _authority(args)
    issued = authority.issue_server(
        args.name, args.server_name, lifetime_seconds=args.days * DAY, force=args.force
    )
    broker = authority.inspect(authority.places.server)
    # Clients go by the host names alone: a certificate for a name serves whatever runs there.
    if shared := sorted(set(broker.names) & set(authority.inspect(issued.certfile).names)):
        print(
            f"jobwire: warning: {', '.join(shared)} is the broker's, too: whoever takes this key can pose as "
            "the broker there",
            file=sys.stderr,
        )
    return _say_issued(args, "issued", issued)


def _renew(args: argparse.Namespace) -> int:
    issued = _authority(args).renew(
        args.name,
        server_names=args.server_name,
        lifetime_seconds=None if args.days is None else args.days * DAY,
        new_key=args.new_key,
    )
    return _say_issued(args, "renewed", issued)


def _show(args: argparse.Namespace) -> int:
    authority = _authority(args)
    items = [_find(authority, args.name)] if args.name else authority.show()
    if args.long or args.name:
        text = "\n\n".join(present.details(item) for item in items)
    else:
        text = present.table(items)
    return _say(args, [present.facts_json(item) for item in items], text)


def _find(authority: CertificateAuthority, name: str) -> CertificateFacts:
    places = authority.places
    named = [] if "/" in name else [places.server_of(name), places.client(name)]
    for path in (places.bundle if name == "ca" else None, *named, Path(name)):
        if path and path.is_file():
            return authority.inspect(path)
    raise NotFoundError(f"no certificate {name!r}", hint="jobwire certs show lists them", name=name)


def _revoke(args: argparse.Namespace) -> int:
    authority = _authority(args)
    serials = [
        serial_text(item) for item in authority.revoke(args.which, reason=RevocationReason(args.reason))
    ]
    crl = str(authority.places.crl)
    text = f"revoked {args.which}: {', '.join(serials)}\n"
    if authority.places.is_server(args.which):
        text += (
            f"jobwire's clients do not load {crl}: they believe its key until the certificate ends, or until "
            "they trust a new authority (jobwire certs rollover begin)"
        )
    else:
        text += f"brokers refuse it once they have loaded {crl} (restart)"
    return _say(args, {"revoked": serials, "crl": crl}, text)


def _crl(args: argparse.Namespace) -> int:
    authority = _authority(args)
    lifetime = None if args.days is None else args.days * DAY
    until = utc_timestamp(authority.refresh_crl(lifetime_seconds=lifetime))
    crl = str(authority.places.crl)
    return _say(args, {"crl": crl, "next_update": until}, f"signed {crl}, good until {until}")


def _check(args: argparse.Namespace) -> int:
    found = _authority(args).check(warn_seconds=args.warn_days * DAY)
    fatal = {Level.ERROR, Level.WARNING} if args.strict else {Level.ERROR}
    failed = any(finding.level in fatal for finding in found)
    value = {"ok": not failed, "findings": [finding.as_json() for finding in found]}
    _say(args, value, present.findings(found) or "certificates: all is well")
    return ExitCode.INVALID if failed else ExitCode.OK


def _prune(args: argparse.Namespace) -> int:
    gone = _authority(args).prune()
    return _say(args, {"removed": gone}, f"removed {len(gone)} expired job certificates")


def _rollover(args: argparse.Namespace) -> int:
    authority = _authority(args)
    renewed: list[str] = []
    match args.step:
        case "begin":
            authority.begin_rollover(permit=args.permit)
        case "switch":
            renewed = authority.switch_rollover()
        case "finish":
            authority.finish_rollover(force=args.force)
        case "cancel":
            authority.cancel_rollover()
    phase = authority.rollover_phase()
    done = f"renewed: {', '.join(renewed)}\n" if renewed else ""
    ended = {"finish": _FINISHED, "cancel": _CANCELLED}.get(args.step, "")
    text = f"{done}{ended}{phase}: {_NEXT_STEP[phase]}"
    return _say(args, {"phase": str(phase), "renewed": renewed, "next": _NEXT_STEP[phase]}, text)
