"""What `jobwire certs` does: create the authority, issue, show, revoke, renew, check, move to a new one."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from jobwire.certs import rollover as moving
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.inspection import rollover_phase
from jobwire.certs.values import (
    DAY,
    DEFAULT_SERVER_NAMES,
    HOUR,
    CertificateFacts,
    Finding,
    Issued,
    Level,
    Phase,
    RevocationReason,
    ends_soon,
    serial_text,
)
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import NotFoundError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import table
from jobwire.storage.home_paths import HomePaths

_HEADER = ("KIND", "NAME", "STATE", "UNTIL (UTC)", "LEFT")
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
    return _say(args, _issued_json(issued), "\n".join([said, *rows]))


def init(args: argparse.Namespace) -> int:
    """Create the authority and the broker's certificate."""
    authority = _authority(args)
    names = args.server_name or DEFAULT_SERVER_NAMES
    issued = authority.init(names, force=args.force, permit=args.permit, lifetime_seconds=args.days * DAY)
    places = authority.places
    value = {"ca_certs": str(places.bundle), "crl": str(places.crl), **_issued_json(issued)}
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
    text = "\n\n".join(map(_details, items)) if args.long or args.name else _table(items)
    return _say(args, [_facts_json(item) for item in items], text)


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
    code = print_findings(args, found)
    if not (found or args.json):
        print("certificates: all is well")
    return code


def print_findings(args: argparse.Namespace, found: Sequence[Finding]) -> ExitCode:
    """Print what a check found; return INVALID for errors, with --strict for warnings too."""
    fatal = {Level.ERROR, Level.WARNING} if args.strict else {Level.ERROR}
    failed = any(finding.level in fatal for finding in found)
    if args.json:
        print(json.dumps({"ok": not failed, "findings": [finding.as_json() for finding in found]}))
    else:
        print("".join(f"{finding.in_words()}\n" for finding in found), end="")
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
            moving.begin(authority, permit=args.permit)
        case "switch":
            renewed = moving.switch(authority)
        case "finish":
            moving.finish(authority, force=args.force)
        case "cancel":
            moving.cancel(authority)
    phase = rollover_phase(authority.places)
    done = f"renewed: {', '.join(renewed)}\n" if renewed else ""
    ended = {"finish": _FINISHED, "cancel": _CANCELLED}.get(args.step, "")
    text = f"{done}{ended}{phase}: {_NEXT_STEP[phase]}"
    return _say(args, {"phase": str(phase), "renewed": renewed, "next": _NEXT_STEP[phase]}, text)


def _issued_json(issued: Issued) -> dict[str, object]:
    """Return what `issue`, `renew` and `init` print with --json."""
    return {
        "name": issued.name,
        "certfile": str(issued.certfile),
        "keyfile": str(issued.keyfile),
        "serial": serial_text(issued.serial),
        "not_after": utc_timestamp(issued.not_after),
    }


def _facts_json(item: CertificateFacts) -> dict[str, object]:
    """Return one certificate as `show --json` prints it."""
    return {
        "kind": item.kind,
        "name": item.name,
        "state": _state(item),
        "subject": item.subject,
        "issuer": item.issuer,
        "sans": list(item.names),
        "serial": serial_text(item.serial),
        "not_before": utc_timestamp(item.not_before),
        "not_after": utc_timestamp(item.not_after),
        "days_left": round(item.days_left, 2),
        "revoked": item.revoked,
        "sha256": item.fingerprint,
        "path": str(item.path),
    }


def _state(item: CertificateFacts) -> str:
    """Return `valid`, `expiring`, `expired`, `revoked` or `not yet` (its start lies ahead)."""
    left, whole = item.days_left * DAY, item.not_after - item.not_before
    if item.revoked:
        return "revoked"
    if left < 0:
        return "expired"
    if left > whole:
        return "not yet"
    return "expiring" if ends_soon(0, whole, whole - left) else "valid"


def _table(items: Iterable[CertificateFacts]) -> str:
    """Return one line a certificate under a header, in at most 80 columns for names of usual length."""
    rows = [(item.kind, item.name, _state(item), _minute(item.not_after), _left(item)) for item in items]
    return "\n".join(table([_HEADER, *rows], None))


def _details(item: CertificateFacts) -> str:
    """Return everything about one certificate, a fact a line."""
    facts = [
        ("file", str(item.path)),
        ("kind", item.kind),
        ("subject", item.subject),
        ("issuer", item.issuer),
        ("names", ", ".join(item.names) or "-"),
        ("serial", serial_text(item.serial)),
        ("valid from", utc_timestamp(item.not_before)),
        ("valid until", f"{utc_timestamp(item.not_after)} ({_left(item)} left)"),
        ("state", _state(item)),
        ("sha256", item.fingerprint),
    ]
    return "\n".join(table(facts, None))


def _left(item: CertificateFacts) -> str:
    """Return the time left in the unit a person would choose."""
    seconds = item.days_left * DAY
    if seconds < 0:
        return "-"
    return f"{item.days_left:.0f} days" if seconds >= 2 * DAY else f"{seconds / HOUR:.1f} h"


def _minute(seconds: float) -> str:
    return utc_timestamp(seconds)[:16].replace("T", " ")
