"""The outbox beside a ticket: a file of entries."""

import json
import os
from collections.abc import Iterable, Sequence

from jobwire.core.late_log import LateLog
from jobwire.delivery.outbox import SentMarkFile, SignedEvent
from jobwire.jobs.event import EVENT_TYPES
from jobwire.storage.durable import append_durably, replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FileSystem, StrPath, SystemFiles

# A rewrite costs three flushes, an entry some 400 bytes: below this it is cheaper to skip than to cut.
REWRITE_BYTES = 32 * 1024
# Longer than any line: a payload of 64 KiB at most doubles when it is quoted, plus the other fields.
_TAIL_BYTES = 192 * 1024
_ASIDE = ".damaged"
_log = LateLog("jobwire.outbox")


class OutboxFile:
    """The entries of one job in one file; see `Outbox`.

    NDJSON, append-only, one entry a line; a line without its line break is not there yet. The last entry is
    where the job's seq is remembered, so trimming leaves it in place.
    """

    def __init__(self, path: StrPath, *, files: FileSystem | None = None) -> None:
        self.path = os.fspath(path)
        self._files = files or SystemFiles()
        self.mark = SentMarkFile(f"{self.path.removesuffix('.ndjson')}.sent")
        self._aside_path = f"{self.path}{_ASIDE}"
        # Set by reading: a line cannot be read.
        self.damaged = False

    def append(self, entry: SignedEvent) -> None:
        """Add `entry` and return when it is on the disk; a torn last line is cut first.

        Raises StorageError, with nothing of the entry left behind.
        """
        append_durably(self.path, encode_entry(entry), files=self._files)

    def entries(self, *, after: int = 0) -> list[SignedEvent]:
        """Return the whole entries with a seq above `after`, in seq order, each seq once.

        A line that cannot be read is reported to the log, once, and left out: the others must not wait for
        it. `set_aside` takes it away.
        """
        found: dict[int, SignedEvent] = {}
        for number, line in enumerate(_whole_lines(self._read(0)), 1):
            entry = decode_entry(line)
            if entry is None:
                self._report_damage(number)
            elif entry.seq > after:
                found[entry.seq] = entry
        return [found[seq] for seq in sorted(found)]

    def set_aside(self) -> int:
        """Move the lines that cannot be read behind those in `<outbox>.damaged`; return their number.

        Under the job's lock. A crash in between leaves them in both.
        """
        lines = _whole_lines(self._read(0))
        damaged = [line for line in lines if decode_entry(line) is None]
        if damaged:
            append_durably(self._aside_path, _joined(damaged), files=self._files)
            whole = [line for line in lines if decode_entry(line) is not None]
            replace_durably(self.path, _joined(whole), files=self._files)
            _log.warning(
                "what cannot be read of %s (lines: %d) was moved to %s",
                self.path,
                len(damaged),
                self._aside_path,
            )
        self.damaged = False
        return len(damaged)

    def last(self) -> SignedEvent | None:
        """Return the newest whole entry; reads the end of the file only."""
        for line in reversed(_whole_lines(self._read(_TAIL_BYTES))):
            entry = decode_entry(line)
            if entry is not None:
                return entry
        return None

    @property
    def last_seq(self) -> int:
        """Return the highest seq in the outbox, 0 where it is empty."""
        last = self.last()
        return last.seq if last else 0

    def trim(self, through_seq: int) -> None:
        """Drop the entries up to and with `through_seq`, where it is worth the writing.

        A crash leaves the old entries or the new ones; old ones are sent once more.
        """
        entries = self.entries()
        gone = [entry for entry in entries[:-1] if entry.seq <= through_seq]
        if sum(len(entry.payload) for entry in gone) >= REWRITE_BYTES:
            kept = b"".join(map(encode_entry, entries[len(gone) :]))
            replace_durably(self.path, kept, files=self._files)

    def remove(self) -> None:
        """Remove the outbox and its mark; missing ones are fine. What was set aside stays."""
        for path in (self.path, self.mark.path):
            try:
                self._files.unlink(path)
            except OSError as error:
                raise storage_failure("remove", path, error) from error

    def _report_damage(self, number: int) -> None:
        if not self.damaged:
            _log.warning("line %d of %s cannot be read and is left out", number, self.path)
        self.damaged = True

    def _read(self, tail: int) -> bytes:
        """Return the file's bytes, or about its last `tail` ones; empty where there is no file."""
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - pathlib is an import more at start-up
                size = os.fstat(file.fileno()).st_size
                if not tail or size <= tail:
                    return file.read()
                file.seek(size - tail)
                # The first line of the tail is most likely cut.
                return file.read().partition(b"\n")[2]
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise storage_failure("read", self.path, error) from error


def encode_entry(entry: SignedEvent) -> bytes:
    """Return the entry as one line."""
    body = entry._asdict()
    # Canonical JSON is UTF-8: text in the line keeps the outbox readable for people.
    body["payload"] = entry.payload.decode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode_entry(line: bytes) -> SignedEvent | None:
    """Return the entry in `line`, or None where the line is none."""
    try:
        body = json.loads(line)
        entry = SignedEvent(
            body["seq"], body["attempt"], body["event"], body["retain"], body["payload"].encode()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if tuple(map(type, entry)) != _TYPES or entry.seq < 1 or entry.event not in EVENT_TYPES:
        return None
    return entry


_TYPES = (int, int, str, bool, bytes)


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _whole_lines(content: bytes) -> Sequence[bytes]:
    """Split at line breaks; what follows the last one is torn and was never acknowledged."""
    return content.split(b"\n")[:-1]
