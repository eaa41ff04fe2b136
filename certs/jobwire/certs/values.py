"""The values that the authority hands out; light to import, no cryptography."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.exit_codes import ExitCode
from jobwire.core.terminal_text import safe

if TYPE_CHECKING:
    from pathlib import Path

    from jobwire.core.errors import JobwireError

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# The authority outlives what it signs by far; the server's lifetime follows the limit that browsers set
# for public ones (398 days); a job's certificate is for one attempt, so that revoking stays the exception.
CA_LIFETIME = 3650 * DAY
SERVER_LIFETIME = 397 * DAY
ROLE_LIFETIME = 365 * DAY
JOB_LIFETIME = DAY
# Clocks of two hosts differ: everything is valid from a little before its signing.
SKEW = 5 * MINUTE
WARN_WITHIN = 30 * DAY

# The CN of the broker's certificate; that of a further server is its name.
BROKER_COMMON_NAME = "jobwire broker"
DEFAULT_SERVER_NAMES = ("localhost", "127.0.0.1", "::1")


class Kind(StrEnum):
    """What a certificate is for."""

    AUTHORITY = "authority"
    SERVER = "server"
    ROLE = "role"
    JOB = "job"


DEFAULT_LIFETIMES = {
    Kind.AUTHORITY: CA_LIFETIME,
    Kind.SERVER: SERVER_LIFETIME,
    Kind.ROLE: ROLE_LIFETIME,
    Kind.JOB: JOB_LIFETIME,
}


class RevocationReason(StrEnum):
    """Why a certificate is revoked (RFC 5280 section 5.3.1, the ones an operator meets)."""

    UNSPECIFIED = "unspecified"
    KEY_COMPROMISE = "keyCompromise"
    SUPERSEDED = "superseded"
    CESSATION = "cessationOfOperation"


class Issued(NamedTuple):
    """A certificate just written. `not_after` in seconds since the epoch."""

    name: str
    certfile: Path
    keyfile: Path
    serial: int
    not_after: float


class CertificateFacts(NamedTuple):
    """What one certificate says. Times in seconds since the epoch, `days_left` negative once expired."""

    path: Path
    kind: str
    name: str
    subject: str
    issuer: str
    names: tuple[str, ...]
    serial: int
    not_before: float
    not_after: float
    days_left: float
    fingerprint: str
    revoked: bool


class Level(StrEnum):
    """How bad a finding is: something fails now, something will fail, something to know, nothing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    WELL = "ok"


class Finding(NamedTuple):
    """One result of a check: what is wrong with `subject`, and the remedy."""

    level: Level
    subject: str
    message: str
    hint: str = ""
    exit_code: ExitCode = ExitCode.INVALID

    @classmethod
    def of(cls, subject: str, error: JobwireError) -> Finding:
        """Return the finding that `error` is about `subject`."""
        return cls(Level.ERROR, subject, error.message, error.hint, error.exit_code)

    def as_json(self) -> dict[str, str]:
        """Return what the checks print with --json."""
        return {"level": self.level, "subject": self.subject, "message": self.message, "hint": self.hint}

    def in_words(self, word: str = "") -> str:
        """Return it for people, the remedy on a line below; `word` stands for the level's own."""
        remedy = f"\n{'':<8} {safe(self.hint)}" if self.hint else ""
        return f"{word or self.level:<8} {safe(self.subject)}: {safe(self.message)}{remedy}"


class Phase(StrEnum):
    """Where a rollover stands: who signs, and whom the bundle trusts."""

    IDLE = "idle"
    BEGUN = "begun"
    SWITCHED = "switched"


def serial_text(serial: int) -> str:
    """Return `serial` in upper-case hex with whole bytes, as openssl prints it."""
    text = f"{serial:X}"
    return text if len(text) % 2 == 0 else "0" + text


def ends_soon(start: float, end: float, now: float, *, warn_seconds: float = WARN_WITHIN) -> bool:
    """Tell whether the end is near: for what lives shortly, near is the last third."""
    return end - now < min(warn_seconds, (end - start) / 3)
