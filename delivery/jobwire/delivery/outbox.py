"""The outbox of one job: events that are the job's already and that the registry has not confirmed yet.

In a home it is what the job's history holds above `confirmed_seq`; beside a ticket a file of its own. Two
locks guard it, neither taken here: appending and trimming happen under the job's own lock (the record's,
or the one beside a ticket); sending and the sent mark under its send lock. Order: send lock before the
job's lock.

    append ── fsync ──► (kept) ── PUBACK ──► sent mark ── confirmed by the registry ──► done
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.core.late_log import LateLog
from jobwire.storage.files import FILE_MODE

# What the broker took and the registry does not confirm is sent again after this long, then after twice
# as long, and so on: an absent registry process must not make every publish repeat the whole backlog.
# A state that only tells of progress comes every five seconds at most (`states`): wait for longer.
RESEND_SECONDS = 10.0
# Tries to reach the broker, where nobody says otherwise.
DEFAULT_ATTEMPTS = 3
# Retained terminal events and states leave an MQTT 5 broker after a week (SPEC section 1), likewise.
EXPIRY_SECONDS = 7 * 86400
_log = LateLog("jobwire.outbox")


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


class SentMarkFile:
    """The sent mark of one outbox; whoever writes it holds the send lock."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> SentMark:
        """Return the mark; the empty one where there is none or it is damaged."""
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - pathlib is an import more at start-up
                return _decode_mark(file.read(4096))
        except (OSError, ValueError, TypeError):
            return SentMark()

    def write(self, mark: SentMark) -> None:
        """Note `mark`; a failure is only logged, since the mark saves work and promises nothing."""
        try:
            descriptor = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE
            )
            try:
                # Fixed width: a shorter text over a longer one would leave its end behind.
                os.pwrite(descriptor, json.dumps(mark).ljust(256).encode(), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            _log.warning("cannot note what was sent in %s: %s", self.path, error.strerror)


class Position(NamedTuple):
    """What the record says: `confirmed_seq` is None where no registry process confirms anything."""

    attempt: int
    last_seq: int
    confirmed_seq: int | None


class Delivery(NamedTuple):
    """What became of the entries up to a seq.

    `delivered`: the broker acknowledged them. `confirmed`: the registry process has them on its disk;
    None where that was not waited for. `failure` is raised by whoever reports this. `waiting` is how
    many events a flush leaves for the next one.
    """

    delivered: bool
    confirmed: bool | None = None
    failure: JobwireError | None = None
    sent: int = 0
    waiting: int = 0


class Outbox(Protocol):
    """The events of one job that may have to be sent, and the sent mark."""

    @property
    def path(self) -> str:
        """Return the file that holds them, for messages to people."""
        ...

    @property
    def mark(self) -> SentMarkFile:
        """Return the sent mark."""
        ...

    @property
    def damaged(self) -> bool:
        """Tell whether something could not be read so far."""
        ...

    def entries(self, *, after: int = 0) -> Iterable[SignedEvent]:
        """Return the whole entries with a seq above `after`, in seq order, each seq once.

        Costs what is above `after`, not what is below. One that cannot be read is reported to the log, once,
        and left out: the others must not wait for it.
        """
        ...

    def last(self) -> SignedEvent | None:
        """Return the newest whole entry; reads the end of the file only."""
        ...

    @property
    def last_seq(self) -> int:
        """Return the highest seq in the outbox, 0 where it is empty."""
        ...


def due_entries(
    outbox: Outbox, mark: SentMark, position: Position, *, now: float, repeat: bool = False
) -> Iterator[SignedEvent]:
    """Yield what must be sent, in order. Whoever sends holds the send lock and notes the mark after it.

    Everything that no PUBACK came for; with `repeat`, or when RESEND_SECONDS have passed
    (`now` is epoch seconds), also what the registry did not confirm. Never an earlier attempt's (signed with
    a key that nobody accepts any more) nor what the record does not hold yet (its writer may have died just
    now).
    """
    after = due_after(mark, position, now=now, repeat=repeat)
    if after >= position.last_seq:
        return
    for entry in outbox.entries(after=after):
        if entry.seq > position.last_seq:
            return
        if entry.attempt == position.attempt:
            yield entry


def unconfirmed(outbox: Outbox, mark: SentMark, position: Position) -> Iterator[SignedEvent]:
    """Yield what a flush sends: all that is not confirmed, or not acknowledged where nobody confirms."""
    return due_entries(outbox, mark, position, now=0.0, repeat=True)


def due_after(mark: SentMark, position: Position, *, now: float, repeat: bool) -> int:
    """Return the seq up to which nothing must be sent: confirmed, or acknowledged where nobody confirms."""
    confirmed = position.confirmed_seq
    if confirmed is None:
        return mark.acked_seq
    again = repeat or _waited_enough(mark, confirmed, now)
    return confirmed if again else max(confirmed, mark.acked_seq)


def mark_after(mark: SentMark, position: Position, *, first_seq: int, acked_seq: int, now: float) -> SentMark:
    """Return the mark after sending from `first_seq` on, acknowledged up to `acked_seq`; `now` is epoch s.

    The time until something is sent again runs from its own sending: what a worker that never falls
    silent sends later does not put it off. Nothing waits where nobody confirms.
    """
    if position.confirmed_seq is None:
        return SentMark(acked_seq, now)
    if first_seq <= mark.acked_seq:
        return SentMark(acked_seq, now, mark.repeats + 1, waiting_seq=acked_seq, waiting_at=now)
    if mark.waiting_seq > (position.confirmed_seq or 0):
        return SentMark(
            acked_seq, now, mark.repeats, waiting_seq=mark.waiting_seq, waiting_at=mark.waiting_at
        )
    return SentMark(acked_seq, now, waiting_seq=acked_seq, waiting_at=now)


def is_settled(position: Position, mark: SentMark) -> bool:
    """Tell whether nothing is left that anybody waits for."""
    confirmed = position.confirmed_seq
    return position.last_seq <= (mark.acked_seq if confirmed is None else confirmed)


def note_sent(
    sent: Iterable[SignedEvent],
    mark: SentMark,
    position: Position,
    *,
    note: Callable[[SentMark], None],
    clock: Clock,
) -> int:
    """Go through `sent`, which yields what the broker has taken; `note` how far it came, whatever fails.

    Return the seq of the last one, 0 where there was none.
    """
    first = last = 0
    try:
        for event in sent:
            first, last = first or event.seq, event.seq
    finally:
        if first:
            acked = max(mark.acked_seq, last)
            note(mark_after(mark, position, first_seq=first, acked_seq=acked, now=clock.now()))
    return last


def _waited_enough(mark: SentMark, confirmed_seq: int, now: float) -> bool:
    """Tell whether unconfirmed events are to be sent again."""
    since, repeats = mark.sent_at, 0
    if mark.waiting_seq > confirmed_seq:
        since, repeats = mark.waiting_at, mark.repeats
    # A clock that was set back counts as enough: once more is harmless.
    return not 0 <= now - since < RESEND_SECONDS * 2 ** min(repeats, 16)


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
