"""The index of issued serials: append-only JSON lines, so that issuing costs the same at any size.

A serial is written here before its certificate exists: a certificate in the wild is never unlisted.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jobwire.certs import files
from jobwire.certs.values import Kind, RevocationReason
from jobwire.core.errors import StorageError
from jobwire.storage.durable import append_durably, replace_durably

_OF_A_REVOCATION = ("revoked_at", "reason")


class SerialEntry(NamedTuple):
    """One issued certificate. `issuer`: hex key identifier of its authority; times: epoch seconds."""

    serial: int
    name: str
    kind: Kind
    issuer: str
    not_before: float
    not_after: float
    revoked_at: float | None = None
    reason: RevocationReason = RevocationReason.UNSPECIFIED


class Index:
    """Reads and appends the index file. Writers hold the authority's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> dict[int, SerialEntry]:
        """Return all certificates by serial, in the order of issue; StorageError if a line is unreadable."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}", path=str(self.path)) from error
        entries: dict[int, SerialEntry] = {}
        # What follows the last newline is torn: its certificate was never written.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                _apply(entries, json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(
                    f"line {number} of {self.path} is damaged",
                    hint="restore the file from a backup, or delete that line and issue again what it named",
                    path=str(self.path),
                    line=number,
                ) from error
        return entries

    def add(self, entry: SerialEntry) -> None:
        """Record that a certificate is about to be written."""
        append_durably(self.path, _issued(entry), files=files.FILES)

    def revoke(self, serial: int, *, at: float, reason: RevocationReason) -> None:
        """Record that a certificate is revoked from `at` on."""
        append_durably(self.path, _revoked(serial, at, reason), files=files.FILES)

    def rewrite(self, entries: Iterable[SerialEntry]) -> None:
        """Replace the whole file by `entries` (compaction)."""
        lines: list[bytes] = []
        for entry in entries:
            lines.append(_issued(entry))
            if (at := entry.revoked_at) is not None:
                lines.append(_revoked(entry.serial, at, entry.reason))
        replace_durably(self.path, b"".join(lines), files=files.FILES)


def _issued(entry: SerialEntry) -> bytes:
    fields = {name: value for name, value in entry._asdict().items() if name not in _OF_A_REVOCATION}
    return _line(event="issued", **fields | {"serial": f"{entry.serial:x}"})


def _revoked(serial: int, at: float, reason: RevocationReason) -> bytes:
    return _line(event="revoked", serial=f"{serial:x}", at=at, reason=reason)


def _line(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _apply(entries: dict[int, SerialEntry], fields: dict[str, Any]) -> None:
    serial = int(str(fields["serial"]), 16)
    match fields["event"]:
        case "issued":
            name, kind, issuer = (str(fields[key]) for key in ("name", "kind", "issuer"))
            start, end = (float(str(fields[key])) for key in ("not_before", "not_after"))
            entries[serial] = SerialEntry(serial, name, Kind(kind), issuer, start, end)
        case "revoked":
            at, reason = float(str(fields["at"])), RevocationReason(str(fields["reason"]))
            entries[serial] = entries[serial]._replace(revoked_at=at, reason=reason)
        case other:
            raise ValueError(other)
