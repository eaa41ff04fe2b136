"""What `jobwire certs` does: create the authority, issue, show, revoke, renew, check, move to a new one."""

import argparse
import json
import sys
from pathlib import Path

from jobwire.certs import present
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import (
    DAY,
    DEFAULT_SERVER_NAMES,
    HOUR,
    CertificateFacts,
    Issued,
    Level,
    Phase,
    RevocationReason,
    serial_text,
)
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import NotFoundError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import table
from jobwire.storage.home_paths import HomePaths

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


def _authority(args: argparse.Namespace) -> CertificateAuthority:
    return CertificateAuthority(HomePaths(args.home).certs)


def _say(args: argparse.Namespace, value: object, text: str) -> int:
    print(json.dumps(value) if args.json else text)
    return ExitCode.OK


def _say_issued(args: argparse.Namespace, verb: str, issued: Issued) -> int:
    rows = table([("  certificate", str(issued.certfile)), ("  key", str(issued.keyfile))], None)
    said = f"{verb} {issued.name}, valid until {utc_timestamp(issued.not_after)}"
    return _say(args, present.issued_json(issued), "\n".join([said, *rows]))


def init(args: argparse.Namespace) -> int:
    """Create the authority and the broker's certificate."""
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


def issue(args: argparse.Namespace) -> int:
    """Issue a client certificate."""
    issued = _authority(args).issue(args.name, lifetime_seconds=args.days * DAY, force=args.force)
    return _say_issued(args, "issued", issued)


def issue_job(args: argparse.Namespace) -> int:
    """Issue a job's client certificate."""
    issued = _authority(args).issue_job(args.job, lifetime_seconds=args.hours * HOUR, force=args.force)
    return _say_issued(args, "issued", issued)


def issue_server(args: argparse.Namespace) -> int:
    """Issue the certificate of a server beside the broker; warns where it names the broker."""
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


def renew(args: argparse.Namespace) -> int:
    """Renew a certificate."""
    issued = _authority(args).renew(
        args.name,
        server_names=args.server_name,
        lifetime_seconds=None if args.days is None else args.days * DAY,
        new_key=args.new_key,
    )
    return _say_issued(args, "renewed", issued)


def show(args: argparse.Namespace) -> int:
    """Print certificates, ends and revocations."""
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


def revoke(args: argparse.Namespace) -> int:
    """Revoke all certificates of a name, or one."""
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


def crl(args: argparse.Namespace) -> int:
    """Sign the revocation list anew."""
    authority = _authority(args)
    lifetime = None if args.days is None else args.days * DAY
    until = utc_timestamp(authority.refresh_crl(lifetime_seconds=lifetime))
    crl = str(authority.places.crl)
    return _say(args, {"crl": crl, "next_update": until}, f"signed {crl}, good until {until}")


def check(args: argparse.Namespace) -> int:
    """Print what is wrong or runs out soon; INVALID for errors."""
    found = _authority(args).check(warn_seconds=args.warn_days * DAY)
    fatal = {Level.ERROR, Level.WARNING} if args.strict else {Level.ERROR}
    failed = any(finding.level in fatal for finding in found)
    value = {"ok": not failed, "findings": [finding.as_json() for finding in found]}
    _say(args, value, present.findings(found) or "certificates: all is well")
    return ExitCode.INVALID if failed else ExitCode.OK


def prune(args: argparse.Namespace) -> int:
    """Remove expired job certificates."""
    gone = _authority(args).prune()
    return _say(args, {"removed": gone}, f"removed {len(gone)} expired job certificates")


def rollover(args: argparse.Namespace) -> int:
    """Make one step of a rollover, or tell which is next."""
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
