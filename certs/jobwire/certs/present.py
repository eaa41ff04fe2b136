"""How certificates and findings look to people (plain columns) and to programs (JSON values)."""

from collections.abc import Iterable, Sequence

from jobwire.certs.values import DAY, HOUR, CertificateFacts, Finding, Issued, ends_soon, serial_text
from jobwire.core.clock import utc_timestamp
from jobwire.core.terminal_text import safe
from jobwire.core.terminal_text import table as columns

_HEADER = ("KIND", "NAME", "STATE", "UNTIL (UTC)", "LEFT")


def issued_json(issued: Issued) -> dict[str, object]:
    """Return what `issue`, `renew` and `init` print with --json."""
    return {
        "name": issued.name,
        "certfile": str(issued.certfile),
        "keyfile": str(issued.keyfile),
        "serial": serial_text(issued.serial),
        "not_after": utc_timestamp(issued.not_after),
    }


def facts_json(item: CertificateFacts) -> dict[str, object]:
    """Return one certificate as `show --json` prints it."""
    return {
        "kind": item.kind,
        "name": item.name,
        "state": state(item),
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


def state(item: CertificateFacts) -> str:
    """Return `valid`, `expiring`, `expired`, `revoked` or `not yet` (its start lies ahead)."""
    left, whole = item.days_left * DAY, item.not_after - item.not_before
    if item.revoked:
        return "revoked"
    if left < 0:
        return "expired"
    if left > whole:
        return "not yet"
    return "expiring" if ends_soon(0, whole, whole - left) else "valid"


def table(items: Iterable[CertificateFacts]) -> str:
    """Return one line a certificate under a header, in at most 80 columns for names of usual length."""
    rows = [(item.kind, item.name, state(item), _minute(item.not_after), left(item)) for item in items]
    return "\n".join(columns([_HEADER, *rows], None))


def details(item: CertificateFacts) -> str:
    """Return everything about one certificate, a fact a line."""
    facts = [
        ("file", str(item.path)),
        ("kind", item.kind),
        ("subject", item.subject),
        ("issuer", item.issuer),
        ("names", ", ".join(item.names) or "-"),
        ("serial", serial_text(item.serial)),
        ("valid from", utc_timestamp(item.not_before)),
        ("valid until", f"{utc_timestamp(item.not_after)} ({left(item)} left)"),
        ("state", state(item)),
        ("sha256", item.fingerprint),
    ]
    return "\n".join(columns(facts, None))


def findings(found: Sequence[Finding]) -> str:
    """Return each finding with its remedy below it."""
    lines = []
    for finding in found:
        lines.append(f"{finding.level:<8} {safe(finding.subject)}: {safe(finding.message)}")
        lines.append(f"{'':<8} -> {safe(finding.hint)}")
    return "\n".join(lines)


def left(item: CertificateFacts) -> str:
    """Return the time left in the unit a person would choose."""
    seconds = item.days_left * DAY
    if seconds < 0:
        return "-"
    return f"{item.days_left:.0f} days" if seconds >= 2 * DAY else f"{seconds / HOUR:.1f} h"


def _minute(seconds: float) -> str:
    return utc_timestamp(seconds)[:16].replace("T", " ")
