"""The outbox of one job: events that are the job's already and that the registry has not confirmed yet.

NDJSON, append-only, one entry a line; what stands in it is sent again until it is trimmed. Two locks
guard it, neither taken here: appending, trimming and rewriting happen under the job's own lock (the
record's, or the one beside a ticket); sending and the sent mark under its send lock. Reading needs
none: a line without its line break is not there yet. Order: send lock before the job's lock.

    append ── fsync ──► (kept) ── PUBACK ──► sent mark ── confirmed by the registry ──► trimmed
"""

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jobwire.core.clock import Clock
from jobwire.core.topics import JOB_ID_PATTERN
from jobwire.jobs.event import EVENT_TYPES
from jobwire.storage.durable import append_durably, replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FILE_MODE, FileSystem, StrPath, SystemFiles

# A rewrite costs three flushes, an entry some 400 bytes: below this it is cheaper to skip than to cut.
REWRITE_BYTES = 32 * 1024
# What the broker took and the registry does not confirm is sent again after this long, then after twice
# as long, and so on: an absent registry process must not make every publish repeat the whole backlog.
# A state that only tells of progress comes every five seconds at most (`states`): wait for longer.
RESEND_SECONDS = 10.0
# Longer than any line: a payload of 64 KiB at most doubles when it is quoted, plus the other fields.
_TAIL_BYTES = 192 * 1024
_ASIDE = ".damaged"
_JOB_ID = re.compile(JOB_ID_PATTERN)
_log = logging.getLogger("jobwire.outbox")


class SignedEvent(NamedTuple):
    """One signed event as it goes on the wire; `retain` for terminal events."""

    seq: int
    attempt: int
    event: str
    retain: bool
    payload: bytes


class SentMark(NamedTuple):
    """What is known to have reached the broker: not durable, losing it costs a redelivery.

    `sent_at` is epoch seconds of the last sending, `failed_at` monotonic seconds of the last try that found
    no broker at `address`. The events up to `waiting_seq` wait since `waiting_at` for a confirmation and were
    sent again `repeats` times.
    """

    acked_seq: int = 0
    sent_at: float = 0.0
    repeats: int = 0
    failed_at: float = 0.0
    address: str = ""
    waiting_seq: int = 0
    waiting_at: float = 0.0


class Position(NamedTuple):
    """What the record says: `confirmed_seq` is None where no registry process confirms anything."""

    attempt: int
    last_seq: int
    confirmed_seq: int | None


class Outbox:
    """The entries of one job in one file. `keep_last` for the outbox beside a ticket.

    There the last entry is where the job's seq is remembered, so trimming leaves it in place.
    """

    def __init__(self, path: StrPath, *, files: FileSystem | None = None, keep_last: bool = False) -> None:
        self.path = os.fspath(path)
        self._files = files or SystemFiles()
        self._keep_last = keep_last
        self._mark_path = f"{self.path.removesuffix('.ndjson')}.sent"
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

        A line that cannot be read is reported to the log, once, and left out: its event is in the record and
        in the audit log, and the others must not wait for it. `set_aside` takes it away.
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
                "what cannot be read of %s (lines: %d) was moved to %s; its events are in the job's history",
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
        gone = [entry for entry in entries if entry.seq <= through_seq]
        if self._keep_last and gone and len(gone) == len(entries):
            gone.pop()
        if not gone:
            return
        if len(gone) == len(entries):
            # Without a flush: after a power cut it may be full again.
            self._cut(0)
        elif sum(len(entry.payload) for entry in gone) >= REWRITE_BYTES:
            self.rewrite(entries[len(gone) :])

    def rewrite(self, entries: Iterable[SignedEvent]) -> None:
        """Put exactly `entries` into the outbox, durably and in one step."""
        replace_durably(self.path, b"".join(map(encode_entry, entries)), files=self._files)

    def length(self) -> int:
        """Return the file's length in bytes, 0 where there is none."""
        try:
            return os.stat(self.path).st_size  # noqa: PTH116 - pathlib is an import more at start-up
        except OSError:
            return 0

    def take_back(self, entry: SignedEvent) -> None:
        """Cut `entry` off again where it is the last one. Raises StorageError."""
        line = encode_entry(entry)
        # Found by its bytes, not by an earlier length: the append may have cut a torn line first.
        if self._read(0).endswith(line):
            self._cut(self.length() - len(line))

    def _cut(self, length: int) -> None:
        try:
            descriptor = self._files.open_append(self.path, FILE_MODE)
            try:
                self._files.truncate(descriptor, length)
            finally:
                self._files.close(descriptor)
        except OSError as error:
            raise storage_failure("shorten", self.path, error) from error

    def sent_mark(self) -> SentMark:
        """Return the mark; the empty one where there is none or it is damaged."""
        try:
            with open(self._mark_path, "rb") as file:  # noqa: PTH123 - pathlib is an import more at start-up
                return _decode_mark(file.read(4096))
        except (OSError, ValueError, TypeError):
            return SentMark()

    def mark_sent(self, mark: SentMark) -> None:
        """Note `mark`; a failure is only logged, since the mark saves work and promises nothing."""
        try:
            descriptor = os.open(
                self._mark_path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE
            )
            try:
                # Fixed width: a shorter text over a longer one would leave its end behind.
                os.pwrite(descriptor, json.dumps(mark).ljust(256).encode(), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            _log.warning("cannot note what was sent in %s: %s", self._mark_path, error.strerror)

    def remove(self) -> None:
        """Remove the outbox and its mark; missing ones are fine. What was set aside stays."""
        self._remove(self.path, self._mark_path)

    def purge(self) -> None:
        """Remove what was set aside, too."""
        self._remove(self.path, self._mark_path, self._aside_path)

    def _remove(self, *paths: str) -> None:
        for path in paths:
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


def due_entries(
    entries: Iterable[SignedEvent], mark: SentMark, position: Position, *, now: float, repeat: bool = False
) -> list[SignedEvent]:
    """Return what must be sent, in order. Whoever sends holds the send lock and notes the mark after it.

    Everything that no PUBACK came for; with `repeat`, or when RESEND_SECONDS have passed (`now` is epoch
    seconds), also what the registry did not confirm. Never an earlier attempt's (signed with a key that
    nobody accepts any more) nor what the record does not hold yet (its writer may have died just now).
    """
    confirmed = position.confirmed_seq
    again = repeat or (confirmed is not None and _waited_enough(mark, confirmed, now))
    after = (confirmed or 0) if again else max(confirmed or 0, mark.acked_seq)
    return [
        entry
        for entry in entries
        if after < entry.seq <= position.last_seq and entry.attempt == position.attempt
    ]


def mark_after(
    mark: SentMark, position: Position, due: Sequence[SignedEvent], *, acked_seq: int, now: float
) -> SentMark:
    """Return the mark after `due` was sent and acknowledged up to `acked_seq`; `now` is epoch seconds.

    The time until something is sent again runs from its own sending: what a worker that never falls
    silent sends later does not put it off.
    """
    if due and due[0].seq <= mark.acked_seq:
        return SentMark(acked_seq, now, mark.repeats + 1, waiting_seq=acked_seq, waiting_at=now)
    if mark.waiting_seq > (position.confirmed_seq or 0):
        return SentMark(
            acked_seq, now, mark.repeats, waiting_seq=mark.waiting_seq, waiting_at=mark.waiting_at
        )
    return SentMark(acked_seq, now, waiting_seq=acked_seq, waiting_at=now)


def note_sent(
    sent: Iterable[SignedEvent],
    due: Sequence[SignedEvent],
    mark: SentMark,
    position: Position,
    *,
    note: Callable[[SentMark], None],
    clock: Clock,
) -> None:
    """Go through `sent`, which yields what the broker has of `due`; `note` how far it came."""
    acked = mark.acked_seq
    try:
        for event in sent:
            acked = max(acked, event.seq)
    finally:
        if due:
            note(mark_after(mark, position, due, acked_seq=acked, now=clock.now()))


def _waited_enough(mark: SentMark, confirmed_seq: int, now: float) -> bool:
    """Tell whether unconfirmed events are to be sent again."""
    since, repeats = mark.sent_at, 0
    if mark.waiting_seq > confirmed_seq:
        since, repeats = mark.waiting_at, mark.repeats
    # A clock that was set back counts as enough: once more is harmless.
    return not 0 <= now - since < RESEND_SECONDS * 2 ** min(repeats, 16)


def send_lock_name(job_id: str) -> str:
    """Return the name, for `RecordStore.lock_path`, of the lock that whoever sends this outbox holds."""
    return f"{job_id}.send"


def job_outboxes(directory: StrPath) -> list[str]:
    """Return the job ids that have an outbox in `directory`, sorted; none where it does not exist."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - pathlib is an import more at start-up
    except FileNotFoundError:
        return []
    stems = (name.removesuffix(".ndjson") for name in names if name.endswith(".ndjson"))
    return sorted(stem for stem in stems if _JOB_ID.fullmatch(stem))


def damaged_outboxes(directory: StrPath) -> list[str]:
    """Return the ids of the jobs of whose outbox something was set aside, sorted."""
    suffix = f".ndjson{_ASIDE}"
    try:
        names = os.listdir(directory)  # noqa: PTH208 - pathlib is an import more at start-up
    except FileNotFoundError:
        return []
    return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix))


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _whole_lines(content: bytes) -> Sequence[bytes]:
    """Split at line breaks; what follows the last one is torn and was never acknowledged."""
    return content.split(b"\n")[:-1]


def _decode_mark(content: bytes) -> SentMark:
    acked_seq, sent_at, repeats, failed_at, address, waiting_seq, waiting_at = json.loads(content)
    return SentMark(
        int(acked_seq),
        float(sent_at),
        int(repeats),
        float(failed_at),
        str(address),
        int(waiting_seq),
        float(waiting_at),
    )
